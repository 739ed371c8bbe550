//! Running the plugins' hooks up to the point where an origin is asked.

use super::body::RequestBody;
use super::origin::{self, Origin};
use super::{ahead, wait};
use crate::link::Link;
use crate::services::PLUGIN_WAIT_MAX;
use crate::worker::Worker;
use plugin::{Chain, Exchange, Flow, Meta, PluginDef, Remembered, Reply, Step, WholeBody, log_for};
use snapshot::Snapshot;
use std::any::Any;
use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use stdx::Moment;

/// The hooks that stand before an origin, phase by phase: of each phase those of the global rules, then the route's.
/// Once the rewrite phase is over the request's consumer is known, if it has one, and its plugins are merged into the
/// route's. Walked without a future as long as no hook waits, which is nearly always.
pub(super) struct Walk<'c> {
    worker: &'c Worker,
    snapshot: &'c Arc<Snapshot>,
    route: Option<&'c Chain>,
    cursor: Cursor,
}

/// The lists of hooks, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    GlobalRewrite,
    RouteRewrite,
    /// Of the plugins that only the consumer has. From here on the chain stays the one that it is.
    ConsumerRewrite,
    GlobalAccess,
    RouteAccess,
    GlobalBeforeProxy,
    RouteBeforeProxy,
}

/// Where a walk is: which list of hooks, and how many of it have had their turn. A walk that a hook has stopped goes on
/// from here, whatever has become of the lists before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cursor {
    stage: Stage,
    index: usize,
}

impl Cursor {
    /// Returns the first hook of `stage` that is still to run; `None` where the walk is past the stage.
    #[inline]
    fn enter(&mut self, stage: Stage) -> Option<usize> {
        match self.stage.cmp(&stage) {
            Ordering::Greater => return None,
            Ordering::Equal => {}
            Ordering::Less => *self = Self { stage, index: 0 },
        }
        Some(self.index)
    }
}

/// A hook that did not just let the exchange pass.
pub(super) struct Stop {
    flow: Flow,
    /// The plugin, where it waits or what it decides is only noted; counting it costs what other answers don't pay.
    def: Option<Arc<PluginDef>>,
    meta: Option<Arc<Meta>>,
}

impl Stop {
    /// The stop at `step`, whose hook decided `flow`.
    #[cold]
    fn at<H: ?Sized>(step: &Step<H>, flow: Flow) -> Self {
        let named = matches!(flow, Flow::Wait(_)) || observes(step);
        Self { flow, def: named.then(|| Arc::clone(&step.def)), meta: step.meta.clone() }
    }
}

impl<'c> Walk<'c> {
    /// A walk from the first hook. A request without a route meets the global rules alone.
    #[inline]
    pub(super) fn new(worker: &'c Worker, snapshot: &'c Arc<Snapshot>, route: Option<&'c Chain>) -> Self {
        let cursor = Cursor { stage: Stage::GlobalRewrite, index: 0 };
        Self { worker, snapshot, route, cursor }
    }

    /// Runs hooks up to the first that answers or waits; goes on to the end when all let the exchange pass.
    #[inline]
    pub(super) fn run(&mut self, exchange: &mut Exchange<'_>) -> ControlFlow<Stop> {
        let (global, route) = (&self.snapshot.global, self.route);
        if global.is_empty() && route.is_none_or(Chain::is_empty) {
            return ControlFlow::Continue(());
        }
        if self.cursor.stage <= Stage::RouteRewrite {
            self.phase(Stage::GlobalRewrite, &global.rewrite, route, exchange, |hook, x| hook.rewrite(x))?;
            if let Some(own) = route {
                self.phase(Stage::RouteRewrite, &own.rewrite, None, exchange, |hook, x| hook.rewrite(x))?;
                if exchange.consumer.is_some() {
                    self.merge(own, exchange)?;
                }
            }
        }
        match merged(exchange) {
            Some(merged) => self.run_for_consumer(&merged, exchange),
            None => self.run_rest(route, exchange),
        }
    }

    /// The phases after rewriting. `chain` stands above the global rules for plugins that prefer the route.
    #[inline]
    fn run_rest(&mut self, chain: Option<&Chain>, exchange: &mut Exchange<'_>) -> ControlFlow<Stop> {
        let global = &self.snapshot.global;
        self.phase(Stage::GlobalAccess, &global.access, chain, exchange, |hook, x| hook.access(x))?;
        let Some(own) = chain else { return ControlFlow::Continue(()) };
        self.phase(Stage::RouteAccess, &own.access, None, exchange, |hook, x| hook.access(x))?;
        let hooks = &global.before_proxy;
        self.phase(Stage::GlobalBeforeProxy, hooks, chain, exchange, |hook, x| hook.before_proxy(x))?;
        let hooks = &own.before_proxy;
        self.phase(Stage::RouteBeforeProxy, hooks, None, exchange, |hook, x| hook.before_proxy(x))
    }

