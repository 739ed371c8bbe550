//! The plugins of one route (or of the global rules), sorted and split by phase.

use crate::{
    BackgroundTasks, Exchange, Hooks, Meta, Nested, OnAccess, OnBeforeProxy, OnLog, OnPreread, OnResponse,
    OnRewrite, OnStreamLog, PluginDef,
};
use model::var::BodyNeed;
use router::Expr;
use std::sync::Arc;

/// One plugin with one configuration, its hooks bound.
#[derive(Clone)]
pub struct CompiledPlugin {
    /// Which plugin.
    pub def: Arc<PluginDef>,
    /// Its `_meta`, where that says anything.
    pub meta: Option<Arc<Meta>>,
    hooks: Hooks,
    /// The plugins that stand inside its configuration, at any depth.
    nested: Arc<[Nested]>,
    /// Its tasks and those of the plugins inside it.
    background: Option<Arc<BackgroundTasks>>,
}

impl CompiledPlugin {
    /// `hooks` that `def` compiled. Without any it stands in its place, and never runs.
    pub(crate) fn new(
        def: Arc<PluginDef>,
        meta: Option<Arc<Meta>>,
        mut hooks: Hooks,
        nested: Vec<Nested>,
    ) -> Self {
        let background = BackgroundTasks::new(std::mem::take(&mut hooks.background));
        Self { def, meta, hooks, nested: nested.into(), background }
    }

    /// Its tasks, which whoever puts a snapshot with it into use starts. The copies of a compiled plugin share them.
    #[must_use]
    pub fn background(&self) -> Option<&Arc<BackgroundTasks>> {
        self.background.as_ref()
    }

    /// Its hooks.
    #[must_use]
    pub fn hooks(&self) -> &Hooks {
        &self.hooks
    }

    /// The plugins that stand inside its configuration, at any depth: it is made of them as well.
    #[must_use]
    pub fn nested(&self) -> &[Nested] {
        &self.nested
    }

    /// What its conditions and its `_meta.filter` ask about the request's body.
    #[must_use]
    pub fn body_need(&self) -> BodyNeed {
        let filter = self.meta.as_ref().and_then(|meta| meta.filter.as_ref());
        self.hooks.body_need.or(filter.map(Expr::body_need).unwrap_or_default())
    }

    fn priority(&self) -> i32 {
        self.meta.as_ref().and_then(|meta| meta.priority).unwrap_or(self.def.priority)
    }
}

impl std::fmt::Debug for CompiledPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompiledPlugin").field("name", &self.def.name).finish_non_exhaustive()
    }
}

/// One hook of a chain.
pub struct Step<H: ?Sized> {
    /// The hook.
    pub hook: Arc<H>,
    /// Which plugin it belongs to.
    pub def: Arc<PluginDef>,
    /// Its `_meta`, where that says anything.
    pub meta: Option<Arc<Meta>>,
    /// Whether anything may keep it from running: see [`Step::admits`].
    guarded: bool,
}

impl<H: ?Sized> Step<H> {
    /// Whether the step runs for this request: its filter lets it, it does not leave the request to the configuration of
    /// the same plugin in `over`, and the plugin did not run inside another one.
    #[inline]
    pub fn admits(&self, over: Option<&Chain>, exchange: &mut Exchange<'_>) -> bool {
        // Each guard asks one of these three, and mostly there is none of them.
        let nothing_to_ask = over.is_none() && exchange.extras.is_none() && self.meta.is_none();
        !self.guarded || nothing_to_ask || self.passes_guards(over, exchange)
    }

    #[inline(never)]
    fn passes_guards(&self, over: Option<&Chain>, exchange: &mut Exchange<'_>) -> bool {
        let yields = self.def.prefer_route && over.is_some_and(|chain| chain.has(&self.def));
        let ran = self.def.action && exchange.skips(&self.def.name);
        !(yields || ran) && self.meta.as_ref().is_none_or(|meta| meta.admits(exchange))
    }
}

