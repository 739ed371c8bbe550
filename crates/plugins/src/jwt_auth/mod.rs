//! Authenticates consumers by a JSON Web Token (JWT, RFC 7519) that is signed with the consumer's secret or private
//! key.
//!
//! ## When to use
//! Use it when another system issues tokens and the gateway verifies them. No request to that system is needed: the
//! signature and the time claims decide.
//!
//! ## Example
//! On the route:
//! ```json
//! {
//!     "jwt-auth": {
//!         "header": "authorization",
//!         "claims_to_verify": ["exp"]
//!     }
//! }
//! ```
//! In the consumer: `{"jwt-auth": {"key": "jack", "secret": "a-long-secret", "algorithm": "HS256"}}`; the token's claim
//! `key` (or what `key_claim_name` says) is then `jack`.
//!
//! ## Differences from APISIX
//! - ES512 is rejected, because curve P-521 is not available. RSA keys need at least 2,048 bits.
//! - With `store_in_ctx` the token's payload is the variable `$jwt_auth_payload`, as JSON.
//! - A credential with `_meta.disable` authenticates nobody.

use crate::auth::{self, Door};
use crate::jose::{Algorithm, Key, TimeClaim, Token};
use crate::text::decode_arg;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::ConfigError;
use plugin::{Authenticator, CompileContext, Exchange, Flow, Identity, OnRewrite, Plugin, PluginDef};
use ring::hmac;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use stdx::{Clock, Secret};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<JwtAuth>("jwt-auth", 2510)
        .authenticates()
        .on_rewrite()
        .encrypt_fields(&["secret"])
        .build()
}

/// What a user writes on a route.
#[derive(Debug, Deserialize)]
pub struct Config {
    header: String,
    query: String,
    cookie: String,
    hide_credentials: bool,
    key_claim_name: String,
    store_in_ctx: bool,
    #[serde(default)]
    claims_to_verify: Vec<TimeClaim>,
    #[serde(flatten)]
    door: Door,
}

/// The compiled form.
pub struct JwtAuth {
    config: Config,
    clock: Arc<Clock>,
}

/// What a consumer has.
#[derive(Debug, Deserialize)]
pub struct CredentialConfig {
    key: String,
    secret: Option<Secret>,
    public_key: Option<String>,
    algorithm: Algorithm,
    base64_secret: bool,
    lifetime_grace_period: u64,
}

/// The same compiled.
pub struct Credential {
    algorithm: Algorithm,
    key: Key,
    grace_s: u64,
}

impl Plugin for JwtAuth {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(Self { config, clock: cx.shared.get() })
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "header": {"type": "string", "default": "authorization"},
                "query": {"type": "string", "default": "jwt"},
                "cookie": {"type": "string", "default": "jwt"},
                "hide_credentials": {"type": "boolean", "default": false},
                "key_claim_name": {"type": "string", "default": "key", "minLength": 1},
                "store_in_ctx": {"type": "boolean", "default": false},
                "realm": auth::realm_schema("jwt"),
                "anonymous_consumer": auth::anonymous_consumer_schema(),
                "claims_to_verify": {
                    "type": "array",
                    "items": {"type": "string", "enum": ["exp", "nbf"]},
                    "uniqueItems": true
                }
            }
        })
    }
}

impl Authenticator for JwtAuth {
    type CredentialConfig = CredentialConfig;
    type Credential = Credential;

    fn credential_schema() -> Value {
        let secret = ["HS256", "HS384", "HS512"];
        let public =
            ["RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA"];
        let all: Vec<_> = secret.iter().chain(&public).collect();
        json!({
            "type": "object",
            "properties": {
                "key": {"type": "string", "minLength": 1},
                "secret": {"type": "string", "minLength": 1},
                "algorithm": {"type": "string", "enum": all, "default": "HS256"},
                "exp": {"type": "integer", "minimum": 1, "default": 86400},
                "base64_secret": {"type": "boolean", "default": false},
                "lifetime_grace_period": {"type": "integer", "minimum": 0, "default": 0}
            },
            "dependencies": {
                "algorithm": {
                    "oneOf": [
                        {"properties": {"algorithm": {"enum": secret, "default": "HS256"}}},
                        {
                            "properties": {
                                "public_key": {"type": "string", "minLength": 1},
                                "algorithm": {"enum": public}
                            },
                            "required": ["public_key"]
                        }
                    ]
                }
            },
            "encrypt_fields": ["secret"],
            "required": ["key"]
        })
    }

