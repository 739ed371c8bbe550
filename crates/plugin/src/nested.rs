//! Plugins inside plugins: an outer plugin compiles the configurations of others that stand in its own, and runs them.
//!
//! `_meta` of a nested configuration is checked and has no effect, as in APISIX: that of the outer plugin counts.

use crate::{CompiledPlugin, Exchange, Flow, Resume, UpstreamResponse};
use std::sync::Arc;

/// Running a plugin from inside another. A hook that the plugin doesn't have lets the exchange pass.
impl CompiledPlugin {
    /// Runs the hook of the rewrite phase.
    pub fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        self.hooks().rewrite.as_ref().map_or(Flow::Next, |hook| hook.rewrite(exchange))
    }

    /// Runs the hook of the access phase.
    pub fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        self.hooks().access.as_ref().map_or(Flow::Next, |hook| hook.access(exchange))
    }

    /// Runs the hook before an upstream is asked.
    pub fn before_proxy(&self, exchange: &mut Exchange<'_>) -> Flow {
        self.hooks().before_proxy.as_ref().map_or(Flow::Next, |hook| hook.before_proxy(exchange))
    }

    /// Runs the hook of the response's head.
    pub fn response(&self, exchange: &mut Exchange<'_>, response: &UpstreamResponse<'_>) {
        if let Some(hook) = &self.hooks().response {
            hook.response(exchange, response);
        }
    }

    /// Runs the hook of the exchange's end.
    pub fn log(&self, exchange: &Exchange<'_>) {
        if let Some(hook) = &self.hooks().log {
            hook.log(exchange);
        }
    }
}

impl Flow {
    /// Passes the decision of a nested hook on to `then`: at once, or after what the hook waits for. A hook that wants the
    /// request's body has not decided: the outer hook answers the same, and both run again when the body is there.
    #[must_use]
    pub fn then(
        self,
        exchange: &mut Exchange<'_>,
        then: impl FnOnce(Self, &mut Exchange<'_>) -> Self + 'static,
    ) -> Self {
        match self {
            Self::Wait(future) => Self::Wait(Box::pin(async move {
                let resume = future.await;
                let resume: Resume = Box::new(move |exchange| resume(exchange).then(exchange, then));
                resume
            })),
            Self::Body(limit_bytes) => Self::Body(limit_bytes),
            decided => then(decided, exchange),
        }
    }
}

impl Exchange<'_> {
    /// The plugin called `name` ran inside another one: of the route's chain and the global rules it doesn't run as well.
    /// Holds for plugins that are actions ([`crate::PluginDef::action`]), from the next hook on.
    pub fn skip(&mut self, name: &Arc<str>) {
        let skipped = &mut self.extras().skipped;
        if skipped.iter().all(|other| other != name) {
            skipped.push(Arc::clone(name));
        }
    }

    pub(crate) fn skips(&self, name: &Arc<str>) -> bool {
        self.extras.as_ref().is_some_and(|extras| extras.skipped.iter().any(|skipped| skipped == name))
    }
}
