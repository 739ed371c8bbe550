//! `global_rules`: plugins that run for every request.

use crate::{Id, PluginMap};
use serde::Deserialize;

/// A set of plugins that runs for every request, before the route's own.
#[derive(Debug, Clone, Deserialize)]
pub struct GlobalRule {
    /// The rule's id.
    pub id: Option<Id>,
    /// Its plugins.
    pub plugins: PluginMap,
}
