//! Running the plugins' hooks up to the point where an origin is asked.

use plugin::{Chain, Exchange, Flow, Reply, Step};
use snapshot::{Route, Snapshot};
use std::sync::Arc;
use std::time::Instant;

/// Whether no plugin stands before the origin; then not even a future is made.
#[inline]
pub(super) fn nothing_to_run(snapshot: &Snapshot, route: Option<&Arc<Route>>) -> bool {
    snapshot.global.is_empty() && route.is_none_or(|route| route.chain.is_empty())
}

/// Runs rewrite, access and before-proxy: of the global rules first, then of the route. The answer of the first plugin
/// that has one.
pub(super) async fn before_origin(
    snapshot: &Snapshot,
    route: Option<&Arc<Route>>,
    exchange: &mut Exchange<'_>,
) -> Option<Reply> {
    // An API of the process itself has no route, and no plugin stands before it.
    let route = route?;
    if !snapshot.global.is_empty()
        && let Some(reply) = global(snapshot, Some(route), exchange).await
    {
        return Some(reply);
    }
    run(&route.chain, None, exchange).await
}

/// Runs the global rules' hooks, those left out that the route has itself and that prefer to run there.
pub(super) async fn global(
    snapshot: &Snapshot,
    route: Option<&Arc<Route>>,
    exchange: &mut Exchange<'_>,
) -> Option<Reply> {
    if snapshot.global.is_empty() {
        return None;
    }
    run(&snapshot.global, route.map(|route| &route.chain), exchange).await
}

/// Whether a step of the global rules leaves the request to the route's own configuration of the same plugin.
pub(super) fn yields<H: ?Sized>(step: &Step<H>, route: Option<&Chain>) -> bool {
    step.def.prefer_route && route.is_some_and(|chain| chain.has(step.def))
}

async fn run(chain: &Chain, route: Option<&Chain>, exchange: &mut Exchange<'_>) -> Option<Reply> {
    for step in &chain.rewrite {
        if admits(step, route, exchange) {
            let flow = step.hook.rewrite(exchange);
            if let flow @ (Flow::Reply(_) | Flow::Wait(_)) = flow
                && let Some(reply) = settle(step, flow, exchange).await
            {
                return Some(reply);
            }
        }
    }
    for step in &chain.access {
        if admits(step, route, exchange) {
            let flow = step.hook.access(exchange);
            if let flow @ (Flow::Reply(_) | Flow::Wait(_)) = flow
                && let Some(reply) = settle(step, flow, exchange).await
            {
                return Some(reply);
            }
        }
    }
    for step in &chain.before_proxy {
        if admits(step, route, exchange) {
            let flow = step.hook.before_proxy(exchange);
            if let flow @ (Flow::Reply(_) | Flow::Wait(_)) = flow
                && let Some(reply) = settle(step, flow, exchange).await
            {
                return Some(reply);
            }
        }
    }
    None
}

/// Whether the step runs for this request.
#[inline]
pub(super) fn admits<H: ?Sized>(step: &Step<H>, route: Option<&Chain>, exchange: &Exchange<'_>) -> bool {
    step.meta.as_ref().is_none_or(|meta| meta.admits(exchange)) && !yields(step, route)
}

/// Waits where the hook waits, and gives an error the body that `_meta.error_response` asks for.
async fn settle<H: ?Sized>(step: &Step<H>, mut flow: Flow, exchange: &mut Exchange<'_>) -> Option<Reply> {
    loop {
        match flow {
            Flow::Next => return None,
            Flow::Wait(future) => {
                let resume = future.await;
                exchange.upstream.started = Instant::now();
                flow = resume(exchange);
            }
            Flow::Reply(mut reply) => {
                let instead = step.meta.as_ref().and_then(|meta| meta.error_response.as_ref());
                if let Some(body) = instead.filter(|_| reply.status >= 400) {
                    reply.body = Some(body.clone());
                }
                return Some(*reply);
            }
        }
    }
}
