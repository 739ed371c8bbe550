//! Sets the maximum size of request bodies on a route, in place of `nginx_config.http.client_max_body_size`.
//!
//! ## When to use
//! Use it to accept large uploads on one route, or to restrict another to small requests.
//!
//! ## Example
//! ```json
//! {
//!     "client-control": {
//!         "max_body_size": 1048576
//!     }
//! }
//! ```
//!
//! ## Attributes
//! - `max_body_size`: the largest request body in bytes; 0 is no limit. A longer one is answered with 413: before the
//!   request is authenticated where its length is announced, and else as soon as it is too long.
//!
//! ## Differences from APISIX
//! None.

use model::ConfigError;
use plugin::{CompileContext, Exchange, Flow, OnRewrite, Plugin, PluginDef};
use serde::Deserialize;
use serde_json::{Value, json};
use wire::BodyLength;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<ClientControl>("client-control", 22000).on_rewrite().build()
}

/// What a user writes, and the compiled form.
#[derive(Debug, Deserialize)]
pub struct ClientControl {
    max_body_size: Option<u64>,
}

impl Plugin for ClientControl {
    type Config = Self;

    fn compile(config: Self, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(config)
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "max_body_size": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "Maximum message body size in bytes. No restriction when set to 0.",
                },
            },
        })
    }
}

impl OnRewrite for ClientControl {
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        let Some(limit_bytes) = self.max_body_size else { return Flow::Next };
        exchange.extras().limits.body_bytes_max = Some(limit_bytes);
        match exchange.request.view.head.facts.body {
            BodyLength::Exact(length) if limit_bytes > 0 && length > limit_bytes => Flow::status(413),
            _ => Flow::Next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};
    use serde_json::Map;

    #[test]
    fn bodies_that_are_announced_longer_are_refused_at_once() {
        let registry = Registry::new([def()], Map::new()).expect("a valid schema");
        for (config, head, status, limit) in [
            (json!({}), "Content-Length: 100", 0, None),
            (json!({"max_body_size": 5}), "Content-Length: 5", 0, Some(5)),
            (json!({"max_body_size": 5}), "Content-Length: 6", 413, Some(5)),
            (json!({"max_body_size": 5}), "Transfer-Encoding: chunked", 0, Some(5)),
            (json!({"max_body_size": 5}), "Accept: */*", 0, Some(5)),
            (json!({"max_body_size": 0}), "Content-Length: 10000000000", 0, Some(0)),
        ] {
            let chain = testkit::chain(&registry, &json!({ "client-control": config })).expect("valid");
            let bench = Bench::new(&format!("POST /\n{head}"));
            let mut exchange = bench.exchange();
            assert_eq!(testkit::access(&chain, &mut exchange), status, "{config} {head}");
            let set = exchange.extras.as_ref().and_then(|extras| extras.limits.body_bytes_max);
            assert_eq!(set, limit, "{config} {head}");
        }
        for config in [json!({"max_body_size": -1}), json!({"max_body_size": "1"})] {
            assert!(testkit::chain(&registry, &json!({ "client-control": config })).is_err(), "{config}");
        }
    }
}
