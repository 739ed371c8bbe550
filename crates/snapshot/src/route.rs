//! A route, compiled: its plugins merged and bound, its upstream resolved.

use crate::{Timeouts, Upstream};
use plugin::{Chain, RouteInfo};
use std::fmt;
use std::sync::Arc;

/// A route, compiled.
#[derive(Debug)]
pub struct Route {
    /// What plugins and logs may know of it.
    pub info: RouteInfo,
    /// Plugins of route, plugin config and service, merged in this order of precedence. Empty where `broken` stops
    /// requests before any plugin.
    pub chain: Chain,
    /// Where requests go; `None` where plugins alone answer (a request that gets so far is told
    /// [`Route::status_without_upstream`]).
    pub upstream: Option<Arc<Upstream>>,
    /// The files that answer instead of an upstream.
    pub site: Option<Arc<files::Site>>,
    /// The route's own timeouts, which stand above the upstream's.
    pub timeouts: Option<Timeouts>,
    /// Whether `Upgrade: websocket` is passed on.
    pub websocket: bool,
    /// A resource that the route needs and that does not exist.
    pub broken: Option<Broken>,
}

/// A resource that a route needs and that does not exist, by its id. The text is for the error log; clients get the
/// status and the gateway's own page for it, as from APISIX.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// `plugin_config_id`: answered before any plugin, global rules included.
    PluginConfig(String),
    /// `service_id`: answered before any plugin, global rules included.
    Service(String),
    /// `upstream_id` of the route or its service: plugins run and may answer themselves.
    Upstream(String),
}

impl Route {
    /// The status of an answer that is due as soon as the route is chosen, before any plugin runs; `None` for a route
    /// that works so far.
    #[must_use]
    pub fn refusal(&self) -> Option<u16> {
        self.broken.as_ref().filter(|broken| broken.before_plugins()).map(Broken::status)
    }

    /// The status for a request that reaches the point where an upstream is needed and there is none.
    #[must_use]
    pub fn status_without_upstream(&self) -> u16 {
        self.broken.as_ref().map_or(503, Broken::status)
    }
}

impl Broken {
    /// The status that requests are answered with: APISIX's.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::PluginConfig(_) => 503,
            Self::Service(_) => 404,
            Self::Upstream(_) => 502,
        }
    }

    /// Whether the answer is due before any plugin runs.
    #[must_use]
    pub fn before_plugins(&self) -> bool {
        !matches!(self, Self::Upstream(_))
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, id) = match self {
            Self::PluginConfig(id) => ("plugin config", id),
            Self::Service(id) => ("service", id),
            Self::Upstream(id) => ("upstream", id),
        };
        write!(f, "{kind} {id} does not exist")
    }
}
