//! `routes`: which requests go where, through which plugins.

use super::{StaticFiles, Timeout, Upstream};
use crate::{Id, PluginMap};
use serde::Deserialize;

/// Which requests (uri, host, method, address, vars) go where, through which plugins.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Route {
    /// The route's id.
    pub id: Option<Id>,
    /// A name for people.
    pub name: Option<String>,
    /// One path; exact, or a prefix where it ends in `*`.
    pub uri: Option<String>,
    /// Or several.
    pub uris: Option<Vec<String>>,
    /// Among routes of one path the higher goes first.
    pub priority: i64,
    /// Methods that match; all, where absent.
    pub methods: Option<Vec<String>>,
    /// One host; exact, or a suffix where it begins with `*`.
    pub host: Option<String>,
    /// Or several.
    pub hosts: Option<Vec<String>>,
    /// One client address or CIDR.
    pub remote_addr: Option<String>,
    /// Or several.
    pub remote_addrs: Option<Vec<String>>,
    /// Overrides the upstream's timeout.
    pub timeout: Option<Timeout>,
    /// Conditions on variables, in lua-resty-expr's form.
    pub vars: Option<serde_json::Value>,
    /// A Lua function that decides; kept and shown, run where a Lua host is built in.
    pub filter_func: Option<String>,
    /// Lua code that takes the place of plugins; refused, as `filter_func`.
    pub script: Option<String>,
    /// The route's own plugins.
    pub plugins: PluginMap,
    /// A shared set of plugins.
    pub plugin_config_id: Option<Id>,
    /// An upstream written here.
    pub upstream: Option<Upstream>,
    /// Or one by id.
    pub upstream_id: Option<Id>,
    /// A folder whose files answer, instead of an upstream; ours.
    #[serde(rename = "static")]
    pub static_files: Option<Box<StaticFiles>>,
    /// The service this route belongs to.
    pub service_id: Option<Id>,
    /// Whether `Upgrade: websocket` is passed on.
    pub enable_websocket: Option<bool>,
    /// 1: in use (default); 0: kept but not matched.
    pub status: Option<u8>,
}

impl Route {
    /// Its paths, whichever of the two fields holds them.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.uri.iter().chain(self.uris.iter().flatten()).map(String::as_str)
    }

    /// Whether requests may match it.
    #[must_use]
    pub fn enabled(&self) -> bool {
        self.status != Some(0)
    }
}
