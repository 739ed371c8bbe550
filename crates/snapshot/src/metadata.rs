//! `plugin_metadata`: what a plugin is told once for all its configurations.

use model::ConfigError;
use plugin::Registry;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The metadata of all plugins that have some, by the plugin's name.
#[derive(Debug, Default)]
pub(crate) struct Metadata(BTreeMap<String, (Arc<[u8]>, Value)>);

impl Metadata {
    /// The metadata of one plugin.
    pub(crate) fn get(&self, plugin: &str) -> Option<&Value> {
        self.0.get(plugin).map(|(_, value)| value)
    }

    /// The same as the store holds it.
    pub(crate) fn stored(&self, plugin: &str) -> Option<&Arc<[u8]>> {
        self.0.get(plugin).map(|(stored, _)| stored)
    }

    /// The names of the plugins that have metadata.
    pub(crate) fn plugins(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Takes in what the store holds for `plugin`, and what is revealed of it. Metadata of plugins that this gateway
    /// doesn't have is kept unread: another gateway on the same store may have them.
    ///
    /// # Errors
    /// Every mistake; the metadata before stays.
    pub(crate) fn put(
        &mut self,
        registry: &Registry,
        plugin: &str,
        stored: &Arc<[u8]>,
        revealed: &[u8],
    ) -> Result<(), Vec<ConfigError>> {
        let value: Value = serde_json::from_slice(revealed)
            .map_err(|error| vec![ConfigError::new("", error.to_string())])?;
        if let Some(report) = registry.check_metadata(plugin, &value)
            && !report.is_ok()
        {
            return Err(report.errors);
        }
        self.0.insert(plugin.to_owned(), (Arc::clone(stored), value));
        Ok(())
    }

    /// Forgets the metadata of one plugin; whether there was any.
    pub(crate) fn remove(&mut self, plugin: &str) -> bool {
        self.0.remove(plugin).is_some()
    }
}
