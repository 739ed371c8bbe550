//! Sends a share of the requests, or those that match a condition, to other upstreams than the route's own.
//!
//! ## When to use
//! Use it for canary releases and blue-green deployments: a new version first gets a tenth of the requests, or those
//! of testers.
//!
//! ## Example
//! Two thirds of the requests of testers go to the new version, one third to the route's own upstream:
//! ```json
//! {
//!     "traffic-split": {
//!         "rules": [
//!             {
//!                 "match": [{"vars": [["http_x_tester", "==", "yes"]]}],
//!                 "weighted_upstreams": [
//!                     {"upstream": {"type": "roundrobin", "nodes": {"10.0.0.7:8080": 1}}, "weight": 2},
//!                     {"weight": 1}
//!                 ]
//!             }
//!         ]
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - Every setting of an inline upstream is applied except `checks`, about which the log warns; APISIX also ignores retries,
//!   keepalive, TLS and others. An upstream that is referenced by id keeps its health checks.
//! - Each worker selects independently, as in APISIX. If a rule names an upstream twice, both weights apply.
//! - An inline upstream can name a service (`service_name` and `discovery_type`) instead of nodes.
//! - A missing upstream only fails the requests that are sent to it, not all requests that match the rule.

use balance::{Algorithm, Balancer, Node, Pick};
use model::ConfigError;
use model::var::{BodyNeed, VarSource};
use plugin::{
    CompileContext, Exchange, Flow, OnAccess, OnPreread, Plugin, PluginDef, Session, StreamFlow,
    UpstreamChoice,
};
use router::Expr;
use serde::Deserialize;
use serde_json::{Value, json};
use stdx::{LazyPerWorker, WorkerToken};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<TrafficSplit>("traffic-split", 966).on_access().on_preread().build()
}

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    #[serde(default)]
    rules: Vec<RuleConfig>,
}

#[derive(Debug, Deserialize)]
struct RuleConfig {
    #[serde(default, rename = "match")]
    matches: Vec<MatchConfig>,
    weighted_upstreams: Vec<WeightedConfig>,
}

#[derive(Debug, Deserialize)]
struct MatchConfig {
    #[serde(default)]
    vars: Value,
}

#[derive(Debug, Deserialize)]
struct WeightedConfig {
    upstream_id: Option<model::Id>,
    upstream: Option<Value>,
    weight: u32,
}

/// The compiled form.
pub struct TrafficSplit {
    rules: Vec<Rule>,
}

struct Rule {
    /// One of these must hold; none: for all requests.
    matches: Vec<Expr>,
    /// Of each weighted upstream; `None`: the route's own.
    upstreams: Vec<Option<UpstreamChoice>>,
    turns: LazyPerWorker<Balancer>,
}

impl Plugin for TrafficSplit {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let rules = config.rules.iter().enumerate().map(|(at, rule)| {
            let in_place = |found: Vec<ConfigError>| {
                found.into_iter().map(|error| error.under(&format!("/rules/{at}"))).collect::<Vec<_>>()
            };
            rule.compile(cx).map_err(in_place)
        });
        Ok(Self { rules: rules.collect::<Result<_, _>>()? })
    }

    fn body_need(&self) -> BodyNeed {
        self.rules.iter().flat_map(|rule| &rule.matches).map(Expr::body_need).collect()
    }

    fn schema() -> Value {
        let weighted = json!({
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "upstream_id": model::schema::parts::id(),
                    "upstream": model::schema::upstream(),
                    "weight": {
                        "description": "The share of requests, beside the weights of the others.",
                        "type": "integer",
                        "default": 1,
                        "minimum": 0
                    }
                }
            },
            // Where nothing is said the route's own upstream takes all.
            "default": [{"weight": 1}],
            "minItems": 1,
            "maxItems": 20
        });
        json!({
            "type": "object",
            "properties": {
                "rules": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "match": {
                                "type": "array",
                                "items": {"type": "object", "properties": {"vars": {"type": "array"}}}
                            },
                            "weighted_upstreams": weighted
                        }
                    }
                }
            }
        })
    }
}

impl RuleConfig {
    fn compile(&self, cx: &CompileContext<'_>) -> Result<Rule, Vec<ConfigError>> {
        let matches = self.matches.iter().enumerate().map(|(at, one)| {
            let word = |error: ConfigError| {
                let message = format!("failed to validate the 'vars' expression: {}", error.message);
                ConfigError { message, ..error }.under(&format!("/match/{at}/vars"))
            };
            Expr::compile(&one.vars)
                .map_err(|found| found.into_iter().map(word).collect::<Vec<ConfigError>>())
        });
        let matches = matches.collect::<Result<_, _>>()?;
        let upstreams = self.weighted_upstreams.iter().enumerate().map(|(at, one)| {
            let place = format!("/weighted_upstreams/{at}/upstream");
            one.choice(cx)
                .map_err(|found| found.into_iter().map(|error| error.under(&place)).collect::<Vec<_>>())
        });
        let upstreams = upstreams.collect::<Result<_, _>>()?;
        let nodes: Vec<_> = (self.weighted_upstreams.iter().zip(0..))
            .map(|(one, port)| Node { host: "", port, weight: one.weight, priority: 0 })
            .collect();
        let first = Balancer::new(Algorithm::RoundRobin, &nodes, stdx::hash::seed());
        let turns = LazyPerWorker::new(move |worker| first.fork(worker as u64 + 1));
        Ok(Rule { matches, upstreams, turns })
    }
}

