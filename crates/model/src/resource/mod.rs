//! One file per resource. Field names and defaults are APISIX's.

mod global_rule;
mod plugin_config;
mod route;
mod service;
mod timeout;
mod upstream;

pub use global_rule::GlobalRule;
pub use plugin_config::PluginConfig;
pub use route::Route;
pub use service::Service;
pub use timeout::Timeout;
pub use upstream::{HashOn, KeepalivePool, Node, PassHost, Scheme, Upstream};
