//! Injects faults: answers a share of the requests with an error, or delays them.
//!
//! ## When to use
//! Use it to test how clients and services cope with errors and latency.
//!
//! ## Example
//! Every tenth request fails, and those of one user take two seconds longer:
//! ```json
//! {
//!     "fault-injection": {
//!         "abort": {"http_status": 503, "body": "out of order, $remote_addr", "percentage": 10},
//!         "delay": {"duration": 2, "vars": [[["arg_user", "==", "jack"]]]}
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - `abort.http_status` must be below 1000, and names of `abort.headers` valid in a header.
//! - Variables in the answer are read before the delay, not after it.

use crate::headers::{self, HeaderOps};
use crate::random::Random;
use crate::status::status;
use model::ConfigError;
use model::var::{BodyNeed, Template};
use plugin::{CompileContext, Exchange, Flow, OnRewrite, Plugin, PluginDef, Reply};
use router::Expr;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<FaultInjection>("fault-injection", 11_000).on_rewrite().build()
}

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    abort: Option<AbortConfig>,
    delay: Option<DelayConfig>,
}

#[derive(Debug, Deserialize)]
struct AbortConfig {
    http_status: u64,
    body: Option<String>,
    headers: Option<Map<String, Value>>,
    percentage: Option<u32>,
    vars: Option<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
struct DelayConfig {
    duration: f64,
    percentage: Option<u32>,
    vars: Option<Vec<Value>>,
}

/// The compiled form.
pub struct FaultInjection {
    random: Arc<Random>,
    abort: Option<(Occasion, Abort)>,
    delay: Option<(Occasion, Duration)>,
}

struct Abort {
    status: u16,
    body: Option<Template>,
    headers: Vec<(String, Template)>,
}

/// When something happens.
struct Occasion {
    /// Of a hundred requests; `None`: of all.
    percentage: Option<u32>,
    /// One of these must hold, where they are given.
    vars: Option<Vec<Expr>>,
}

impl Plugin for FaultInjection {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let abort = config.abort.map(|abort| {
            let occasion = Occasion::compile(abort.percentage, abort.vars.as_deref(), "/abort/vars")?;
            Ok::<_, Vec<ConfigError>>((occasion, abort.compile()?))
        });
        let delay = config.delay.map(|delay| {
            let occasion = Occasion::compile(delay.percentage, delay.vars.as_deref(), "/delay/vars")?;
            let duration = Duration::try_from_secs_f64(delay.duration)
                .map_err(|error| vec![ConfigError::new("/delay/duration", error.to_string())])?;
            Ok::<_, Vec<ConfigError>>((occasion, duration))
        });
        Ok(Self { random: cx.shared.get(), abort: abort.transpose()?, delay: delay.transpose()? })
    }

    fn body_need(&self) -> BodyNeed {
        let occasions =
            [self.abort.as_ref().map(|abort| &abort.0), self.delay.as_ref().map(|delay| &delay.0)];
        occasions
            .into_iter()
            .flatten()
            .filter_map(|at| at.vars.as_ref())
            .flatten()
            .map(Expr::body_need)
            .collect()
    }

    fn schema() -> Value {
        let percentage = json!({"type": "integer", "minimum": 0, "maximum": 100});
        let vars = json!({"type": "array", "maxItems": 20, "items": {"type": "array"}});
        json!({
            "type": "object",
            "properties": {
                "abort": {
                    "type": "object",
                    "properties": {
                        "http_status": {"type": "integer", "minimum": 200},
                        "body": {"type": "string", "minLength": 0},
                        "headers": {
                            "type": "object",
                            "minProperties": 1,
                            "patternProperties": {
                                "^[^:]+$": {"oneOf": [{"type": "string"}, {"type": "number"}]}
                            }
                        },
                        "percentage": percentage,
                        "vars": vars
                    },
                    "required": ["http_status"]
                },
                "delay": {
                    "type": "object",
                    "properties": {
                        "duration": {"type": "number", "minimum": 0},
                        "percentage": percentage,
                        "vars": vars
                    },
                    "required": ["duration"]
                }
            },
            "minProperties": 1
        })
    }
}

impl AbortConfig {
    fn compile(self) -> Result<Abort, Vec<ConfigError>> {
        Ok(Abort {
            status: status(self.http_status, "/abort/http_status")?,
            body: self.body.as_deref().map(Template::parse),
            headers: headers::single(self.headers.as_ref(), "/abort/headers").map_err(|error| vec![error])?,
        })
    }
}

impl Abort {
    fn reply(&self, exchange: &Exchange<'_>) -> Reply {
        let body = self.body.as_ref().map(|body| HeaderOps::render(body, exchange));
        // A success without a body has an empty one; of the others the gateway has pages.
        let body = body.or_else(|| (self.status < 300).then(Vec::new));
        let reply = Reply { status: self.status, headers: Vec::new(), body };
        self.headers.iter().fold(reply, |reply, (name, value)| {
            reply.with_header(name.clone(), HeaderOps::render(value, exchange))
        })
    }
}

