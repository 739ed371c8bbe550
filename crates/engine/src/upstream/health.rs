//! Health checks as one worker takes part in them: which nodes may be picked, and what its requests say of them.
//!
//! Nothing here waits or locks: a node's health is one atomic word that all threads share, and a worker looks at the
//! nodes again only when one of them has become usable or unusable.

use super::state::Served;
use crate::error::{ErrorKind, Side};
use balance::health::{Event, Health};
use snapshot::{Board, Watched};
use std::cell::{Cell, RefCell};

/// Which nodes of one upstream may be picked, as a worker saw it last.
#[derive(Debug)]
pub(crate) struct Sight {
    /// The board's turns at that time; [`u64::MAX`] before the first look.
    turns: Cell<u64>,
    /// By node; empty where all may be picked: all are healthy, or none is.
    usable: RefCell<Vec<bool>>,
}

impl Default for Sight {
    fn default() -> Self {
        Self { turns: Cell::new(u64::MAX), usable: RefCell::default() }
    }
}

impl Sight {
    /// Runs `pick` with a test for the nodes that may be picked; with `None` where all may.
    ///
    /// Where all nodes are unhealthy all may be picked, as in APISIX: one that is believed to be down may serve, no
    /// node at all serves nobody.
    pub(crate) fn pick<R>(&self, board: &Board, pick: impl FnOnce(Option<&dyn Fn(usize) -> bool>) -> R) -> R {
        // Before the nodes: what turns later is seen the next time.
        let turns = board.turns();
        if self.turns.replace(turns) != turns {
            self.look(board);
        }
        let usable = self.usable.borrow();
        if usable.is_empty() {
            return pick(None);
        }
        pick(Some(&|node| usable.get(node).copied().unwrap_or(true)))
    }

    /// Whether a node might be picked at the last look.
    pub(crate) fn allows(&self, node: usize) -> bool {
        self.usable.borrow().get(node).copied().unwrap_or(true)
    }

    #[cold]
    fn look(&self, board: &Board) {
        let mut usable = self.usable.borrow_mut();
        usable.clear();
        usable.extend(board.nodes().iter().map(|node| node.health().state.usable()));
        let healthy = usable.iter().filter(|usable| **usable).count();
        if healthy == 0 && !usable.is_empty() {
            let upstream = board.nodes().first().map(|node| &*node.resource);
            tracing::warn!(upstream, "all nodes are unhealthy: requests go to all of them");
        }
        if healthy == 0 || healthy == usable.len() {
            usable.clear();
        }
    }
}

/// Counts what became of a request to a node.
pub(crate) fn served(node: &Watched, served: &Served) {
    let passive = &node.checks.passive;
    if let Some(error) = served.error {
        // Whoever spoils an exchange otherwise than a node says nothing about it.
        let event = match (error.side, error.kind) {
            (Side::Upstream, ErrorKind::Timeout) => Event::Timeout,
            (Side::Upstream, ErrorKind::Connection | ErrorKind::Reset | ErrorKind::Protocol) => {
                Event::TcpFailure
            }
            _ => return,
        };
        tell(node, "a request", node.served(event));
        // APISIX looks at the status that the client is given, which here is the gateway's own.
        let statuses = passive.statuses.as_ref();
        if statuses.and_then(|statuses| statuses.of(error.status())) == Some(Event::HttpFailure) {
            tell(node, "a request", node.served(Event::HttpFailure));
        }
        return;
    }
    if served.broke_off {
        return tell(node, "a request", node.served(Event::TcpFailure));
    }
    if let Some(event) = passive.statuses.as_ref().and_then(|statuses| statuses.of(served.status)) {
        tell(node, "a request", node.served(event));
    }
}

/// Tells the log of a change that `cause` made.
pub(crate) fn tell(node: &Watched, cause: &str, change: Option<(Health, Health)>) {
    let Some((before, after)) = change.filter(|(before, after)| before.state != after.state) else { return };
    let (was, is) = (before.state.as_str(), after.state.as_str());
    let (resource, target) = (&*node.resource, &node.target);
    let name = node.target.name.as_deref().unwrap_or_default();
    tracing::warn!(
        upstream = resource,
        node = %target,
        name,
        successes = after.successes,
        http_failures = after.http_failures,
        tcp_failures = after.tcp_failures,
        timeouts = after.timeouts,
        "health check by {cause}: {was} is now {is}"
    );
}
