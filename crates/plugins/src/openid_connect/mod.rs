//! Has users log in at an OpenID Connect provider, and lets in who shows its tokens.
//!
//! ## When to use
//! For pages and APIs whose users Keycloak, Auth0, Entra ID, Google or another provider knows. Browsers are sent to the
//! provider and come back with a code (authorization code flow); programs show access tokens, which are checked with the
//! provider's published keys, with a key of yours, or by asking the provider.
//!
//! ## Example
//! ```json
//! {
//!     "openid-connect": {
//!         "client_id": "apisix",
//!         "client_secret": "d5c42c50-3e71-4bbe-aa9e-31083ab29da4",
//!         "discovery": "http://127.0.0.1:8080/realms/quickstart/.well-known/openid-configuration",
//!         "redirect_uri": "http://127.0.0.1:9080/anything/callback",
//!         "use_pkce": true,
//!         "use_nonce": true,
//!         "session": {"secret": "a-secret-of-16-characters-or-more"}
//!     }
//! }
//! ```
//! The redirect URI has to be a path of this route. The provider may post logout tokens (back-channel logout) to
//! `logout_path`. With `bearer_only` there are no logins.
//!
//! ## Differences from APISIX
//! - Sessions are encrypted with a key derived from `session.secret`, and end after `idling_timeout` (900 s) or
//!   `rolling_timeout` (3600 s) without a renewal, whichever is shorter. Sessions of APISIX are not taken: users log in again.
//! - A session of more than some 5 kB needs `storage: redis`: a request's cookies have to fit into 8 KiB.
//! - ID tokens have to be signed with an algorithm that the provider announces or that is configured;
//!   `accept_unsupported_alg` has no effect. Bearer tokens have to be signed with a public key's algorithm.
//! - ES512, DPoP and `proxy_opts` are refused.
//! - A `state` is good once. The logins under way are in a cookie of their own, at most five.
//! - Back-channel logout is there.

mod bearer;
mod claims;
mod client;
mod client_auth;
mod config;
mod introspected;
mod login;
mod logout;
mod provider;
mod schema;
mod session_flow;
mod sessions;

use client::{Client, quotable};
pub use config::Config;
use model::ConfigError;
use model::schema::Validator;
use plugin::{CompileContext, Exchange, Flow, OnRewrite, Plugin, PluginDef, Reply, log_for};
use provider::Provider;
use serde_json::Value;
use sessions::Store;
use std::sync::Arc;
use stdx::Clock;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<OpenidConnect>("openid-connect", 2599)
        .on_rewrite()
        .encrypt_fields(&[
            "client_secret",
            "client_rsa_private_key",
            "dpop.private_key",
            "session.secret",
            "session.redis.password",
        ])
        .build()
}

/// The fields that the upstream gets from this plugin alone.
const OWN_FIELDS: [&str; 5] =
    ["X-Access-Token", "X-Userinfo", "X-ID-Token", "X-Refresh-Token", "X-Raw-ID-Token"];

/// The compiled form.
pub struct OpenidConnect {
    client: Arc<Client>,
    clock: Arc<Clock>,
}

impl Plugin for OpenidConnect {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        config.check().map_err(|error| vec![error])?;
        let claim_schema = config.claim_schema.as_ref().map(Validator::compile).transpose();
        let claim_schema = claim_schema.map_err(|error| {
            let message = format!("check claim_schema failed: {}", error.message);
            vec![ConfigError::new("/claim_schema", message)]
        })?;
        let callback_path = config.redirect_uri.as_deref().map(|uri| {
            let path = match uri.split_once("://") {
                Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
                None => uri,
            };
            path.split(['?', '#']).next().unwrap_or("/").to_owned()
        });
        let public_keys = config.public_key.as_deref().map(bearer::public_keys).unwrap_or_default();
        if config.public_key.is_some() && public_keys.is_empty() {
            tracing::warn!("openid-connect: public_key is no public key: no bearer token is good");
        }
        let store = config.session.as_ref().filter(|_| !config.bearer_only);
        Ok(Self {
            client: Arc::new(Client {
                provider: Provider::compile(&config, cx)?,
                store: store.map(|session| Store::compile(session, cx)).transpose()?,
                callback_path,
                public_keys,
                claim_schema,
                introspected: introspected::Introspected::default(),
                used: cx.shared.get(),
                config,
            }),
            clock: cx.shared.get(),
        })
    }

    fn schema() -> Value {
        schema::schema()
    }
}

impl OnRewrite for OpenidConnect {
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        let client = &self.client;
        let now_s = self.clock.unix_ms(exchange.timing.started) / 1000;
        let has_sessions = client.store.is_some();
        let is_logout = has_sessions && *exchange.request.path == *client.config.logout_path.as_bytes();
        if is_logout && logout::is_back_channel(exchange) {
            return logout::back_channel(client, exchange, now_s);
        }
        let other = exchange.request.header(b"x-access-token");
        let other = other.map(|token| String::from_utf8_lossy(token).into_owned());
        let headers = &mut exchange.request.edit().headers;
        // What the client sent under these names never passes for the provider's word.
        OWN_FIELDS.iter().for_each(|name| headers.remove(name));
        if is_logout {
            return logout::front_channel(client, exchange, now_s);
        }
        if client.config.takes_bearer() {
            match bearer::shown(exchange, other) {
                Ok(Some(token)) => return bearer::admit(client, token, exchange, now_s),
                Ok(None) if client.config.bearer_only => {
                    let challenge = format!("Bearer realm=\"{}\"", quotable(&client.config.realm));
                    return Flow::reply(Reply::status(401).with_header("WWW-Authenticate", challenge));
                }
                Ok(None) => {}
                Err(why) => {
                    log_for!(error, exchange, "openid-connect: OIDC introspection failed: {why}");
                    return Flow::status(400);
                }
            }
        }
        if has_sessions && login::is_callback(client, exchange) {
            return login::finish(client, exchange, now_s);
        }
        session_flow::enter(client, exchange, now_s)
    }
}

#[cfg(test)]
mod tests;
