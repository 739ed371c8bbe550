//! Asks a Keycloak server whether the user of a token may call the API.
//!
//! ## When to use
//! With Keycloak's Authorization Services, which keep resources, scopes and permissions: each request's token and the
//! permissions that it needs are sent to the token endpoint, which decides (UMA 2.0).
//!
//! ## Example
//! ```json
//! {
//!     "authz-keycloak": {
//!         "token_endpoint": "http://127.0.0.1:8080/realms/quickstart/protocol/openid-connect/token",
//!         "client_id": "apisix-quickstart-client",
//!         "permissions": ["res:customer#scopes:view"]
//!     }
//! }
//! ```
//! With `lazy_load_paths` the permissions are the resources that Keycloak has for the request's path.
//!
//! ## Differences from APISIX
//! - A request passes only if the token endpoint answers with status 200 and `{"result": true}`; in APISIX with any status
//!   below 400.
//! - Other answers of the token endpoint reach the client with their status if that is from 400 to 499; else the answer is 503.
//! - Discovery data and the token for the protection API are kept by each configuration.

mod config;
mod server;

use crate::identity::{Cached, Servers};
pub use config::Config;
use model::ConfigError;
use plugin::{
    CallTimeouts, CompileContext, EndpointOptions, Exchange, Flow, OnAccess, Plugin, PluginDef, Reply,
    WholeBody, form_fields, log_for,
};
use serde_json::{Value, json};
use server::{Denial, Keycloak};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::{Clock, Secret};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<AuthzKeycloak>("authz-keycloak", 2000)
        .on_access()
        .encrypt_fields(&["client_secret"])
        .build()
}

/// The compiled form.
pub struct AuthzKeycloak {
    max_req_body_size: usize,
    password_uri: Option<String>,
    denied_uri: Option<String>,
    keycloak: Arc<Keycloak>,
    clock: Arc<Clock>,
}

impl Plugin for AuthzKeycloak {
    type Config = Config;

    fn compile(mut config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let servers = Servers::new(
            cx.upstreams(),
            EndpointOptions {
                ssl_verify: config.ssl_verify,
                keepalive_pool: if config.keepalive { config.keepalive_pool } else { 0 },
                keepalive_timeout: Duration::from_millis(config.keepalive_timeout),
            },
        );
        for (url, path) in [
            (&config.discovery, "/discovery"),
            (&config.token_endpoint, "/token_endpoint"),
            (&config.resource_registration_endpoint, "/resource_registration_endpoint"),
        ] {
            let found = url.as_ref().map_or(Ok(()), |url| servers.find(url).map(drop));
            found.map_err(|errors| errors.into_iter().map(|error| error.under(path)).collect::<Vec<_>>())?;
        }
        let timeouts = CallTimeouts::all(Duration::from_millis(config.timeout));
        Ok(Self {
            max_req_body_size: config.max_req_body_size,
            password_uri: config.password_grant_token_generation_incoming_uri.take(),
            denied_uri: config.access_denied_redirect_uri.take(),
            keycloak: Arc::new(Keycloak {
                config,
                servers,
                timeouts,
                discovered: Cached::default(),
                grant: Cached::default(),
            }),
            clock: cx.shared.get(),
        })
    }

    fn schema() -> Value {
        let text = |what: &str, max: u32| json!({"description": what, "type": "string", "minLength": 1, "maxLength": max});
        let flag =
            |what: &str, default: bool| json!({"description": what, "type": "boolean", "default": default});
        let number = |what: &str, minimum: u32, default: u32| json!({"description": what, "type": "integer", "minimum": minimum, "default": default});
        let uma = "urn:ietf:params:oauth:grant-type:uma-ticket";
        json!({
            "type": "object",
            "properties": {
                "max_req_body_size": number("Bytes of a body with name and password.", 1, 67_108_864),
                "discovery": text("The URL of Keycloak's UMA or OpenID Connect discovery document.", 4096),
                "token_endpoint": text("The token endpoint, if it isn't discovered.", 4096),
                "resource_registration_endpoint": text("The resource registration endpoint, likewise.", 4096),
                "client_id": text("The resource server's client id.", 100),
                "client_secret": text("Its secret.", 100),
                "grant_type": {
                    "type": "string", "default": uma, "enum": [uma], "minLength": 1, "maxLength": 100
                },
                "policy_enforcement_mode": {
                    "description": "Whether requests without a permission to ask for are refused.",
                    "type": "string", "enum": ["ENFORCING", "PERMISSIVE"], "default": "ENFORCING"
                },
                "permissions": {
                    "description": "The permissions that requests need.",
                    "type": "array", "uniqueItems": true, "default": [],
                    "items": {"type": "string", "minLength": 1, "maxLength": 100}
                },
                "lazy_load_paths": flag("Whether Keycloak is asked for the resources of a path.", false),
                "http_method_as_scope": flag("Whether the method is a scope of each permission.", false),
                "timeout": number("Milliseconds that each step of a call may take.", 1000, 3000),
                "ssl_verify": flag("Whether Keycloak's certificate must be valid for its name.", true),
                "cache_ttl_seconds": number("Seconds for which discovery data and tokens are kept.", 1, 86_400),
                "keepalive": flag("Whether connections are reused.", true),
                "keepalive_timeout": number("Milliseconds after which an idle connection is closed.", 1000, 60_000),
                "keepalive_pool": number("Idle connections that each worker keeps.", 1, 5),
                "access_denied_redirect_uri": text("Where clients that are refused are sent.", 2048),
                "access_token_expires_in": number("Seconds, where Keycloak doesn't say.", 1, 300),
                "access_token_expires_leeway": number("Seconds before its end at which a token is renewed.", 0, 0),
                "refresh_token_expires_in": number("Seconds, where Keycloak doesn't say.", 1, 3600),
                "refresh_token_expires_leeway": number("Seconds before its end.", 0, 0),
                "password_grant_token_generation_incoming_uri": text(
                    "The URI at which clients get a token for a name and a password.", 4096
                )
            },
            "encrypt_fields": ["client_secret"],
            "required": ["client_id"],
            "allOf": [
                {"anyOf": [{"required": ["discovery"]}, {"required": ["token_endpoint"]}]},
                {"anyOf": [
                    {"properties": {"lazy_load_paths": {"enum": [false]}}},
                    {
                        "properties": {"lazy_load_paths": {"enum": [true]}},
                        "anyOf": [{"required": ["discovery"]}, {"required": ["resource_registration_endpoint"]}]
                    }
                ]}
            ]
        })
    }
}

