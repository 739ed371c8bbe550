//! The end of an exchange: log hooks, counters, access log. Last, because only now everything is known.

use super::body::RequestBody;
use super::phases;
use crate::worker::Worker;
use plugin::{Chain, Exchange};
use snapshot::{Route, Snapshot};
use std::sync::Arc;

/// Runs the log hooks: of the global rules first, then of the route (its consumer's merged in).
#[inline]
fn run_hooks(snapshot: &Snapshot, route: Option<&Chain>, exchange: &mut Exchange<'_>) {
    let merged = phases::merged(exchange);
    let chain = phases::in_force(route, &merged);
    for step in &snapshot.global.log {
        if step.admits(chain, exchange) {
            step.hook.log(exchange);
        }
    }
    for step in chain.map(|chain| &chain.log[..]).unwrap_or_default() {
        if step.admits(None, exchange) {
            step.hook.log(exchange);
        }
    }
}

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
    let chain = route.map(|route| &route.chain);
    let unheard = |chain: &Chain| chain.log.is_empty();
    if !(snapshot.global.log.is_empty() && exchange.merged.is_none() && chain.is_none_or(unheard)) {
        run_hooks(snapshot, chain, exchange);
    }
    if let Some(log) = &worker.config.borrow().access_log {
        log.record(&worker.token, exchange, worker.clock.unix_ms());
    }
}
