//! `plugin_configs`: a set of plugins that routes share by `plugin_config_id`.

use crate::{Id, PluginMap};
use serde::Deserialize;

/// A set of plugins that routes share.
#[derive(Debug, Clone, Deserialize)]
pub struct PluginConfig {
    /// The set's id.
    pub id: Option<Id>,
    /// Its plugins; a route's own take precedence.
    pub plugins: PluginMap,
}