    /// Has the merged chain take over from the route's, once the rewrite phase knows the request's consumer. A stop where
    /// that can't be.
    #[inline(never)]
    fn merge(&self, route: &Chain, exchange: &mut Exchange<'_>) -> ControlFlow<Stop> {
        let Some(consumer) = exchange.consumer else { return ControlFlow::Continue(()) };
        let serial = exchange.route.map_or(0, |route| route.serial);
        let Ok(merged) = self.worker.merged.chain(self.snapshot, serial, route, consumer) else {
            let (name, group) = (&consumer.name, &consumer.group_id);
            log_for!(error, exchange, consumer = name, "consumer group {group} does not exist");
            return ControlFlow::Break(Stop { flow: Flow::status(503), def: None, meta: None });
        };
        exchange.merged = merged.map(|chain| chain as Rc<dyn Any>);
        ControlFlow::Continue(())
    }

    /// The phases of a merged chain: it begins with rewriting by the plugins that only the consumer has.
    #[inline(never)]
    fn run_for_consumer(&mut self, merged: &Chain, exchange: &mut Exchange<'_>) -> ControlFlow<Stop> {
        let hooks = &merged.rewrite;
        self.phase(Stage::ConsumerRewrite, hooks, None, exchange, |hook, x| hook.rewrite(x))?;
        self.run_rest(Some(merged), exchange)
    }

