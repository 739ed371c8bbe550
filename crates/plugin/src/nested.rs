//! Plugins inside plugins: an outer plugin compiles the configurations of others that stand in its own, and runs them.
//!
//! `_meta` of a nested configuration is checked and has no effect, as in APISIX: that of the outer plugin counts.

use crate::{CompileContext, CompiledPlugin, Exchange, Flow, Ingredients, Parent, Resume, UpstreamResponse};
use model::ConfigError;
use serde_json::Value;
use std::sync::Arc;

/// How deep plugins may be nested. APISIX's own nest one level (`workflow`, `multi-auth`); each level multiplies what one
/// configuration compiles, so the bound is on depth where the size of a resource bounds the rest.
pub const NESTING_MAX: usize = 4;

/// A plugin that stands inside the configuration of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nested {
    /// The plugin's name.
    pub name: Arc<str>,
    /// The id of the `protos` resource that it names.
    pub proto: Option<String>,
}

/// Finds what plugins are made of besides their configurations.
pub trait FindIngredients {
    /// The ingredients of the plugin called `name` with this configuration.
    fn find(&self, name: &str, config: &Value) -> Ingredients<'_>;
}

/// The same for every plugin.
impl FindIngredients for Ingredients<'_> {
    fn find(&self, _: &str, _: &Value) -> Ingredients<'_> {
        *self
    }
}

impl CompileContext<'_> {
    /// Compiles a plugin's configuration that stands inside the one being compiled. When the metadata or the definitions
    /// of the nested plugin change, the outer one is compiled again.
    ///
    /// # Errors
    /// Every mistake, with paths that start at `config`: [`ConfigError::under`] puts the place of `config` before them.
    /// A plugin that doesn't exist and one that is nested too deep are mistakes with an empty path.
    pub fn compile(&self, name: &str, config: &Value) -> Result<CompiledPlugin, Vec<ConfigError>> {
        if self.depth >= NESTING_MAX {
            let message = format!("plugins are nested more than {NESTING_MAX} levels deep");
            return Err(vec![ConfigError::new("", message)]);
        }
        let mut nested = self.nested.borrow().clone();
        // State that plugins keep by resource and version must differ between two that stand in one configuration.
        let number = nested.len() as u64 + 1;
        let config_version =
            self.parent.config_version.rotate_left(17) ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let parent = Parent { config_version, ..self.parent };
        let compiled =
            self.registry.compile_nested(name, config, self.ingredients, parent, self.depth + 1)?;
        let proto = compiled.def.proto_named(config);
        nested.push(Nested { name: Arc::clone(&compiled.def.name), proto });
        nested.extend_from_slice(compiled.nested());
        self.nested.replace(nested);
        if let Some(background) = compiled.background() {
            self.background.borrow_mut().extend_from_slice(background.declared());
        }
        Ok(compiled)
    }

    /// Whether the gateway has a plugin called `name` that consumers or clients authenticate with.
    #[must_use]
    pub fn is_auth(&self, name: &str) -> Option<bool> {
        self.registry.get(name).map(|def| def.is_auth())
    }

    /// Whether the gateway has a plugin called `name` that can be an action of others.
    #[must_use]
    pub fn is_action(&self, name: &str) -> bool {
        self.registry.get(name).is_some_and(|def| def.action)
    }
}

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
