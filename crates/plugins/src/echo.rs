//! Replaces a response's body, or adds text before and after it.
//!
//! ## When to use
//! Use it to try out routes, or to respond in place of an upstream that does not exist yet.
//!
//! ## Example
//! ```json
//! {
//!     "echo": {
//!         "before_body": "before the body\n",
//!         "headers": {"X-Tried": "yes"}
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - Names in `headers` must be valid field names.

use crate::headers::{self, HeaderOps};
use model::ConfigError;
use plugin::{
    BodyFilter, CompileContext, Exchange, OnResponse, Plugin, PluginDef, Replaced, UpstreamResponse,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Echo>("echo", 412).on_response().build()
}

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    #[serde(default)]
    before_body: String,
    body: Option<String>,
    #[serde(default)]
    after_body: String,
    headers: Option<Map<String, Value>>,
}

/// The compiled form.
pub struct Echo {
    config: Config,
    headers: Vec<(String, String)>,
}

impl Plugin for Echo {
    type Config = Config;

    fn compile(config: Config, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let fields = config.headers.iter().flatten();
        let headers: Vec<_> =
            fields.filter_map(|(name, value)| Some((name.clone(), headers::text(value)?))).collect();
        if headers.iter().any(|(name, _)| !headers::is_token(name)) {
            return Err(vec![ConfigError::new("/headers", "invalid field character in header")]);
        }
        Ok(Self { config, headers })
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "before_body": {"description": "body before the filter phase.", "type": "string"},
                "body": {"description": "body to replace upstream response.", "type": "string"},
                "after_body": {
                    "description": "body after the modification of filter phase.",
                    "type": "string"
                },
                "headers": {
                    "description": "new headers for response",
                    "type": "object",
                    "minProperties": 1
                }
            },
            "anyOf": [{"required": ["before_body"]}, {"required": ["body"]}, {"required": ["after_body"]}],
            "minProperties": 1
        })
    }
}

impl OnResponse for Echo {
    fn response(&self, exchange: &mut Exchange<'_>, _: &UpstreamResponse<'_>) {
        let (before, after) = (&self.config.before_body, &self.config.after_body);
        let filters = &mut exchange.extras().body_filters;
        match &self.config.body {
            Some(body) => filters.push(Replaced([before.as_str(), body, after].concat().into_bytes())),
            None => filters.push(Around { before: before.clone(), after: after.clone() }),
        }
        HeaderOps::body_changed(exchange.reply_headers);
        for (name, value) in &self.headers {
            exchange.reply_headers.set(name, value);
        }
    }
}

/// Puts a text before a body, and one behind it.
struct Around {
    before: String,
    after: String,
}

impl BodyFilter for Around {
    fn write(&mut self, piece: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
        out.extend_from_slice(std::mem::take(&mut self.before).as_bytes());
        out.extend_from_slice(piece);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> std::io::Result<()> {
        out.extend_from_slice(self.before.as_bytes());
        out.extend_from_slice(self.after.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    #[test]
    fn texts_are_put_around_and_in_place() {
        let registry = Registry::new([def()], Map::new()).expect("a valid schema");
        for (config, expected) in [
            (json!({"body": "b"}), "b"),
            (json!({"before_body": "a", "body": "b", "after_body": "c"}), "abc"),
            (json!({"before_body": "a"}), "aold"),
            (json!({"after_body": "c", "headers": {"X": 1}}), "oldc"),
        ] {
            let chain = testkit::chain(&registry, &json!({"echo": config})).expect("valid");
            let bench = Bench::new("GET /");
            let mut exchange = bench.exchange();
            testkit::response(&chain, &mut exchange, 200);
            assert_eq!(testkit::body(&mut exchange, b"old"), expected.as_bytes(), "{config}");
            assert_eq!(testkit::lines(exchange.reply_headers).is_empty(), config.get("headers").is_none());
        }
        for config in [json!({}), json!({"body": "b", "headers": {"X\r\nY": "1"}})] {
            assert!(testkit::chain(&registry, &json!({"echo": config})).is_err(), "{config}");
        }
    }
}
