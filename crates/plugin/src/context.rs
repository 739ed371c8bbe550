//! What plugins ask for while they are compiled.

use crate::upstreams::compile;
use crate::{
    ApiContext, CompileContext, CompiledPlugin, FileAccess, NESTING_MAX, Nested, Parent, PublicApi,
    UpstreamChoice, UpstreamCompiler,
};
use model::ConfigError;
use observe::Metrics;
use serde_json::Value;
use std::sync::Arc;

impl CompileContext<'_> {
    /// The files that resources may name.
    #[must_use]
    pub fn files(&self) -> &FileAccess {
        &self.registry.files
    }
}

/// Plugins inside the one that is compiled.
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

/// Upstreams that are written in its configuration.
impl CompileContext<'_> {
    /// Returns what compiles upstreams once the plugin runs.
    #[must_use]
    pub fn upstreams(&self) -> UpstreamCompiler {
        UpstreamCompiler {
            compile: self.registry.compile_upstream,
            shared: Arc::clone(&self.registry.shared),
        }
    }

    /// Compiles an upstream that is written in the plugin's configuration, for [`crate::Extras::upstream`].
    ///
    /// # Errors
    /// Every mistake; paths start at the upstream.
    pub fn upstream(&self, written: &Value) -> Result<UpstreamChoice, Vec<ConfigError>> {
        compile(self.registry.compile_upstream, self.shared, written)
    }
}

/// What it offers, and what others do.
impl CompileContext<'_> {
    /// The endpoints for clients that the plugins of this gateway have. The plugin that asks is compiled again when the
    /// metadata of one that has endpoints changes.
    #[must_use]
    pub fn public_apis(&self) -> Vec<PublicApi> {
        let mut apis = Vec::new();
        for def in self.registry.all() {
            let Some(make) = &def.public_apis else { continue };
            let context = ApiContext {
                shared: &self.registry.shared,
                attributes: self.registry.attributes(&def.name),
                metadata: self.ingredients.find(&def.name, &Value::Null).metadata,
                compile_upstream: self.registry.compile_upstream,
            };
            apis.extend(make(context));
            self.nested.borrow_mut().push(Nested { name: Arc::clone(&def.name), proto: None });
        }
        apis
    }

    /// The process's metrics, where a plugin registers its own: `cx.metrics().counter(name, help, labels)`. A family that
    /// is registered stays until the process ends, whatever becomes of the configuration.
    #[must_use]
    pub fn metrics(&self) -> Arc<Metrics> {
        self.shared.get()
    }
}
