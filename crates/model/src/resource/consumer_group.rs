//! `consumer_groups`: plugins that consumers have in common.

use crate::{Id, PluginMap};
use serde::Deserialize;

/// Plugins of every consumer that names the group.
#[derive(Debug, Clone, Deserialize)]
pub struct ConsumerGroup {
    /// The group's id.
    pub id: Option<Id>,
    /// Its plugins; a consumer's own take precedence.
    pub plugins: PluginMap,
}
