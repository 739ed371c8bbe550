//! The end of an exchange: log hooks, counters, access log. Last, because only now everything is known.

use super::body::RequestBody;
use super::phases;
use crate::worker::Worker;
use plugin::Exchange;
use snapshot::{Route, Snapshot};
use std::sync::Arc;

/// Records the exchange.
pub(super) fn record(
    worker: &Worker,
    snapshot: &Snapshot,
    route: Option<&Arc<Route>>,
    body: &RequestBody<'_>,
    exchange: &mut Exchange<'_>,
) {
    // The upstream's last byte and the client's are one event where no clock was read in between.
    exchange.timing.total = match exchange.upstream.time {
        Some(time) if exchange.upstream.started == exchange.timing.started => time,
        _ => exchange.timing.started.elapsed(),
    };
    exchange.timing.request_bytes += body.consumed();
    let merged = exchange.merged.clone();
    let chain = phases::in_force(route.map(|route| &route.chain), &merged);
    for step in &snapshot.global.log {
        if step.admits(chain, exchange) {
            step.hook.log(exchange);
        }
    }
    for step in chain.iter().flat_map(|chain| &chain.log) {
        if step.admits(None, exchange) {
            step.hook.log(exchange);
        }
    }
    if let Some(log) = &worker.config.borrow().access_log {
        log.record(&worker.token, exchange, worker.clock.unix_ms());
    }
}
