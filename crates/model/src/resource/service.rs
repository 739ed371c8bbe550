//! `services`: what several routes have in common.

use super::{StaticFiles, Upstream};
use crate::{Id, PluginMap};
use serde::Deserialize;

/// What several routes have in common: plugins, an upstream, hosts.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Service {
    /// The service's id.
    pub id: Option<Id>,
    /// A name for people.
    pub name: Option<String>,
    /// Lua code that takes the place of plugins; refused.
    pub script: Option<String>,
    /// Plugins of every route of this service; plugin configs and routes take precedence.
    pub plugins: PluginMap,
    /// An upstream written here.
    pub upstream: Option<Upstream>,
    /// Or one by id.
    pub upstream_id: Option<Id>,
    /// A folder whose files answer, instead of an upstream; ours.
    #[serde(rename = "static")]
    pub static_files: Option<Box<StaticFiles>>,
    /// Whether `Upgrade: websocket` is passed on.
    pub enable_websocket: Option<bool>,
    /// Hosts of the routes that name none themselves.
    pub hosts: Option<Vec<String>>,
}