    /// Gives the hooks of one phase that have not had it their turn.
    #[inline]
    fn phase<H: ?Sized>(
        &mut self,
        stage: Stage,
        steps: &[Step<H>],
        over: Option<&Chain>,
        exchange: &mut Exchange<'_>,
        run: impl Fn(&H, &mut Exchange<'_>) -> Flow,
    ) -> ControlFlow<Stop> {
        // Most lists are empty, and nobody can stop the walk there.
        if steps.is_empty() {
            return ControlFlow::Continue(());
        }
        let Some(first) = self.cursor.enter(stage) else { return ControlFlow::Continue(()) };
        for step in steps.get(first..).unwrap_or_default() {
            self.cursor.index += 1;
            if step.admits(over, exchange) {
                let flow = if observes(step) {
                    self.observe(&step.def, exchange, |x| run(&step.hook, x))
                } else {
                    run(&step.hook, exchange)
                };
                match flow {
                    // It holds nothing, and dropping it would be a call.
                    flow @ Flow::Next => std::mem::forget(flow),
                    flow => return ControlFlow::Break(Stop::at(step, flow)),
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Lets a hook decide and takes note of it, and the exchange goes on as if it had not run.
    #[inline(never)]
    fn observe<'x>(
        &self,
        def: &PluginDef,
        exchange: &mut Exchange<'x>,
        run: impl FnOnce(&mut Exchange<'x>) -> Flow,
    ) -> Flow {
        let before = Remembered::of(exchange);
        let flow = run(exchange);
        before.restore(exchange);
        match flow {
            Flow::Reply(reply) => {
                note_verdict(self.worker, def, reply.status, exchange);
                Flow::Next
            }
            Flow::Answer(answer) => {
                note_verdict(self.worker, def, answer.status, exchange);
                Flow::Next
            }
            flow => flow,
        }
    }

    /// Sees a stop through: waits where a hook waits, reads the body where one wants it, and goes on where it lets the exchange pass then. The answer, if
    /// a plugin has one; an error gets the body that `_meta.error_response` asks for. Nobody answers a client that leaves while a
    /// hook waits.
    pub(super) async fn settle(
        &mut self,
        stop: Stop,
        link: &mut Link<'_>,
        body: &mut RequestBody<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Option<Origin<'static>> {
        let mut stop = stop;
        loop {
            match stop.flow {
                Flow::Next => match self.run(exchange) {
                    ControlFlow::Continue(()) => return None,
                    ControlFlow::Break(next) => stop = next,
                },
                Flow::Wait(future) => {
                    let resume =
                        match wait::within(link.timer.within(PLUGIN_WAIT_MAX), future, link.stream).await {
                            Ok(Some(resume)) => resume,
                            Ok(None) => {
                                let plugin = stop.def.as_ref().map_or("", |def| &*def.name);
                                log_for!(
                                    error,
                                    exchange,
                                    plugin,
                                    "a plugin's wait timed out after {PLUGIN_WAIT_MAX:?}"
                                );
                                stop.flow = Flow::status(504);
                                continue;
                            }
                            Err(error) => return Some(Origin::Nobody(error)),
                        };
                    exchange.upstream.started = Moment::now();
                    stop.flow = match (&stop.def, stop.meta.as_ref().is_some_and(|meta| meta.observe)) {
                        (Some(def), true) => self.observe(def, exchange, resume),
                        _ => resume(exchange),
                    };
                }
                Flow::Body(limit_bytes) => {
                    if let Some(refused) = origin::refusal(body, exchange) {
                        return Some(refused);
                    }
                    let asked_again = !matches!(exchange.request.whole_body(limit_bytes), WholeBody::Unread);
                    match ahead::read(link, body, exchange, limit_bytes).await {
                        Ok(()) if asked_again => stop.flow = Flow::status(500),
                        Ok(()) => {
                            // The hook that asked has its turn again.
                            self.cursor.index -= 1;
                            stop.flow = Flow::Next;
                        }
                        Err(error) => stop.flow = Flow::reply(ahead::refusal(error, exchange)),
                    }
                }
                Flow::Reply(mut reply) => {
                    let instead = stop.meta.as_ref().and_then(|meta| meta.error_response.as_ref());
                    if let Some(body) = instead.filter(|_| reply.status >= 400) {
                        reply.body = Some(body.clone());
                    }
                    return Some(Origin::Reply(reply));
                }
                Flow::Answer(answer) => return Some(Origin::Answer(answer)),
            }
        }
    }
}

/// The chain that took over from the route's.
#[inline]
pub(super) fn merged(exchange: &Exchange<'_>) -> Option<Rc<Chain>> {
    Rc::clone(exchange.merged.as_ref()?).downcast().ok()
}

/// The answer to a request without a route: global rules see it, and may answer instead.
pub(super) async fn unrouted<'s>(
    link: &mut Link<'_>,
    snapshot: &Arc<Snapshot>,
    reply: Box<Reply>,
    body: &mut RequestBody<'_>,
    exchange: &mut Exchange<'_>,
) -> Origin<'s> {
    if reply.status != 404 {
        return Origin::Reply(reply);
    }
    let mut walk = Walk::new(link.worker, snapshot, None);
    let instead = match walk.run(exchange) {
        ControlFlow::Continue(()) => None,
        ControlFlow::Break(stop) => walk.settle(stop, link, body, exchange).await,
    };
    instead.unwrap_or(Origin::Reply(reply))
}

/// The chain that is in force for the exchange: the merged one once there is one. Held by itself, so that hooks may
/// change the exchange while it is walked.
#[inline]
pub(super) fn in_force<'c>(route: Option<&'c Chain>, merged: &'c Option<Rc<Chain>>) -> Option<&'c Chain> {
    merged.as_deref().or(route)
}

/// Whether what the step decides is only noted.
#[inline]
pub(super) fn observes<H: ?Sized>(step: &Step<H>) -> bool {
    step.meta.as_ref().is_some_and(|meta| meta.observe)
}

/// Counts and logs what a plugin would have answered.
pub(super) fn note_verdict(worker: &Worker, def: &PluginDef, status: u16, exchange: &Exchange<'_>) {
    let route = exchange.route.map_or("", |route| route.id.as_str());
    worker.context.metrics.record_observed(&worker.token, status, &def.name, route);
    log_for!(warn, exchange, status, "plugin {} would have answered; it is only observed", def.name);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hook that waits may change what the stages before it hold: a consumer that is attached late, say.
    #[test]
    fn a_walk_goes_on_after_the_hook_that_stopped_it_and_nowhere_else() {
        let mut cursor = Cursor { stage: Stage::GlobalRewrite, index: 0 };
        assert_eq!(cursor.enter(Stage::GlobalRewrite), Some(0));
        cursor.index = 3;
        assert_eq!(cursor.enter(Stage::RouteRewrite), Some(0));
        // No consumer: its stage is never entered.
        assert_eq!(cursor.enter(Stage::GlobalAccess), Some(0));
        cursor.index = 2;
        for stage in [Stage::GlobalRewrite, Stage::RouteRewrite, Stage::ConsumerRewrite] {
            assert_eq!(cursor.enter(stage), None, "{stage:?} again, with more hooks or fewer");
        }
        assert_eq!(cursor.enter(Stage::GlobalAccess), Some(2));
        assert_eq!(cursor.enter(Stage::RouteBeforeProxy), Some(0));
    }
}
