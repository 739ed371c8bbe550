//! A route, compiled: its plugins merged and bound, its upstream resolved.

use crate::{Timeouts, Upstream};
use plugin::{Chain, RouteInfo};
use std::sync::Arc;

/// A route, compiled.
#[derive(Debug)]
pub struct Route {
    /// What plugins and logs may know of it.
    pub info: RouteInfo,
    /// Plugins of route, plugin config and service, merged in this order of precedence.
    pub chain: Chain,
    /// Where requests go; `None` where plugins alone answer (a request that gets so far is told 503).
    pub upstream: Option<Arc<Upstream>>,
    /// The route's own timeouts, which stand above the upstream's.
    pub timeouts: Option<Timeouts>,
    /// Whether `Upgrade: websocket` is passed on.
    pub websocket: bool,
}
