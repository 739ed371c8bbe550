//! Sets header fields on requests that match a condition; several sets alternate by weight.
//!
//! ## When to use
//! Use it to label requests for `traffic-split`, for the upstream or for logs.
//!
//! ## Example
//! Three of ten requests of testers are labelled for server 100, the others for server 200:
//! ```json
//! {
//!     "traffic-label": {
//!         "rules": [
//!             {
//!                 "match": [["http_x_tester", "==", "yes"]],
//!                 "actions": [
//!                     {"set_headers": {"X-Server-Id": "100"}, "weight": 3},
//!                     {"set_headers": {"X-Server-Id": "200"}, "weight": 7}
//!                 ]
//!             }
//!         ]
//!     }
//! }
//! ```
//! The first rule that matches applies; a rule without `match` matches every request. Values can contain variables. An action
//! without `set_headers` changes nothing.
//!
//! ## Differences from APISIX
//! - A condition with two operators on one level (`["AND", "OR", ...]`) is rejected with 400; in APISIX with 500.
//! - Each worker selects independently, as in APISIX.

use crate::headers::{HeaderOps, is_of_connection};
use balance::{Algorithm, Balancer, Node, Pick};
use model::ConfigError;
use model::var::BodyNeed;
use plugin::{Authority, CompileContext, Exchange, Flow, OnAccess, Plugin, PluginDef};
use router::Expr;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use stdx::LazyPerWorker;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<TrafficLabel>("traffic-label", 967).on_access().build()
}

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    rules: Vec<RuleConfig>,
}

#[derive(Debug, Deserialize)]
struct RuleConfig {
    #[serde(rename = "match")]
    matches: Option<Value>,
    actions: Vec<Map<String, Value>>,
}

/// The compiled form.
pub struct TrafficLabel {
    rules: Vec<Rule>,
}

struct Rule {
    /// `None`: for all requests.
    matches: Option<Expr>,
    actions: Vec<HeaderOps>,
    /// Whose turn it is, where there are several.
    turns: Option<LazyPerWorker<Balancer>>,
}

impl Plugin for TrafficLabel {
    type Config = Config;

    fn compile(config: Config, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let rules = config.rules.iter().enumerate().map(|(at, rule)| {
            let under = |error: ConfigError| error.under(&format!("/rules/{at}"));
            rule.compile().map_err(|found| found.into_iter().map(under).collect::<Vec<_>>())
        });
        Ok(Self { rules: rules.collect::<Result<_, _>>()? })
    }

    fn body_need(&self) -> BodyNeed {
        self.rules.iter().filter_map(|rule| rule.matches.as_ref()).map(Expr::body_need).collect()
    }

    fn schema() -> Value {
        let action = json!({
            "type": "object",
            "properties": {
                "set_headers": {
                    "description": "Fields of the request; values may hold variables.",
                    "type": "object",
                    "minProperties": 1
                },
                "weight": {
                    "description": "The share of requests, beside the weights of the others.",
                    "type": "integer",
                    "default": 1,
                    "minimum": 1
                }
            }
        });
        let condition = json!({"anyOf": [{"type": "array"}, {"type": "string"}]});
        json!({
            "type": "object",
            "properties": {
                "rules": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "match": {"type": "array", "items": condition, "minItems": 1},
                            "actions": {"type": "array", "items": action, "minItems": 1}
                        },
                        "required": ["actions"]
                    },
                    "minItems": 1
                }
            },
            "required": ["rules"]
        })
    }
}

impl RuleConfig {
    fn compile(&self) -> Result<Rule, Vec<ConfigError>> {
        let matches = self.matches.as_ref().map(|rule| {
            let word = |error: ConfigError| {
                let message =
                    format!("failed to validate the 'match' expression: {rule} err: {}", error.message);
                ConfigError { message, ..error }.under("/match")
            };
            Expr::compile(rule).map_err(|found| found.into_iter().map(word).collect::<Vec<_>>())
        });
        let actions = self.actions.iter().enumerate().map(|(at, action)| {
            compile_action(action).map_err(|error| vec![error.under(&format!("/actions/{at}"))])
        });
        let actions = actions.collect::<Result<Vec<_>, _>>()?;
        let weight = |action: &Map<String, Value>| {
            let weight = action.get("weight").and_then(Value::as_u64).unwrap_or(1);
            u32::try_from(weight).unwrap_or(u32::MAX)
        };
        let nodes: Vec<_> = (self.actions.iter().zip(0..))
            .map(|(action, port)| Node { host: "", port, weight: weight(action), priority: 0 })
            .collect();
        let turns = (nodes.len() > 1).then(|| {
            let first = Balancer::new(Algorithm::RoundRobin, &nodes, stdx::hash::seed());
            LazyPerWorker::new(move |worker| first.fork(worker as u64 + 1))
        });
        Ok(Rule { matches: matches.transpose()?, actions, turns })
    }
}

