//! What a plugin is made of besides its own configuration.

use protos::Definitions;
use serde_json::Value;
use std::sync::Arc;

/// What a plugin is made of besides its own configuration.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ingredients<'a> {
    /// The plugin's `plugin_metadata`.
    pub metadata: Option<&'a Value>,
    /// The definitions that the configuration names.
    pub definitions: Option<&'a Arc<Definitions>>,
}

/// The resource in which a plugin's configuration stands.
#[derive(Debug, Clone, Copy)]
pub struct Parent<'a> {
    /// Its store key: `/routes/1`.
    pub resource_key: &'a str,
    /// Changes when, and only when, this plugin's configuration there changes.
    pub config_version: u64,
}

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
