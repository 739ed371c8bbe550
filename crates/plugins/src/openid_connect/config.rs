//! What a user writes.

use super::schema::reserved;
use crate::identity::SameSite;
use crate::jose::Algorithm;
use model::ConfigError;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::time::Duration;
use stdx::Secret;

/// The configuration. Times are in seconds.
#[derive(Debug, Deserialize)]
pub struct Config {
    pub(super) client_id: String,
    #[serde(default)]
    pub(super) client_secret: Option<Secret>,
    pub(super) discovery: String,
    pub(super) scope: String,
    pub(super) ssl_verify: bool,
    timeout: u64,
    pub(super) introspection_endpoint: Option<String>,
    pub(super) introspection_endpoint_auth_method: String,
    pub(super) token_endpoint_auth_method: String,
    pub(super) bearer_only: bool,
    pub(super) session: Option<SessionConfig>,
    pub(super) realm: String,
    #[serde(default)]
    pub(super) claim_validator: ClaimValidator,
    pub(super) logout_path: String,
    pub(super) redirect_uri: Option<String>,
    pub(super) post_logout_redirect_uri: Option<String>,
    pub(super) unauth_action: UnauthAction,
    pub(super) public_key: Option<String>,
    pub(super) use_jwks: bool,
    pub(super) token_signing_alg_values_expected: Option<String>,
    pub(super) use_pkce: bool,
    #[serde(default)]
    pub(super) par: Par,
    #[serde(default)]
    dpop: Dpop,
    pub(super) set_access_token_header: bool,
    pub(super) access_token_in_authorization_header: bool,
    pub(super) set_id_token_header: bool,
    pub(super) set_raw_id_token_header: bool,
    pub(super) set_userinfo_header: bool,
    pub(super) set_refresh_token_header: bool,
    proxy_opts: Option<Map<String, Value>>,
    #[serde(default)]
    pub(super) authorization_params: Map<String, Value>,
    pub(super) client_rsa_private_key: Option<Secret>,
    pub(super) client_rsa_private_key_id: Option<String>,
    pub(super) client_jwt_assertion_expires_in: u64,
    pub(super) client_jwt_assertion_alg: Option<Algorithm>,
    pub(super) client_jwt_assertion_audience: Option<String>,
    pub(super) renew_access_token_on_expiry: bool,
    pub(super) access_token_expires_in: Option<u64>,
    pub(super) refresh_session_interval: Option<u64>,
    pub(super) iat_slack: u64,
    pub(super) accept_none_alg: bool,
    pub(super) access_token_expires_leeway: u64,
    pub(super) force_reauthorize: bool,
    pub(super) use_nonce: bool,
    pub(super) revoke_tokens_on_logout: bool,
    pub(super) jwk_expires_in: u64,
    pub(super) introspection_interval: u64,
    pub(super) introspection_expiry_claim: Option<String>,
    #[serde(default)]
    pub(super) introspection_addon_headers: Vec<String>,
    pub(super) required_scopes: Option<Vec<String>>,
    pub(super) claim_schema: Option<Value>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// What becomes of requests without a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum UnauthAction {
    Auth,
    Deny,
    Pass,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ClaimValidator {
    #[serde(default)]
    pub(super) issuer: IssuerValidator,
    #[serde(default)]
    pub(super) audience: AudienceValidator,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct IssuerValidator {
    pub(super) valid_issuers: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct AudienceValidator {
    pub(super) claim: Option<String>,
    #[serde(default)]
    pub(super) required: bool,
    #[serde(default)]
    pub(super) match_with_client_id: bool,
}

/// Pushed authorization requests (RFC 9126).
#[derive(Debug, Default, Deserialize)]
pub(super) struct Par {
    #[serde(default)]
    pub(super) enabled: bool,
    pub(super) endpoint: Option<String>,
    pub(super) endpoint_auth_method: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Dpop {
    #[serde(default)]
    enabled: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct SessionConfig {
    pub(super) secret: Secret,
    pub(super) cookie_name: Option<String>,
    pub(super) cookie_path: Option<String>,
    pub(super) cookie_domain: Option<String>,
    pub(super) cookie_secure: Option<bool>,
    pub(super) cookie_http_only: Option<bool>,
    pub(super) cookie_same_site: Option<SameSite>,
    pub(super) idling_timeout: Option<u64>,
    pub(super) rolling_timeout: Option<u64>,
    absolute_timeout: Option<u64>,
    cookie: Option<OldCookie>,
    storage: Storage,
    redis: Option<RedisStorage>,
}

/// The form of before, which still counts.
#[derive(Debug, Deserialize)]
struct OldCookie {
    lifetime: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Storage {
    #[default]
    Cookie,
    Redis,
}

/// Times are in milliseconds.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(super) struct RedisStorage {
    pub(super) host: String,
    pub(super) port: u64,
    pub(super) username: Option<String>,
    pub(super) password: Secret,
    pub(super) database: u64,
    pub(super) prefix: String,
    pub(super) ssl: bool,
    pub(super) ssl_verify: bool,
    pub(super) connect_timeout: u64,
    pub(super) read_timeout: u64,
    pub(super) keepalive_timeout: u64,
}

impl Default for RedisStorage {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 6379,
            username: None,
            password: Secret::default(),
            database: 0,
            prefix: "sessions".to_owned(),
            ssl: false,
            ssl_verify: true,
            connect_timeout: 1000,
            read_timeout: 1000,
            keepalive_timeout: 10_000,
        }
    }
}

impl SessionConfig {
    /// Seconds from a login to the next, whatever happens between; 0 is no limit.
    pub(super) fn absolute_s(&self) -> u64 {
        let old = self.cookie.as_ref().and_then(|cookie| cookie.lifetime);
        self.absolute_timeout.or(old).unwrap_or(86_400)
    }

    /// Where sessions are, if not in the cookie.
    pub(super) fn redis(&self) -> Option<&RedisStorage> {
        self.redis.as_ref().filter(|_| self.storage == Storage::Redis)
    }
}

impl Config {
    /// How long each step of a call to the provider may take. Large values were written in milliseconds once.
    pub(super) fn timeout(&self) -> Duration {
        if self.timeout >= 1000 && self.timeout.is_multiple_of(1000) {
            Duration::from_millis(self.timeout)
        } else {
            Duration::from_secs(self.timeout)
        }
    }

    /// Whether requests may show bearer tokens.
    pub(super) fn takes_bearer(&self) -> bool {
        self.bearer_only || self.introspection_endpoint.is_some() || self.verifies_locally()
    }

    /// Whether the gateway itself checks the signatures of bearer tokens.
    pub(super) fn verifies_locally(&self) -> bool {
        self.public_key.is_some() || self.use_jwks
    }

    /// Checks what the schema can't. The messages are APISIX's.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let refuse = |message: String| Err(ConfigError::new("", message));
        if !self.bearer_only && self.session.is_none() {
            return refuse(
                "property \"session.secret\" is required when \"bearer_only\" is false".to_owned(),
            );
        }
        let needs_no_secret = if self.bearer_only {
            self.verifies_locally() || self.introspection_endpoint_auth_method == "private_key_jwt"
        } else {
            self.token_endpoint_auth_method == "private_key_jwt" || self.use_pkce
        };
        if !needs_no_secret && self.client_secret.is_none() {
            return refuse("property \"client_secret\" is required".to_owned());
        }
        if let Some((name, owner)) = reserved().find(|(name, _)| self.rest.contains_key(*name)) {
            return refuse(format!("property \"{name}\" is not allowed, use \"{owner}\" instead"));
        }
        if let Some(method) =
            self.par.endpoint_auth_method.as_deref().filter(|_| self.par.enabled && !self.bearer_only)
        {
            let (credential, is_there) = match method {
                "private_key_jwt" => ("client_rsa_private_key", self.client_rsa_private_key.is_some()),
                "client_secret_jwt" => ("client_secret", self.client_secret.is_some()),
                _ => ("", true),
            };
            if !is_there {
                return refuse(format!(
                    "property \"par.endpoint_auth_method\" \"{method}\" requires \"{credential}\" when \"par.enabled\" is true"
                ));
            }
        }
        if self.dpop.enabled {
            return Err(ConfigError::new("/dpop/enabled", "DPoP is not supported"));
        }
        if self
            .proxy_opts
            .as_ref()
            .is_some_and(|proxy| ["http_proxy", "https_proxy"].iter().any(|name| proxy.contains_key(*name)))
        {
            return Err(ConfigError::new(
                "/proxy_opts",
                "proxies to the identity provider are not supported",
            ));
        }
        Ok(())
    }
}
