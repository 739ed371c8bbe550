//! A service and its nodes.

use model::resource::Node;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// A service whose nodes are found out at run time.
#[derive(Debug)]
pub struct Service {
    kind: &'static str,
    name: String,
    nodes: Mutex<Option<Arc<[Node]>>>,
    changes: watch::Sender<()>,
}

impl Service {
    pub(crate) fn new(kind: &'static str, name: &str, changes: watch::Sender<()>) -> Self {
        Self { kind, name: name.to_owned(), nodes: Mutex::default(), changes }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its nodes, as they were heard of last; `None` before anything was heard, be it good or bad.
    #[must_use]
    pub fn nodes(&self) -> Option<Arc<[Node]>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes in what was heard.
    pub(crate) fn heard(&self, nodes: Vec<Node>) {
        let mut known = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_deref() == Some(&nodes[..]) {
            return;
        }
        tracing::info!(
            kind = self.kind,
            service = self.name,
            nodes = nodes.len(),
            "a service's nodes are others"
        );
        *known = Some(nodes.into());
        drop(known);
        self.changes.send_replace(());
    }

    /// Takes in that nothing could be found out: the last good answer stays.
    pub(crate) fn heard_nothing(&self, why: &str) {
        tracing::error!(kind = self.kind, service = self.name, "a service's nodes can't be found out: {why}");
        let unknown = self.nodes().is_none();
        if unknown {
            self.heard(Vec::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str) -> Node {
        Node { host: host.to_owned(), port: None, weight: 1, priority: 0 }
    }

    #[test]
    fn only_what_is_new_is_told_and_failures_change_nothing() {
        let changes = watch::Sender::default();
        let mut told = changes.subscribe();
        let service = Service::new("dns", "a", changes);
        let mut is_told = || {
            told.has_changed().is_ok_and(|changed| {
                changed && {
                    told.mark_unchanged();
                    true
                }
            })
        };
        service.heard(vec![node("a"), node("b")]);
        assert!(is_told());
        service.heard(vec![node("a"), node("b")]);
        service.heard_nothing("");
        assert!(!is_told());
        assert_eq!(service.nodes().map(|nodes| nodes.len()), Some(2));
        service.heard(Vec::new());
        assert!(is_told());
    }

    #[test]
    fn a_first_failure_is_an_answer() {
        let service = Service::new("dns", "a", watch::Sender::default());
        assert_eq!(service.nodes(), None);
        service.heard_nothing("");
        assert_eq!(service.nodes().as_deref(), Some(&[][..]));
    }
}
