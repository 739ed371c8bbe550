//! The `plugins` object of a resource: plugin name to that plugin's configuration.

/// Plugin name to configuration, in the order written.
pub type PluginMap = serde_json::Map<String, serde_json::Value>;
