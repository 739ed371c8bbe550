//! Authenticates consumers by an API key in a header field or query argument.
//!
//! ## When to use
//! Use it for clients that are programs. A key is found in constant time among any number of consumers. The upstream
//! gets the consumer's name in `X-Consumer-Username`.
//!
//! ## Example
//! On the route:
//! ```json
//! {
//!     "key-auth": {
//!         "header": "apikey",
//!         "hide_credentials": true
//!     }
//! }
//! ```
//! In the consumer: `{"key-auth": {"key": "a-long-secret"}}`.
//!
//! ## Differences from APISIX
//! - A credential with `_meta.disable` authenticates nobody.

use crate::auth::{self, Door};
use crate::text::decode_arg;
use model::ConfigError;
use plugin::{Authenticator, CompileContext, Exchange, Flow, OnRewrite, Plugin, PluginDef};
use serde::Deserialize;
use serde_json::{Value, json};
use stdx::Secret;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<KeyAuth>("key-auth", 2500).authenticates().on_rewrite().encrypt_fields(&["key"]).build()
}

/// The configuration, and the compiled form: there is nothing to compile.
#[derive(Debug, Deserialize)]
pub struct KeyAuth {
    header: String,
    query: String,
    hide_credentials: bool,
    #[serde(flatten)]
    door: Door,
}

/// What a consumer has.
#[derive(Debug, Deserialize)]
pub struct CredentialConfig {
    key: Secret,
}

impl Plugin for KeyAuth {
    type Config = Self;

    fn compile(config: Self, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(config)
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "header": {"type": "string", "default": "apikey"},
                "query": {"type": "string", "default": "apikey"},
                "realm": auth::realm_schema("key"),
                "hide_credentials": {"type": "boolean", "default": false},
                "anonymous_consumer": auth::anonymous_consumer_schema()
            }
        })
    }
}

impl Authenticator for KeyAuth {
    type CredentialConfig = CredentialConfig;
    type Credential = ();

    fn credential_schema() -> Value {
        json!({
            "type": "object",
            "properties": {"key": {"type": "string"}},
            "encrypt_fields": ["key"],
            "required": ["key"]
        })
    }

    fn credential(config: CredentialConfig) -> Result<(Vec<u8>, ()), Vec<ConfigError>> {
        Ok((config.key.into_string().into_bytes(), ()))
    }
}

impl OnRewrite for KeyAuth {
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        let (header, query) = (self.header.as_bytes(), self.query.as_bytes());
        let consumers = exchange.consumers;
        let in_header = exchange.request.header(header).map(|key| consumers.find::<Self>(key));
        let shown = in_header
            .or_else(|| exchange.request.arg(query).map(|key| consumers.find::<Self>(&decode_arg(key))));
        if self.hide_credentials {
            // Also what is not valid: it may be elsewhere.
            if exchange.request.header(header).is_some() {
                exchange.request.edit().headers.remove(&self.header);
            }
            exchange.request.remove_arg(query);
        }
        let found = match shown {
            None => Err("Missing API key in request"),
            Some(None) => Err("Invalid API key in request"),
            Some(Some((identity, ()))) => Ok(identity),
        };
        self.door.admit(exchange, "apikey", found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench};
    use plugin::{Registry, Reply};

    #[test]
    fn a_consumers_key_is_not_shown() {
        let config: CredentialConfig = serde_json::from_value(json!({"key": "s3cret"})).expect("valid");
        assert!(!format!("{config:?}").contains("s3cret"));
    }

    fn run(config: &Value, request: &str) -> (Option<Reply>, String) {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("valid schemas");
        let chain = testkit::chain(&registry, &json!({"key-auth": config})).expect("valid");
        let mut bench = Bench::new(request);
        let jack = ("jack", json!({"key-auth": {"key": "k 1"}}));
        bench.consumers = testkit::consumers(&registry, &[jack, ("anonymous", json!({}))]).expect("valid");
        let mut exchange = bench.exchange();
        let reply = testkit::request(&chain, &mut exchange);
        let edits = exchange.request.edits.take().unwrap_or_default();
        let target = edits.target.as_deref().unwrap_or_default();
        (reply, format!("{}{}", testkit::lines(&edits.headers), String::from_utf8_lossy(target)))
    }

    #[test]
    fn keys_are_found_in_header_and_query() {
        for (config, request, status, edits) in [
            (json!({}), "GET /\napikey: k 1", 0, "X-Consumer-Username: jack\r\n"),
            (json!({}), "GET /?apikey=k+1", 0, "X-Consumer-Username: jack\r\n"),
            (json!({"header": "Auth"}), "GET /\nauth: k 1", 0, "X-Consumer-Username: jack\r\n"),
            (json!({}), "GET /\napikey: k\n", 401, ""),
            (json!({}), "GET /?apikey=k%201\napikey: k\n", 401, ""),
            (json!({}), "GET /", 401, ""),
            (
                json!({"hide_credentials": true}),
                "GET /?a=1&apikey=k%201",
                0,
                "X-Consumer-Username: jack\r\n/?a=1",
            ),
            (json!({"anonymous_consumer": "anonymous"}), "GET /", 0, "X-Consumer-Username: anonymous\r\n"),
            (json!({"anonymous_consumer": "nobody"}), "GET /", 401, ""),
        ] {
            let (reply, got) = run(&config, request);
            assert_eq!(reply.map_or(0, |reply| reply.status), status, "{config} {request}");
            assert_eq!(got, edits, "{config} {request}");
        }
    }

    #[test]
    fn refusals_say_why() {
        let (reply, _) = run(&json!({}), "GET /");
        let reply = reply.expect("refused");
        assert_eq!(reply.body.as_deref(), Some(&b"{\"message\":\"Missing API key in request\"}\n"[..]));
        assert_eq!(reply.headers[0].1, b"apikey realm=\"key\"");
    }
}
