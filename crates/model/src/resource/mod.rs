//! One file per resource. Field names and defaults are APISIX's.

mod checks;
mod consumer;
mod consumer_group;
mod credential;
mod global_rule;
mod graphql_cost;
mod plugin_config;
mod proto;
mod route;
mod secret;
mod service;
mod ssl;
mod static_files;
mod stream_route;
mod timeout;
mod upstream;

pub use checks::{
    ActiveChecks, ActiveHealthy, ActiveUnhealthy, CheckProtocol, Checks, PassiveChecks, PassiveHealthy,
    PassiveUnhealthy,
};
pub use consumer::Consumer;
pub use consumer_group::ConsumerGroup;
pub use credential::Credential;
pub use global_rule::GlobalRule;
pub use graphql_cost::GraphqlCost;
pub use plugin_config::PluginConfig;
pub use proto::Proto;
pub use route::Route;
pub use secret::{AwsSecret, GcpAccount, GcpSecret, SECRET_MANAGERS, VaultSecret};
pub use service::Service;
pub use ssl::{ClientVerification, Ssl, SslSide};
pub use static_files::{Compress, Encoding, OpenFileCache, StaticFiles, Symlinks};
pub use stream_route::{StreamProtocol, StreamRoute};
pub use timeout::Timeout;
pub use upstream::{HashOn, KeepalivePool, Node, OutlierEjection, PassHost, Scheme, Upstream};
