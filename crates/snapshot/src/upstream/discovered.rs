//! An upstream whose nodes a service has: its configuration stays as it is while its nodes come and go.

use super::{Node, Shared, Upstream};
use crate::uid::next_uid;
use arc_swap::ArcSwapOption;
use discovery::Service;
use std::sync::Arc;
use tokio::sync::watch;

/// Where the nodes of an upstream come from that names a service.
#[derive(Debug)]
pub struct Discovered {
    service: Arc<Service>,
    /// The upstream with the nodes that were heard of last; `None` before any were. What a new one knows of the nodes
    /// that stay it has from the one before.
    form: ArcSwapOption<Upstream>,
    known: watch::Sender<bool>,
}

impl Discovered {
    pub(crate) fn new(service: Arc<Service>) -> Self {
        Self { service, form: ArcSwapOption::empty(), known: watch::Sender::new(false) }
    }

    /// The upstream with the nodes that were heard of last; `None` before anything was heard.
    #[must_use]
    pub fn form(&self) -> Option<Arc<Upstream>> {
        self.form.load_full()
    }

    /// Waits until there is a [`Self::form`].
    pub async fn known(&self) {
        // The sender is here, so it ends for no other reason.
        let _ = self.known.subscribe().wait_for(|known| *known).await;
    }

    /// Takes over from the service what is new of the nodes of `upstream`, which this belongs to; whether anything was.
    /// `before` is what was in use where nothing has been known here yet.
    pub(crate) fn refresh(&self, upstream: &Upstream, before: Option<&Upstream>) -> bool {
        let Some(nodes) = self.service.nodes() else { return false };
        let nodes: Vec<Node> = nodes.iter().map(|node| Node::compile(node, upstream.scheme)).collect();
        let known = self.form();
        if known.as_ref().is_some_and(|known| known.nodes == nodes) {
            return false;
        }
        let before = known.as_deref().or(before).unwrap_or(upstream);
        let mut form = Upstream { uid: next_uid(), nodes, ..upstream.without_nodes() };
        form.shared = Shared::of(&form, &upstream.shared.resource, Some(before));
        self.form.store(Some(Arc::new(form)));
        self.known.send_replace(true);
        true
    }
}

impl PartialEq for Discovered {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.service, &other.service)
    }
}

impl Upstream {
    /// The upstream with its nodes: where it names a service, those that were heard of last.
    #[must_use]
    pub fn latest(self: &Arc<Self>) -> Arc<Self> {
        let form = self.discovered.as_ref().and_then(Discovered::form);
        form.unwrap_or_else(|| Arc::clone(self))
    }

    /// Takes over what its service knows of its nodes now; whether anything was new.
    pub(crate) fn refresh(&self) -> bool {
        self.discovered.as_ref().is_some_and(|discovered| discovered.refresh(self, None))
    }

    fn without_nodes(&self) -> Self {
        Self {
            uid: 0,
            nodes: Vec::new(),
            discovered: None,
            algorithm: self.algorithm,
            hash_key: self.hash_key.clone(),
            scheme: self.scheme,
            pass_host: self.pass_host,
            upstream_host: self.upstream_host.clone(),
            retries: self.retries,
            retry_timeout: self.retry_timeout,
            timeouts: self.timeouts,
            session_idle: self.session_idle,
            keepalive: self.keepalive,
            tls: self.tls.clone(),
            checks: self.checks.clone(),
            outliers: self.outliers,
            shared: Shared::default(),
        }
    }
}
