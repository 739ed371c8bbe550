//! The plugins: one file each, and the list of them.
//!
//! Everything about a plugin is in its file: documentation, configuration with its schema, compiled form, hooks, tests.

use plugin::PluginDef;

mod amount;
mod auth;
mod compression;
mod decoding;
mod headers;
mod limit_key;
pub mod logging;
mod random;
mod redis_policy;
mod service_call;
mod status;
mod text;

pub mod basic_auth;
pub mod brotli;
pub mod consumer_restriction;
pub mod cors;
pub mod csrf;
pub mod echo;
pub mod example_plugin;
pub mod fault_injection;
pub mod file_logger;
pub mod forward_auth;
pub mod grpc_transcode;
pub mod grpc_web;
pub mod gzip;
pub mod hmac_auth;
pub mod http_logger;
pub mod ip_restriction;
pub mod jwt_auth;
pub mod key_auth;
pub mod limit_conn;
pub mod limit_count;
pub mod limit_req;
pub mod mocking;
pub mod mqtt_proxy;
pub mod node_status;
pub mod prometheus;
pub mod proxy_cache;
pub mod proxy_rewrite;
pub mod public_api;
pub mod real_ip;
pub mod redirect;
pub mod referer_restriction;
pub mod request_id;
pub mod request_validation;
pub mod response_rewrite;
pub mod syslog;
pub mod tcp_logger;
pub mod traffic_split;
pub mod ua_restriction;
pub mod udp_logger;
pub mod uri_blocker;

/// All plugins of routes, in alphabetical order.
pub const ALL: &[&PluginDef] = &[
    &basic_auth::DEF,
    &brotli::DEF,
    &consumer_restriction::DEF,
    &cors::DEF,
    &csrf::DEF,
    &echo::DEF,
    &example_plugin::DEF,
    &fault_injection::DEF,
    &file_logger::DEF,
    &forward_auth::DEF,
    &grpc_transcode::DEF,
    &grpc_web::DEF,
    &gzip::DEF,
    &hmac_auth::DEF,
    &http_logger::DEF,
    &ip_restriction::DEF,
    &jwt_auth::DEF,
    &key_auth::DEF,
    &limit_conn::DEF,
    &limit_count::DEF,
    &limit_req::DEF,
    &mocking::DEF,
    &node_status::DEF,
    &prometheus::DEF,
    &proxy_cache::DEF,
    &proxy_rewrite::DEF,
    &public_api::DEF,
    &real_ip::DEF,
    &redirect::DEF,
    &referer_restriction::DEF,
    &request_id::DEF,
    &request_validation::DEF,
    &response_rewrite::DEF,
    &syslog::DEF,
    &tcp_logger::DEF,
    &traffic_split::DEF,
    &ua_restriction::DEF,
    &udp_logger::DEF,
    &uri_blocker::DEF,
];

/// Those of stream routes, in alphabetical order.
pub const STREAM: &[&PluginDef] = &[
    &ip_restriction::DEF,
    &limit_conn::stream::DEF,
    &mqtt_proxy::DEF,
    &prometheus::DEF,
    &syslog::DEF,
    &traffic_split::DEF,
];

#[cfg(test)]
mod tests;