    fn credential(config: CredentialConfig) -> Result<(Vec<u8>, Credential), Vec<ConfigError>> {
        let key = verifying_key(&config).map_err(|error| vec![error])?;
        let credential =
            Credential { algorithm: config.algorithm, key, grace_s: config.lifetime_grace_period };
        Ok((config.key.into_bytes(), credential))
    }
}

/// The messages are APISIX's.
fn verifying_key(config: &CredentialConfig) -> Result<Key, ConfigError> {
    let Some(digest) = config.algorithm.digest() else {
        let pem = config.public_key.as_deref();
        let pem = pem.ok_or_else(|| ConfigError::new("/public_key", "missing valid public key"))?;
        return Key::public(config.algorithm, pem);
    };
    let Some(secret) = &config.secret else {
        let message = "property \"secret\" is required when using HS based algorithms";
        return Err(ConfigError::new("/secret", message));
    };
    let secret = if config.base64_secret {
        STANDARD.decode(secret.as_str()).map_err(|_| {
            let message = "base64_secret required but the secret is not in base64 format";
            ConfigError::new("/secret", message)
        })?
    } else {
        secret.as_bytes().to_vec()
    };
    Ok(Key::Secret(hmac::Key::new(digest, &secret)))
}

impl OnRewrite for JwtAuth {
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        let found = self.identify(exchange);
        self.config.door.admit(exchange, "Bearer", found)
    }
}

impl JwtAuth {
    /// Who it is, or why nobody knows.
    fn identify<'x>(&self, exchange: &mut Exchange<'x>) -> Result<&'x Identity, &'static str> {
        let text = self.token(exchange).ok_or("Missing JWT token in request")?;
        let token = Token::parse(&text).ok_or("JWT token invalid")?;
        let claim = token.payload.get(&self.config.key_claim_name).ok_or("missing user key in JWT token")?;
        let consumers = exchange.consumers;
        let found = claim.as_str().and_then(|key| consumers.find::<Self>(key.as_bytes()));
        let (identity, credential) = found.ok_or("Invalid user key in JWT token")?;
        let now_s = self.clock.unix_ms(exchange.timing.started) / 1000;
        if !token.is_signed_with(credential.algorithm, &credential.key)
            || !token.is_timely(&self.config.claims_to_verify, now_s, credential.grace_s)
        {
            return Err("failed to verify jwt");
        }
        if self.config.store_in_ctx {
            let payload = Value::Object(token.payload).to_string();
            exchange.vars.push(("jwt_auth_payload".to_owned(), payload.into_bytes()));
        }
        Ok(identity)
    }

    /// The token that the request shows: in the header, else the query, else a cookie. Taken out of it where asked.
    fn token(&self, exchange: &mut Exchange<'_>) -> Option<Vec<u8>> {
        let config = &self.config;
        let request = &mut exchange.request;
        if let Some(value) = request.header(config.header.as_bytes()) {
            let bare = value.strip_prefix(b"Bearer ").or_else(|| value.strip_prefix(b"bearer "));
            let token = bare.unwrap_or(value).to_vec();
            if config.hide_credentials {
                request.edit().headers.remove(&config.header);
            }
            return Some(token);
        }
        if let Some(value) = request.arg(config.query.as_bytes()) {
            let token = decode_arg(value).into_owned();
            if config.hide_credentials {
                request.remove_arg(config.query.as_bytes());
            }
            return Some(token);
        }
        let token = request.cookie(config.cookie.as_bytes())?.to_vec();
        if config.hide_credentials {
            let is_other =
                |pair: &&[u8]| pair.split(|byte| *byte == b'=').next() != Some(config.cookie.as_bytes());
            let cookies = request.header(b"cookie").unwrap_or_default();
            let pairs = cookies.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let others = pairs.filter(is_other).collect::<Vec<_>>().join(&b"; "[..]);
            let headers = &mut request.edit().headers;
            if others.is_empty() {
                headers.remove("Cookie");
            } else {
                headers.set("Cookie", others);
            }
        }
        Some(token)
    }
}

#[cfg(test)]
mod tests;
