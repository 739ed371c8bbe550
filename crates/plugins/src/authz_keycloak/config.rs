//! What a user writes.

use serde::Deserialize;
use stdx::Secret;

/// The configuration. Times are in seconds, but for `timeout` and `keepalive_timeout`: milliseconds.
#[derive(Debug, Deserialize)]
pub struct Config {
    pub(super) max_req_body_size: usize,
    pub(super) discovery: Option<String>,
    pub(super) token_endpoint: Option<String>,
    pub(super) resource_registration_endpoint: Option<String>,
    pub(super) client_id: String,
    #[serde(default)]
    pub(super) client_secret: Secret,
    pub(super) grant_type: String,
    pub(super) policy_enforcement_mode: Enforcement,
    pub(super) permissions: Vec<String>,
    pub(super) lazy_load_paths: bool,
    pub(super) http_method_as_scope: bool,
    pub(super) timeout: u64,
    pub(super) ssl_verify: bool,
    pub(super) cache_ttl_seconds: u64,
    pub(super) keepalive: bool,
    pub(super) keepalive_timeout: u64,
    pub(super) keepalive_pool: u32,
    pub(super) access_denied_redirect_uri: Option<String>,
    pub(super) access_token_expires_in: u64,
    pub(super) access_token_expires_leeway: u64,
    pub(super) refresh_token_expires_in: u64,
    pub(super) refresh_token_expires_leeway: u64,
    pub(super) password_grant_token_generation_incoming_uri: Option<String>,
}

/// What becomes of a request for which there is no permission to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Enforcement {
    Enforcing,
    Permissive,
}
