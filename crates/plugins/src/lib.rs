//! The plugins: one file each, and the list of them.
//!
//! Everything about a plugin is in its file: documentation, configuration with its schema, compiled form, hooks, tests.

use plugin::PluginDef;

mod auth;
mod headers;
mod text;

pub mod basic_auth;
pub mod consumer_restriction;
pub mod csrf;
pub mod echo;
pub mod hmac_auth;
pub mod ip_restriction;
pub mod jwt_auth;
pub mod key_auth;
pub mod limit_count;
pub mod prometheus;
pub mod proxy_rewrite;
pub mod redirect;
pub mod request_id;
pub mod response_rewrite;
pub mod uri_blocker;

/// All plugins, in alphabetical order.
pub const ALL: &[&PluginDef] = &[
    &basic_auth::DEF,
    &consumer_restriction::DEF,
    &csrf::DEF,
    &echo::DEF,
    &hmac_auth::DEF,
    &ip_restriction::DEF,
    &jwt_auth::DEF,
    &key_auth::DEF,
    &limit_count::DEF,
    &prometheus::DEF,
    &proxy_rewrite::DEF,
    &redirect::DEF,
    &request_id::DEF,
    &response_rewrite::DEF,
    &uri_blocker::DEF,
];

#[cfg(test)]
mod tests;