impl Occasion {
    fn compile(
        percentage: Option<u32>,
        vars: Option<&[Value]>,
        path: &str,
    ) -> Result<Self, Vec<ConfigError>> {
        let one = |(at, rule): (usize, &Value)| {
            let place = format!("{path}/{at}");
            Expr::compile(rule)
                .map_err(|found| found.into_iter().map(|error| error.under(&place)).collect::<Vec<_>>())
        };
        let vars = vars.map(|vars| vars.iter().enumerate().map(one).collect()).transpose()?;
        Ok(Self { percentage, vars })
    }

    fn has_come(&self, random: &Random, exchange: &Exchange<'_>) -> bool {
        self.vars.as_ref().is_none_or(|vars| vars.iter().any(|expr| expr.eval(exchange)))
            && self.percentage.is_none_or(|share| random.below(100, exchange) < share)
    }
}

impl OnRewrite for FaultInjection {
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        let (random, exchange) = (&self.random, &*exchange);
        let abort = self.abort.as_ref().filter(|(occasion, _)| occasion.has_come(random, exchange));
        let flow = abort.map_or(Flow::Next, |(_, abort)| Flow::reply(abort.reply(exchange)));
        match &self.delay {
            Some((occasion, time)) if !time.is_zero() && occasion.has_come(random, exchange) => {
                exchange.after(*time, flow)
            }
            _ => flow,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    #[test]
    fn requests_fail_and_wait() {
        let registry = Registry::new([def()], Map::new()).expect("a valid schema");
        let jack = json!([[["arg_user", "==", "jack"]], [["arg_user", "==", "jill"]]]);
        for (config, request, status, slept_ms) in [
            (json!({"abort": {"http_status": 503}}), "GET /", 503, 0),
            (json!({"abort": {"http_status": 503, "percentage": 0}}), "GET /", 0, 0),
            (json!({"abort": {"http_status": 503, "percentage": 100}}), "GET /", 503, 0),
            (json!({"abort": {"http_status": 403, "vars": jack}}), "GET /?user=jill", 403, 0),
            (json!({"abort": {"http_status": 403, "vars": jack}}), "GET /?user=joe", 0, 0),
            (json!({"abort": {"http_status": 403, "vars": []}}), "GET /", 0, 0),
            (json!({"delay": {"duration": 0.1}}), "GET /", 0, 100),
            (json!({"delay": {"duration": 0.1, "vars": jack}}), "GET /", 0, 0),
            (json!({"delay": {"duration": 2}, "abort": {"http_status": 200}}), "GET /", 200, 2000),
        ] {
            let chain = testkit::chain(&registry, &json!({"fault-injection": config})).expect("valid");
            let bench = Bench::new(request);
            assert_eq!(testkit::access(&chain, &mut bench.exchange()), status, "{config}");
            assert_eq!(bench.services.slept(), Duration::from_millis(slept_ms), "{config}");
        }
    }

    #[test]
    fn answers_know_variables() {
        let registry = Registry::new([def()], Map::new()).expect("a valid schema");
        let config = json!({"abort": {"http_status": 200, "body": "$arg_a!\n", "headers": {"X-A": "${arg_a}", "B": 1}}});
        let chain = testkit::chain(&registry, &json!({"fault-injection": config})).expect("valid");
        let reply = testkit::request(&chain, &mut Bench::new("GET /?a=7").exchange()).expect("an answer");
        assert_eq!(reply.body.as_deref(), Some(&b"7!\n"[..]));
        assert_eq!(reply.headers, [("X-A".into(), b"7".to_vec()), ("B".into(), b"1".to_vec())]);
    }

    #[test]
    fn mistakes_are_named() {
        let registry = Registry::new([def()], Map::new()).expect("a valid schema");
        for (config, path) in [
            (json!({}), "/fault-injection"),
            (json!({"abort": {"http_status": 100}}), "/fault-injection/abort/http_status"),
            (json!({"abort": {"http_status": 1000}}), "/fault-injection/abort/http_status"),
            (
                json!({"abort": {"http_status": 500, "headers": {"a b": "c"}}}),
                "/fault-injection/abort/headers/a b",
            ),
            (
                json!({"delay": {"duration": 1, "vars": [[["a", "==", "b"], ["c"]]]}}),
                "/fault-injection/delay/vars/0",
            ),
        ] {
            let errors = testkit::chain(&registry, &json!({"fault-injection": config})).expect_err("refused");
            assert!(errors[0].path.starts_with(path), "{config}: {errors:?}");
        }
    }
}
