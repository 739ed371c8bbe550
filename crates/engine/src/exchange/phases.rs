//! Running the plugins' hooks up to the point where an origin is asked.

use plugin::{Chain, Exchange, Flow, Meta, Reply, Step};
use snapshot::Snapshot;
use stdx::Moment;

/// The hooks that stand before an origin, in their order: rewrite, access and before-proxy of the global rules, then of
/// the route. Walked without a future as long as no hook waits, which is nearly always.
pub(super) struct Walk<'c> {
    global: &'c Chain,
    route: Option<&'c Chain>,
    /// How many hooks have had their turn.
    passed: usize,
    /// The hook that the walk stands at, counted from 1.
    number: usize,
}

/// A hook that did not just let the exchange pass, and what its `_meta` says.
pub(super) struct Stop<'c> {
    flow: Flow,
    meta: Option<&'c Meta>,
}

impl<'c> Walk<'c> {
    /// A walk from the first hook. A request without a route meets the global rules alone.
    #[inline]
    pub(super) fn new(snapshot: &'c Snapshot, route: Option<&'c Chain>) -> Self {
        Self { global: &snapshot.global, route, passed: 0, number: 0 }
    }

    /// Runs hooks up to the first that answers or waits; `None` when all have let the exchange pass.
    #[inline]
    pub(super) fn run(&mut self, exchange: &mut Exchange<'_>) -> Option<Stop<'c>> {
        self.number = 0;
        // The route's chain is walked for itself; it stands above the global rules for plugins that prefer it.
        for (chain, over) in [(Some(self.global), self.route), (self.route, None)] {
            let Some(chain) = chain.filter(|chain| !chain.is_empty()) else { continue };
            let stop = self
                .phase(&chain.rewrite, over, exchange, |hook, x| hook.rewrite(x))
                .or_else(|| self.phase(&chain.access, over, exchange, |hook, x| hook.access(x)))
                .or_else(|| self.phase(&chain.before_proxy, over, exchange, |hook, x| hook.before_proxy(x)));
            if stop.is_some() {
                return stop;
            }
        }
        None
    }

    /// Gives the hooks of one phase that have not had it their turn.
    #[inline]
    fn phase<H: ?Sized>(
        &mut self,
        steps: &'c [Step<H>],
        over: Option<&Chain>,
        exchange: &mut Exchange<'_>,
        run: impl Fn(&H, &mut Exchange<'_>) -> Flow,
    ) -> Option<Stop<'c>> {
        for step in steps {
            self.number += 1;
            if self.number <= self.passed {
                continue;
            }
            self.passed = self.number;
            if admits(step, over, exchange) {
                match run(&step.hook, exchange) {
                    Flow::Next => {}
                    flow => return Some(Stop { flow, meta: step.meta.as_deref() }),
                }
            }
        }
        None
    }

    /// Sees a stop through: waits where a hook waits, and goes on where it lets the exchange pass then. The answer, if
    /// a plugin has one; an error gets the body that `_meta.error_response` asks for.
    pub(super) async fn settle(&mut self, stop: Stop<'c>, exchange: &mut Exchange<'_>) -> Option<Reply> {
        let mut stop = stop;
        loop {
            match stop.flow {
                Flow::Next => stop = self.run(exchange)?,
                Flow::Wait(future) => {
                    let resume = future.await;
                    exchange.upstream.started = Moment::now();
                    stop.flow = resume(exchange);
                }
                Flow::Reply(mut reply) => {
                    let instead = stop.meta.and_then(|meta| meta.error_response.as_ref());
                    if let Some(body) = instead.filter(|_| reply.status >= 400) {
                        reply.body = Some(body.clone());
                    }
                    return Some(*reply);
                }
            }
        }
    }
}

/// Whether the step runs for this request: its filter lets it, and it does not leave the request to the configuration
/// of the same plugin in `over`.
#[inline]
pub(super) fn admits<H: ?Sized>(step: &Step<H>, over: Option<&Chain>, exchange: &Exchange<'_>) -> bool {
    let yields = step.def.prefer_route && over.is_some_and(|chain| chain.has(step.def));
    !yields && step.meta.as_ref().is_none_or(|meta| meta.admits(exchange))
}