impl OnAccess for AuthzKeycloak {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let request = &exchange.request;
        let is_login = self.password_uri.as_ref().is_some_and(|uri| uri.as_bytes() == request.target())
            && request.method() == b"POST"
            && request.header(b"content-type") == Some(b"application/x-www-form-urlencoded");
        if is_login {
            return self.password_grant(exchange);
        }
        let Some(token) = request.header(b"authorization") else {
            log_for!(
                error,
                exchange,
                "authz-keycloak: failed to fetch JWT token: authorization header not available"
            );
            return Flow::reply(Reply::message(401, "Missing JWT token in request"));
        };
        let has_scheme = token.starts_with(b"Bearer ") || token.starts_with(b"bearer ");
        let token = if has_scheme { token.to_vec() } else { [b"Bearer ", token].concat() };
        let (path, method) = (request.path.to_vec(), String::from_utf8_lossy(request.method()).into_owned());
        let now_s = self.clock.unix_ms(exchange.timing.started) / 1000;
        let (services, keycloak) = (Rc::clone(exchange.services), Arc::clone(&self.keycloak));
        let denied_uri = self.denied_uri.clone();
        Flow::wait(
            async move { keycloak.evaluate(&services, &token, &path, &method, now_s).await },
            move |decision, exchange| match decision {
                Ok(()) => Flow::Next,
                Err(denial) => denied(denial, denied_uri, exchange),
            },
        )
    }
}

/// The answer to a client that is refused.
fn denied(denial: Denial, denied_uri: Option<String>, exchange: &Exchange<'_>) -> Flow {
    match (denial, denied_uri) {
        (Denial::NotAuthorized(_), Some(uri)) => Flow::reply(Reply::status(307).with_header("Location", uri)),
        (Denial::NotAuthorized(body), None) => Flow::reply(Reply::text(403, body)),
        (Denial::Refused(status, body), _) => Flow::reply(Reply::text(status, body)),
        (Denial::Failed(why), _) => {
            log_for!(error, exchange, "authz-keycloak: {why}");
            Flow::status(503)
        }
    }
}

impl AuthzKeycloak {
    /// Answers with the token that a name and a password are worth.
    fn password_grant(&self, exchange: &mut Exchange<'_>) -> Flow {
        let body = match exchange.request.whole_body(self.max_req_body_size) {
            WholeBody::Unread => return Flow::Body(self.max_req_body_size),
            WholeBody::TooLong => return Flow::status(413),
            WholeBody::Whole(body) => form_fields(body),
        };
        let field = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
        let Some(username) = field("username") else {
            return Flow::reply(Reply::message(422, "username is missing."));
        };
        let Some(password) = field("password") else {
            return Flow::reply(Reply::message(422, "password is missing."));
        };
        let now_s = self.clock.unix_ms(exchange.timing.started) / 1000;
        let (services, keycloak) = (Rc::clone(exchange.services), Arc::clone(&self.keycloak));
        Flow::wait(
            async move { keycloak.token_of(&services, &username, &Secret::from(password), now_s).await },
            |answer, exchange| match answer {
                Ok(body) => {
                    Flow::reply(Reply::text(200, body).with_header("Content-Type", "application/json"))
                }
                Err((message, why)) => {
                    log_for!(error, exchange, "authz-keycloak: {why}");
                    Flow::reply(Reply::message(401, message))
                }
            },
        )
    }
}

#[cfg(test)]
mod tests;
