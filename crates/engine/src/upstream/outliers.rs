//! Outlier ejection as one worker does it: each judges the nodes by its own requests, so nothing is shared.

use super::state::{Served, State};
use crate::error::{ErrorKind, ProxyError, Side};
use balance::Outcome;
use balance::outlier::{Ejection, Outliers, Reason};

/// Takes in what became of a request; the node that is put aside for it.
pub(super) fn finished(
    outliers: &mut Outliers,
    node: usize,
    served: &Served,
    now_ms: u64,
) -> Option<Ejection> {
    let failed = match served.error {
        // Whoever spoils an exchange otherwise than a node says nothing about it.
        Some(error) if error.side != Side::Upstream => return None,
        Some(ProxyError {
            kind: ErrorKind::Name | ErrorKind::NoNode | ErrorKind::Declined | ErrorKind::TooLarge,
            ..
        }) => return None,
        Some(_) => true,
        None => served.broke_off || served.status >= 500,
    };
    // A tunnel lasts for as long as its two ends like.
    if served.status == 101 && !failed {
        return None;
    }
    outliers.finished(node, Outcome { latency: served.latency, failed }, now_ms)
}

/// Tells the log.
#[cold]
pub(super) fn tell(state: &State, ejection: Ejection, now_ms: u64) {
    let node = state.nodes.get(ejection.node).map(|node| &*node.authority);
    let why = match ejection.reason {
        Reason::Errors => "its requests fail",
        Reason::Latency => "its answers take long",
    };
    tracing::warn!(
        upstream = &*state.upstream.shared.resource,
        node,
        seconds = (ejection.until_ms - now_ms) / 1000,
        "a node is put aside by this worker: {why}"
    );
}
