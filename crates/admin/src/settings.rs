//! What the configuration file says about the Admin API (`deployment.admin`).

use crate::AdminRequest;
use ipnet::IpNet;
use std::time::Duration;

/// The Admin API's settings.
#[derive(Debug, Clone)]
pub struct AdminSettings {
    /// `admin_key`: who may call it.
    pub keys: Vec<AdminKey>,
    /// `admin_key_required`. False is honoured for loopback peers alone, and not for what a web page sends through their
    /// browser.
    pub key_required: bool,
    /// `allow_admin`: the networks that may connect; empty means all.
    pub allow: Vec<IpNet>,
    /// `admin_api_version`: the shape of answers.
    pub version: ApiVersion,
    /// `enable_admin_cors`: whether pages of other origins may call the API with a private key. Off by default; APISIX's
    /// default is on.
    pub cors: bool,
    /// `proxy_mode` has streams: without, stream routes are refused.
    pub streams: bool,
    /// Largest request body in bytes; APISIX's is 1.5 MiB.
    pub body_limit: usize,
    /// How long an acknowledged write's answer waits for the workers to have it. A snapshot is built in milliseconds,
    /// and a client must not hang where something keeps the workers from taking it; 1 second by default.
    pub apply_wait: Duration,
    /// What stands before the store's keys in answers: etcd's prefix, `/apisix`.
    pub prefix: String,
    /// The `Server` header of answers.
    pub server: &'static str,
}

impl Default for AdminSettings {
    /// APISIX's, with no key: every request is refused until one is configured.
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            key_required: true,
            allow: Vec::new(),
            version: ApiVersion::V3,
            cors: false,
            streams: false,
            body_limit: 1_572_864,
            apply_wait: Duration::from_secs(1),
            prefix: "/apisix".to_owned(),
            server: "Tidegate",
        }
    }
}

impl AdminSettings {
    /// Whether answers have CORS header fields. They allow every origin, so they are for private keys alone: never on
    /// the data port, and never where a published key or no key opens the API.
    pub(crate) fn answers_cors(&self, request: &AdminRequest) -> bool {
        let private =
            self.key_required && !self.keys.iter().any(|key| secrets::is_well_known_admin_key(&key.key));
        self.cors && private && !request.on_data_port
    }
}

/// One of `admin_key`.
#[derive(Clone)]
pub struct AdminKey {
    /// Whose it is; named in the store's history.
    pub name: String,
    /// The key itself. An empty one opens nothing.
    pub key: String,
    /// What it is good for.
    pub role: Role,
}

impl std::fmt::Debug for AdminKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminKey").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

/// What a key is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    Admin,
    /// GET alone.
    Viewer,
}

/// The shape of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiVersion {
    /// `{"key": ..., "value": ...}`
    V3,
    /// `{"action": ..., "node": {"key": ..., "value": ...}}`
    V2,
}

impl ApiVersion {
    /// What the `X-API-VERSION` header says.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V3 => "v3",
            Self::V2 => "v2",
        }
    }
}
