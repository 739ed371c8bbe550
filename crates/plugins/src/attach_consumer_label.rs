//! Sends labels of the authenticated consumer to the upstream as header fields.
//!
//! ## When to use
//! Use it when a service decides by what the operator knows about clients, such as their department or plan, and not
//! by their names.
//!
//! ## Example
//! ```json
//! {
//!     "attach-consumer-label": {
//!         "headers": {
//!             "X-Consumer-Department": "$department",
//!             "X-Consumer-Company": "$company"
//!         }
//!     }
//! }
//! ```
//! If the consumer lacks the label, the field is removed, even if the client sent one of that name.
//!
//! ## Differences from APISIX
//! - Framing fields such as `Content-Length` are never set.

use crate::headers::set_for_upstream;
use model::ConfigError;
use plugin::{CompileContext, Exchange, Flow, OnBeforeProxy, Plugin, PluginDef};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<AttachConsumerLabel>("attach-consumer-label", 2399).on_before_proxy().build()
}

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    headers: BTreeMap<String, String>,
}

/// The compiled form.
pub struct AttachConsumerLabel {
    /// Fields and the labels that they tell.
    headers: Vec<(String, String)>,
}

impl Plugin for AttachConsumerLabel {
    type Config = Config;

    fn compile(config: Config, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let label = |text: String| text.strip_prefix('$').map(str::to_owned).unwrap_or(text);
        Ok(Self { headers: config.headers.into_iter().map(|(name, text)| (name, label(text))).collect() })
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "headers": {
                    "description": "Names of fields, and labels with a dollar sign before them.",
                    "type": "object",
                    "additionalProperties": {"type": "string", "pattern": "^\\$.*"},
                    "minProperties": 1
                }
            },
            "required": ["headers"]
        })
    }
}

impl OnBeforeProxy for AttachConsumerLabel {
    fn before_proxy(&self, exchange: &mut Exchange<'_>) -> Flow {
        let consumer = exchange.consumer;
        let edits = exchange.request.edit();
        for (name, label) in &self.headers {
            let value = consumer.and_then(|consumer| consumer.labels.get(label));
            set_for_upstream(edits, name, value.map(std::slice::from_ref).unwrap_or_default());
        }
        Flow::Next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench};
    use plugin::{ConsumerInfo, Registry};

    fn chain(config: &Value) -> Result<plugin::Chain, Vec<ConfigError>> {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        testkit::chain(&registry, &json!({ "attach-consumer-label": config }))
    }

    #[test]
    fn labels_are_told_and_claims_are_dropped() {
        let chain = chain(&json!({"headers": {"X-Dep": "$department", "X-Plan": "$plan"}})).expect("valid");
        let labels = BTreeMap::from([("department".to_owned(), "sales".to_owned())]);
        let jack = ConsumerInfo { name: "jack".to_owned(), labels, ..ConsumerInfo::default() };
        for (consumer, lines) in [(Some(&jack), "X-Dep: sales\r\n"), (None, "")] {
            let bench = Bench::new("GET /\nX-Dep: forged\nX-Plan: forged");
            let mut exchange = bench.exchange();
            exchange.consumer = consumer;
            assert_eq!(testkit::access(&chain, &mut exchange), 0);
            assert_eq!(testkit::lines(&exchange.request.edit().headers), lines);
            assert_eq!(exchange.request.header(b"x-plan"), None);
        }
    }

    #[test]
    fn labels_begin_with_a_dollar_sign() {
        for config in [json!({}), json!({"headers": {}}), json!({"headers": {"X-A": "label"}})] {
            assert!(chain(&config).is_err(), "{config}");
        }
    }
}
