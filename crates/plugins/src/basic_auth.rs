//! Authenticates consumers by user name and password (HTTP Basic authentication, RFC 7617).
//!
//! ## When to use
//! Use it for people with browsers and for tools without another authentication scheme. Every request carries the
//! password, so the listener should use TLS.
//!
//! ## Example
//! On the route:
//! ```json
//! {
//!     "basic-auth": {
//!         "hide_credentials": true
//!     }
//! }
//! ```
//! In the consumer: `{"basic-auth": {"username": "jack", "password": "a-long-secret"}}`.
//!
//! ## Differences from APISIX
//! - Passwords may have colons in them.
//! - A credential with `_meta.disable` authenticates nobody.

use crate::auth::{self, Door};
use model::ConfigError;
use plugin::{Authenticator, CompileContext, Exchange, Flow, OnRewrite, Plugin, PluginDef};
use serde::Deserialize;
use serde_json::{Value, json};
use stdx::Secret;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<BasicAuth>("basic-auth", 2520)
        .authenticates()
        .on_rewrite()
        .encrypt_fields(&["password"])
        .build()
}

/// The configuration, and the compiled form: there is nothing to compile.
#[derive(Debug, Deserialize)]
pub struct BasicAuth {
    hide_credentials: bool,
    #[serde(flatten)]
    door: Door,
}

/// What a consumer has.
#[derive(Debug, Deserialize)]
pub struct CredentialConfig {
    username: String,
    password: Secret,
}

/// A password.
pub struct Password(String);

impl Plugin for BasicAuth {
    type Config = Self;

    fn compile(config: Self, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(config)
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "title": "work with route or service object",
            "properties": {
                "hide_credentials": {"type": "boolean", "default": false},
                "realm": auth::realm_schema("basic"),
                "anonymous_consumer": auth::anonymous_consumer_schema()
            }
        })
    }
}

impl Authenticator for BasicAuth {
    type CredentialConfig = CredentialConfig;
    type Credential = Password;

    fn credential_schema() -> Value {
        json!({
            "type": "object",
            "title": "work with consumer object",
            "properties": {"username": {"type": "string"}, "password": {"type": "string"}},
            "encrypt_fields": ["password"],
            "required": ["username", "password"]
        })
    }

    fn credential(config: CredentialConfig) -> Result<(Vec<u8>, Password), Vec<ConfigError>> {
        Ok((config.username.into_bytes(), Password(config.password.into_string())))
    }
}

impl OnRewrite for BasicAuth {
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        let consumers = exchange.consumers;
        let found = match exchange.request.header(b"authorization") {
            None => Err("Missing authorization in request"),
            Some(header) => match auth::user_and_password(header) {
                None => Err("Invalid authorization in request"),
                Some((user, password)) => consumers
                    .find::<Self>(&user)
                    .filter(|(_, stored)| auth::same_secret(stored.0.as_bytes(), &password))
                    .map(|(identity, _)| identity)
                    .ok_or("Invalid user authorization"),
            },
        };
        let flow = self.door.admit(exchange, "Basic", found);
        if self.hide_credentials && matches!(flow, Flow::Next) {
            exchange.request.edit().headers.remove("Authorization");
        }
        flow
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    #[test]
    fn users_are_let_in_by_their_password() {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("valid schemas");
        let chain = testkit::chain(&registry, &json!({"basic-auth": {"hide_credentials": true}}));
        let chain = chain.expect("valid");
        for (header, expected) in [
            ("Authorization: Basic amFjazpzOjE=", None),
            ("Authorization: basic amFjazpzOjE", None),
            ("Authorization: Basic amFjazpz", Some("Invalid user authorization")),
            ("Authorization: Basic am9lOnM6MQ==", Some("Invalid user authorization")),
            ("Authorization: Basic amFjaw==", Some("Invalid authorization in request")),
            ("Authorization: Basic !", Some("Invalid authorization in request")),
            ("Authorization: Bearer amFjazpzOjE=", Some("Invalid authorization in request")),
            ("X: 1", Some("Missing authorization in request")),
        ] {
            let mut bench = Bench::new(&format!("GET /\n{header}"));
            let jack = ("jack", json!({"basic-auth": {"username": "jack", "password": "s:1"}}));
            bench.consumers = testkit::consumers(&registry, &[jack]).expect("valid");
            let mut exchange = bench.exchange();
            let reply = testkit::request(&chain, &mut exchange);
            let body = reply.and_then(|reply| reply.body);
            let expected = expected.map(|why| format!("{{\"message\":\"{why}\"}}\n").into_bytes());
            assert_eq!(body, expected, "{header}");
            let consumer = exchange.consumer.map(|consumer| consumer.name.as_str());
            assert_eq!(consumer, expected.is_none().then_some("jack"), "{header}");
            assert!(expected.is_some() || exchange.request.header(b"authorization").is_none());
        }
    }
}
