//! Sends usage events to Lago, a billing system, in batches.
//!
//! ## When to use
//! Use it when clients pay for the use of an API: each request becomes an event of a billable metric.
//!
//! ## Example
//! ```json
//! {
//!     "lago": {
//!         "endpoint_addrs": ["http://127.0.0.1:3000"],
//!         "token": "api-key",
//!         "event_transaction_id": "req_${request_id}",
//!         "event_subscription_id": "cus_${consumer_name}",
//!         "event_code": "requests",
//!         "event_properties": {"status": "$status"}
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - Those of `http-logger`.
//! - Endpoints take turns, where APISIX picks one at random.
//! - `keepalive`, `keepalive_timeout` and `keepalive_pool` have no effect: connections are pooled as in `http-logger`.

use crate::logging::{Collector, Entry, Logger, began_s};
use delivery::{Destination, HttpCollector};
use model::ConfigError;
use model::var::{Template, VarSource};
use plugin::{CompileContext, PluginDef};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Secret;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Logger<Lago>>("lago", 415).encrypt_fields(&["token"]).on_log().build()
}

/// Renders events.
pub struct Lago {
    transaction: Template,
    subscription: Template,
    code: String,
    properties: Vec<(String, String, Template)>,
}

/// What a user writes besides what all loggers have.
#[derive(Debug, Deserialize)]
pub struct Config {
    endpoint_addrs: Vec<String>,
    endpoint_uri: String,
    token: Secret,
    event_transaction_id: String,
    event_subscription_id: String,
    event_code: String,
    #[serde(default)]
    event_properties: BTreeMap<String, String>,
    ssl_verify: bool,
    timeout: u64,
}

impl Collector for Lago {
    type Config = Config;
    const NAME: &'static str = "lago logger";
    const ENTRIES: bool = false;

    fn schema() -> Value {
        let text = |description: &str| json!({"description": description, "type": "string"});
        json!({
            "type": "object",
            "properties": {
                "endpoint_addrs": {
                    "description": "Lago's addresses, which take turns.",
                    "type": "array", "minItems": 1,
                    "items": {"type": "string", "pattern": crate::logging::URI}
                },
                "endpoint_uri": {
                    "description": "The path of its batch endpoint.",
                    "type": "string", "minLength": 1, "default": "/api/v1/events/batch"
                },
                "token": text("Lago's API key."),
                "event_transaction_id": text("What tells events apart; it may have variables."),
                "event_subscription_id": text("The subscription that is billed; it may have variables."),
                "event_code": text("The code of the billable metric."),
                "event_properties": {
                    "description": "Properties of events; values may have variables.",
                    "type": "object", "patternProperties": {".*": {"type": "string", "minLength": 1}}
                },
                "ssl_verify": {
                    "description": "Whether its certificate has to be valid.", "type": "boolean", "default": true
                },
                "timeout": {
                    "description": "Milliseconds for a batch.",
                    "type": "integer", "minimum": 1, "maximum": 60000, "default": 3000
                },
                "keepalive": {"description": "No effect.", "type": "boolean", "default": true},
                "keepalive_timeout": {
                    "description": "No effect.", "type": "integer", "minimum": 1000, "default": 60000
                },
                "keepalive_pool": {"description": "No effect.", "type": "integer", "minimum": 1, "default": 5},
                // Lago takes no more in a batch (https://getlago.com/docs/api-reference/events/batch).
                "batch_max_size": {
                    "description": "Events with which a batch is sent.", "type": "integer", "minimum": 1, "default": 100
                }
            },
            "required": ["endpoint_addrs", "token", "event_transaction_id", "event_subscription_id", "event_code"]
        })
    }

    fn compile(
        config: Config,
        _: bool,
        _: &CompileContext<'_>,
    ) -> Result<(Self, Option<impl Destination>), Vec<ConfigError>> {
        let uris = config.endpoint_addrs.iter().map(|address| format!("{address}{}", config.endpoint_uri));
        let server =
            HttpCollector::new(uris.collect(), Duration::from_millis(config.timeout), config.ssl_verify)
                .failure_from(300)
                .header("Content-Type", "application/json")
                .header("Authorization", format!("Bearer {}", config.token.as_str()));
        let properties = config.event_properties.into_iter().map(|(name, text)| {
            let template = Template::parse(&text);
            (name, text, template)
        });
        let this = Self {
            transaction: Template::parse(&config.event_transaction_id),
            subscription: Template::parse(&config.event_subscription_id),
            code: config.event_code,
            properties: properties.collect(),
        };
        Ok((this, Some(Events(server))))
    }

    fn render(&self, _: Entry, source: &dyn VarSource) -> Vec<u8> {
        let rendered = |template: &Template| {
            let mut text = Vec::new();
            let known = template.render(source, &mut text);
            (String::from_utf8_lossy(&text).into_owned(), known)
        };
        let mut event = json!({
            "transaction_id": rendered(&self.transaction).0,
            "external_subscription_id": rendered(&self.subscription).0,
            "code": self.code,
            "timestamp": began_s(source),
        });
        if !self.properties.is_empty() {
            let property = |(name, text, template): &(String, String, Template)| {
                let (value, known) = rendered(template);
                // A property none of whose variables is known stays as it is written.
                (name.clone(), Value::from(if known > 0 { value } else { text.clone() }))
            };
            event["properties"] = self.properties.iter().map(property).collect::<Map<_, _>>().into();
        }
        event.to_string().into_bytes()
    }
}

/// Lago's batch endpoint.
struct Events(HttpCollector);

impl Destination for Events {
    fn send(&self, entries: &[Vec<u8>]) -> Result<(), String> {
        self.0.post(&[b"{\"events\":[", &entries.join(&b',')[..], b"]}"].concat())
    }
}