/// The hooks of a set of plugins, by phase, each in the order of priority.
#[derive(Default)]
pub struct Chain {
    /// The rewrite phase.
    pub rewrite: Box<[Step<dyn OnRewrite>]>,
    /// The access phase.
    pub access: Box<[Step<dyn OnAccess>]>,
    /// Before an upstream is asked.
    pub before_proxy: Box<[Step<dyn OnBeforeProxy>]>,
    /// The response's head.
    pub response: Box<[Step<dyn OnResponse>]>,
    /// The end of the exchange.
    pub log: Box<[Step<dyn OnLog>]>,
    /// The beginning of a session.
    pub preread: Box<[Step<dyn OnPreread>]>,
    /// Its end.
    pub stream_log: Box<[Step<dyn OnStreamLog>]>,
    /// The plugins, sorted.
    plugins: Box<[CompiledPlugin]>,
    /// What they ask about the request's body.
    body_need: BodyNeed,
}

impl Chain {
    /// Sorts plugins by priority (higher first; by name where equal, so that the order never depends on how the
    /// configuration was written) and splits them by phase. Disabled ones are left out.
    #[must_use]
    pub fn new(mut plugins: Vec<CompiledPlugin>) -> Self {
        plugins.retain(|plugin| !plugin.meta.as_ref().is_some_and(|meta| meta.disable));
        plugins.sort_by(|a, b| b.priority().cmp(&a.priority()).then_with(|| a.def.name.cmp(&b.def.name)));
        Self {
            rewrite: steps(&plugins, |hooks| hooks.rewrite.as_ref()),
            access: steps(&plugins, |hooks| hooks.access.as_ref()),
            before_proxy: steps(&plugins, |hooks| hooks.before_proxy.as_ref()),
            response: steps(&plugins, |hooks| hooks.response.as_ref()),
            log: steps(&plugins, |hooks| hooks.log.as_ref()),
            preread: steps(&plugins, |hooks| hooks.preread.as_ref()),
            stream_log: steps(&plugins, |hooks| hooks.stream_log.as_ref()),
            body_need: body_need(&plugins),
            plugins: plugins.into(),
        }
    }

    /// This chain with the plugins of a consumer and of its group, strongest first: where one plugin stands in several,
    /// the strongest's configuration runs. The rewrite phase of the result is what is left to do of it once the consumer
    /// is known: the plugins that this chain doesn't have.
    #[must_use]
    pub fn under(&self, consumer: &[CompiledPlugin], group: &[CompiledPlugin]) -> Self {
        let mut plugins: Vec<CompiledPlugin> = Vec::new();
        for plugin in consumer.iter().chain(group).chain(&self.plugins) {
            if plugins.iter().all(|stronger| stronger.def.name != plugin.def.name) {
                plugins.push(plugin.clone());
            }
        }
        let mut merged = Self::new(plugins);
        let late = |step: &Step<dyn OnRewrite>| !self.has(&step.def) && !step.def.is_auth();
        merged.rewrite = Vec::from(merged.rewrite).into_iter().filter(late).collect();
        merged
    }

    /// What the plugins' conditions ask about the request's body.
    #[must_use]
    #[inline]
    pub fn body_need(&self) -> BodyNeed {
        self.body_need
    }

    /// The plugins in the order in which they run.
    pub fn plugins(&self) -> impl Iterator<Item = &CompiledPlugin> {
        self.plugins.iter()
    }

    /// Whether the chain has a plugin of this definition.
    #[must_use]
    pub fn has(&self, def: &PluginDef) -> bool {
        self.plugins.iter().any(|plugin| plugin.def.name == def.name)
    }

    /// Whether there is nothing to run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.plugins.is_empty()
    }
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.plugins.iter().map(|plugin| &plugin.def.name)).finish()
    }
}

/// What any of `plugins` asks about the request's body.
pub(crate) fn body_need(plugins: &[CompiledPlugin]) -> BodyNeed {
    plugins.iter().map(CompiledPlugin::body_need).collect()
}

fn steps<H: ?Sized>(plugins: &[CompiledPlugin], hook: impl Fn(&Hooks) -> Option<&Arc<H>>) -> Box<[Step<H>]> {
    plugins
        .iter()
        .filter_map(|plugin| {
            hook(&plugin.hooks).map(|hook| Step {
                hook: Arc::clone(hook),
                def: Arc::clone(&plugin.def),
                meta: plugin.meta.clone(),
                guarded: plugin.def.prefer_route
                    || plugin.def.action
                    || plugin.meta.as_ref().is_some_and(|meta| meta.filter.is_some()),
            })
        })
        .collect()
}