/// The messages are APISIX's.
fn compile_action(action: &Map<String, Value>) -> Result<HeaderOps, ConfigError> {
    if let Some(name) = action.keys().find(|name| !matches!(name.as_str(), "set_headers" | "weight")) {
        return Err(ConfigError::new("", format!("not supported action: {name}")));
    }
    let headers = action.get("set_headers").and_then(Value::as_object);
    let ops = HeaderOps { set: HeaderOps::fields(headers), ..HeaderOps::default() };
    ops.check_names().map_err(|error| {
        let message = format!("failed to validate the 'set_headers' action: {}", error.message);
        ConfigError::new("/set_headers", message)
    })?;
    Ok(ops.without(is_of_connection))
}

impl OnAccess for TrafficLabel {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let matches = |rule: &&Rule| rule.matches.as_ref().is_none_or(|expr| expr.eval(&*exchange));
        let Some(rule) = self.rules.iter().find(matches) else { return Flow::Next };
        let turn = rule.turns.as_ref().map_or(0, |turns| {
            turns.with(exchange.worker, |turns| turns.pick(&Pick::default()).unwrap_or_default())
        });
        if let Some(ops) = rule.actions.get(turn) {
            for (name, values) in &ops.set {
                for (at, value) in values.iter().enumerate() {
                    let value = HeaderOps::render(value, &*exchange);
                    let edits = exchange.request.edit();
                    if name.eq_ignore_ascii_case("host") {
                        edits.host = Authority::new(value).or(edits.host.take());
                    } else if at == 0 {
                        edits.headers.set(name, value);
                    } else {
                        edits.headers.append(name, value);
                    }
                }
            }
        }
        Flow::Next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};
    use std::collections::BTreeMap;

    fn chain(rules: &Value) -> Result<plugin::Chain, Vec<ConfigError>> {
        let registry = Registry::new([def()], Map::new()).expect("a valid schema");
        testkit::chain(&registry, &json!({"traffic-label": {"rules": rules}}))
    }

    fn lines(chain: &plugin::Chain, request: &str) -> String {
        let bench = Bench::new(request);
        let mut exchange = bench.exchange();
        assert_eq!(testkit::access(chain, &mut exchange), 0);
        exchange.request.edits.map(|edits| testkit::lines(&edits.headers)).unwrap_or_default()
    }

    #[test]
    fn the_first_rule_that_matches_sets_fields() {
        let chain = chain(&json!([
            {"match": [["arg_a", "==", "1"]], "actions": [{"set_headers": {"X-Id": 100, "X-Uri": "$uri"}}]},
            {"match": ["OR", ["arg_a", "==", "2"], ["arg_b", "==", "2"]], "actions": [{"weight": 1}]},
            {"actions": [{"set_headers": {"X-Id": "rest", "Content-Length": "9"}}]}
        ]))
        .expect("valid");
        for (request, expected) in [
            ("GET /x?a=1", "X-Id: 100\r\nX-Uri: /x\r\n"),
            ("GET /x?b=2", ""),
            ("GET /x?a=3", "X-Id: rest\r\n"),
        ] {
            assert_eq!(lines(&chain, request), expected, "{request}");
        }
    }

    #[test]
    fn actions_take_turns_by_weight() {
        let actions = json!([
            {"set_headers": {"X-Id": "1"}, "weight": 3},
            {"set_headers": {"X-Id": "2"}, "weight": 2},
            {"weight": 5}
        ]);
        let chain = chain(&json!([{ "actions": actions }])).expect("valid");
        let mut counts = BTreeMap::new();
        let bench = Bench::new("GET /");
        for _ in 0..100 {
            let mut exchange = bench.exchange();
            assert_eq!(testkit::access(&chain, &mut exchange), 0);
            let lines =
                exchange.request.edits.map(|edits| testkit::lines(&edits.headers)).unwrap_or_default();
            *counts.entry(lines).or_insert(0) += 1;
        }
        let expected = [("", 50), ("X-Id: 1\r\n", 30), ("X-Id: 2\r\n", 20)]
            .map(|(text, count)| (text.to_owned(), count));
        assert_eq!(counts, BTreeMap::from(expected));
    }

    #[test]
    fn mistakes_are_named_in_apisix_words() {
        for (rule, message) in [
            (json!({"actions": [{"add_headers": {"X": "1"}}]}), "not supported action: add_headers"),
            (
                json!({"actions": [{"set_headers": {"X Y": "1"}}]}),
                "failed to validate the 'set_headers' action",
            ),
            (json!({"match": [["a"]], "actions": [{}]}), "failed to validate the 'match' expression"),
            (json!({"actions": []}), "expect array to have at least 1 items"),
        ] {
            let found = chain(&json!([rule])).expect_err("refused");
            assert!(found[0].message.contains(message) || found[0].message.contains("1 item"), "{found:?}");
        }
    }
}