impl WeightedConfig {
    fn choice(&self, cx: &CompileContext<'_>) -> Result<Option<UpstreamChoice>, Vec<ConfigError>> {
        match (&self.upstream_id, &self.upstream) {
            (Some(id), _) => Ok(Some(UpstreamChoice::Id(id.as_str().into()))),
            (None, Some(written)) => {
                if written.get("checks").is_some() && !cx.parent.resource_key.is_empty() {
                    let resource = cx.parent.resource_key;
                    tracing::warn!(
                        resource,
                        "traffic-split checks no health of upstreams that are written in it"
                    );
                }
                cx.upstream(written).map(Some)
            }
            (None, None) => Ok(None),
        }
    }
}

impl OnAccess for TrafficSplit {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        if let Some(choice) = self.choose(exchange, exchange.worker)
            && (choice.is_some() || exchange.extras.is_some())
        {
            exchange.extras().upstream = choice;
        }
        Flow::Next
    }
}

impl OnPreread for TrafficSplit {
    fn preread(&self, session: &mut Session<'_>, _: &[u8]) -> StreamFlow {
        if let Some(choice) = self.choose(session, session.worker) {
            session.extras.upstream = choice;
        }
        StreamFlow::Next
    }
}

impl TrafficSplit {
    /// The choice of the first rule that holds, which may be the route's own upstream; `None` where none holds.
    fn choose(&self, source: &impl VarSource, worker: &WorkerToken) -> Option<Option<UpstreamChoice>> {
        let matches =
            |rule: &&Rule| rule.matches.is_empty() || rule.matches.iter().any(|expr| expr.eval(source));
        let rule = self.rules.iter().find(matches)?;
        let turn = rule.turns.with(worker, |turns| turns.pick(&Pick::default()));
        Some(turn.and_then(|turn| rule.upstreams.get(turn)?.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench};
    use plugin::{Chain, Registry};

    fn chain(rules: &Value) -> Result<Chain, Vec<ConfigError>> {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        testkit::chain(&registry, &json!({"traffic-split": {"rules": rules}}))
    }

    /// Where a request goes: an id, the first node's port, or the route's own.
    fn chosen(chain: &Chain, bench: &Bench) -> String {
        let mut exchange = bench.exchange();
        assert_eq!(testkit::access(chain, &mut exchange), 0);
        match exchange.extras.and_then(|extras| extras.upstream) {
            None => "own".to_owned(),
            Some(UpstreamChoice::Id(id)) => id.to_string(),
            Some(UpstreamChoice::Written(written)) => {
                let upstream = written.downcast::<model::Upstream>().expect("as written");
                upstream.nodes[0].port.unwrap_or(0).to_string()
            }
        }
    }

    #[test]
    fn weights_are_shares() {
        let written = json!({"nodes": {"127.0.0.1:1981": 1}});
        let rules = json!([{"weighted_upstreams": [
            {"upstream": written, "weight": 3}, {"upstream_id": 7, "weight": 2}, {"weight": 1}, {"upstream_id": 8, "weight": 0}
        ]}]);
        let (chain, bench) = (chain(&rules).expect("valid"), Bench::new("GET /"));
        let mut counts = std::collections::BTreeMap::new();
        (0..60).for_each(|_| *counts.entry(chosen(&chain, &bench)).or_insert(0) += 1);
        let expected = [("1981", 30), ("7", 20), ("own", 10)].map(|(name, count)| (name.to_owned(), count));
        assert_eq!(counts, expected.into());
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let jack = json!([{"vars": [["arg_name", "==", "jack"]]}, {"vars": [["arg_name", "==", "jill"]]}]);
        let rules = json!([
            {"match": jack, "weighted_upstreams": [{"upstream_id": "a"}]},
            {"match": [{"vars": [["arg_x", ">", 1]]}], "weighted_upstreams": [{"upstream_id": "b"}]},
            {"match": [{"vars": [["arg_x", "==", "1"]]}]}
        ]);
        let chain = chain(&rules).expect("valid");
        for (request, expected) in [
            ("GET /?name=jack&x=2", "a"),
            ("GET /?name=jill", "a"),
            ("GET /?x=2", "b"),
            ("GET /?x=1", "own"),
            ("GET /", "own"),
        ] {
            assert_eq!(chosen(&chain, &Bench::new(request)), expected, "{request}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (rules, path) in [
            (json!([{"match": [{"vars": [["a"]]}]}]), "/rules/0/match/0/vars"),
            (json!([{"match": [{}]}]), "/rules/0/match/0/vars"),
            (json!([{"weighted_upstreams": []}]), "/rules/0/weighted_upstreams"),
            (json!([{"weighted_upstreams": [{"upstream": {}}]}]), "/rules/0/weighted_upstreams/0/upstream"),
            (json!([{"weighted_upstreams": [{"weight": -1}]}]), "/rules/0/weighted_upstreams/0/weight"),
        ] {
            let errors = chain(&rules).expect_err("refused");
            assert!(errors[0].path.starts_with(&format!("/traffic-split{path}")), "{rules}: {errors:?}");
        }
        assert!(chain(&json!([])).is_ok());
    }
}
