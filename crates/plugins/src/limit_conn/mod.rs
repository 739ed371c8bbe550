//! Limits the number of concurrent requests: some requests above the limit are delayed, the others are rejected with
//! 503.
//!
//! ## When to use
//! Use it when an upstream can process only so many requests at once, as with long downloads or slow reports. On
//! stream routes it limits sessions, with only `conn`, `burst`, `default_conn_delay`, `key` and `key_type`; rejected
//! sessions are closed.
//!
//! ## Example
//! One concurrent request from each client address; a second one is delayed by 0.1 s, a third is rejected:
//! ```json
//! {
//!     "limit-conn": {
//!         "conn": 1,
//!         "burst": 1,
//!         "default_conn_delay": 0.1,
//!         "key_type": "var",
//!         "key": "remote_addr"
//!     }
//! }
//! ```
//!
//! With `policy` as `redis` or `redis-cluster` the requests of several gateways count together. What a gateway that crashed
//! had under way counts for `key_ttl` seconds more, and so should be longer than requests take. `allow_degradation` lets
//! requests pass while Redis is away, and those whose numbers can't be read.
//!
//! ## Differences from APISIX
//! - On stream routes, a session whose limits are not numbers is rejected.
//! - In Redis too, a request's delay is made from `default_conn_delay` alone.
//! - Each worker has one connection to each Redis server, and requests are pipelined, so
//!   `redis_keepalive_pool` changes nothing.
//! - The delays of several `rules` add up, and the request waits after all rules accepted it.

use crate::amount::{Amount, AmountConfig};
use crate::limit_key::{Key, KeyType};
use crate::redis_policy::{Fault, PolicyConfig, Redis, schema as redis_policy};
use model::ConfigError;
use model::var::VarSource;
use plugin::{CompileContext, Exchange, Flow, OnAccess, Plugin, PluginDef, Reply};
use remote::Remote;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use stdx::Keyed;

mod remote;
pub mod stream;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<LimitConn>("limit-conn", 1003)
        .on_access()
        .action()
        .encrypt_fields(&["redis_password"])
        .build()
}

/// What a user writes. A request's delay is always made from `default_conn_delay`, so `only_use_default_delay` changes
/// nothing: so it is in APISIX, which forgets how long requests took together with them.
#[derive(Debug, Deserialize)]
pub struct Config {
    conn: Option<AmountConfig>,
    burst: Option<AmountConfig>,
    default_conn_delay: f64,
    key: Option<String>,
    key_type: KeyType,
    #[serde(default)]
    rejected_code: u16,
    rejected_msg: Option<String>,
    #[serde(default)]
    allow_degradation: bool,
    rules: Option<Vec<RuleConfig>>,
    #[serde(flatten)]
    policy: PolicyConfig,
}

#[derive(Debug, Deserialize)]
struct RuleConfig {
    conn: AmountConfig,
    burst: AmountConfig,
    key: String,
}

/// The compiled form.
pub struct LimitConn {
    under_way: Arc<UnderWay>,
    /// Keeps the keys of two configurations apart.
    scope: Vec<u8>,
    limits: Vec<Limit>,
    /// Whether the limits are `rules`, each of which applies only where its key and numbers have a value.
    by_rules: bool,
    delay_s: f64,
    answers: Arc<Answers>,
    /// What counts in Redis, if that is asked for.
    remote: Option<Arc<Remote>>,
}

/// How requests are answered.
struct Answers {
    rejected_code: u16,
    rejected_msg: Option<String>,
    allow_degradation: bool,
}

struct Limit {
    key: Key,
    conn: Amount,
    burst: Amount,
}

/// How many requests of each key are under way in the process. Keys without one are not kept.
#[derive(Default)]
struct UnderWay(Keyed<u64>);

/// One request of one key, for as long as it is under way.
struct Presence {
    under_way: Arc<UnderWay>,
    key: Vec<u8>,
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.under_way.0.release(&self.key, |count| {
            *count = count.saturating_sub(1);
            *count == 0
        });
    }
}

impl Plugin for LimitConn {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let redis = Redis::compile(&config.policy, cx)?;
        let limits = match (&config.rules, &config.conn, &config.burst, &config.key) {
            (Some(rules), ..) => rules
                .iter()
                .map(|rule| Limit::new(Key::template(&rule.key), &rule.conn, &rule.burst))
                .collect(),
            (None, Some(conn), Some(burst), Some(key)) => {
                vec![Limit::new(Key::compile(config.key_type, key), conn, burst)]
            }
            _ => Vec::new(),
        };
        Ok(Self {
            under_way: cx.shared.get(),
            scope: format!("{}:{}:", cx.parent.resource_key, cx.parent.config_version).into_bytes(),
            limits,
            by_rules: config.rules.is_some(),
            delay_s: config.default_conn_delay,
            answers: Arc::new(Answers {
                rejected_code: config.rejected_code,
                rejected_msg: config.rejected_msg,
                allow_degradation: config.allow_degradation,
            }),
            remote: redis.map(|redis| Arc::new(Remote::new(redis, config.policy.key_ttl_s(), cx.shared))),
        })
    }

    fn schema() -> Value {
        schema()
    }
}

impl Limit {
    fn new(key: Key, conn: &AmountConfig, burst: &AmountConfig) -> Self {
        Self { key, conn: Amount::compile(conn, 1), burst: Amount::compile(burst, 0) }
    }
}

impl OnAccess for LimitConn {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        if let Some(remote) = &self.remote {
            return self.ask(remote, exchange);
        }
        let Some(entered) = self.enter(exchange, &exchange.client.ip_text) else {
            return self.answers.unusable();
        };
        // Kept until the exchange is over, however it ends.
        exchange.extras().note(self, entered.present);
        self.answers.answer(entered.delay, exchange)
    }
}

impl Answers {
    /// Where no limit has a usable number.
    fn unusable(&self) -> Flow {
        if self.allow_degradation { Flow::Next } else { Flow::status(500) }
    }

    /// Lets a request pass after `delay`; rejects it where there is none.
    fn answer(&self, delay: Option<Duration>, exchange: &Exchange<'_>) -> Flow {
        match delay {
            None => Flow::reply(match &self.rejected_msg {
                Some(message) => Reply::error(self.rejected_code, message),
                None => Reply::status(self.rejected_code),
            }),
            Some(Duration::ZERO) => Flow::Next,
            Some(delay) => exchange.after(delay, Flow::Next),
        }
    }
}

/// What became of one more request.
struct Entered {
    present: Vec<Presence>,
    /// How long it waits; `None` where it is refused.
    delay: Option<Duration>,
}

impl LimitConn {
    /// Counts one more request or session, from `ip_text`; `None` where no limit applies, or the one limit has no usable
    /// number.
    fn enter(&self, source: &impl VarSource, ip_text: &str) -> Option<Entered> {
        let applying = self.applying(source, ip_text)?;
        let mut present = Vec::with_capacity(applying.len());
        let mut delay_s = 0.0;
        for (key, conn, burst) in applying {
            let Some(number) = self.count(&key, conn.saturating_add(burst)) else {
                return Some(Entered { present, delay: None });
            };
            delay_s += delay_s_of(number, conn, self.delay_s);
            present.push(Presence { under_way: Arc::clone(&self.under_way), key });
        }
        Some(Entered { present, delay: Some(delay(delay_s)) })
    }

    /// As [`Self::enter`], in Redis.
    fn ask(&self, remote: &Arc<Remote>, exchange: &Exchange<'_>) -> Flow {
        let Some(applying) = self.applying(exchange, &exchange.client.ip_text) else {
            return self.answers.unusable();
        };
        let presences = remote.presences(applying, exchange);
        let (unit_s, allow_degradation) = (self.delay_s, self.answers.allow_degradation);
        let (remote, answers) = (Arc::clone(remote), Arc::clone(&self.answers));
        Flow::wait(enter_all(presences, unit_s, allow_degradation), move |(presences, entered), exchange| {
            // Kept until the exchange is over, however it ends.
            exchange.extras().note(&*remote, presences);
            match entered {
                Ok(delay) => answers.answer(delay, exchange),
                Err(_) => Flow::status(500),
            }
        })
    }

    /// Key, `conn` and `burst` of the limits that apply.
    fn applying(&self, source: &impl VarSource, ip_text: &str) -> Option<Vec<(Vec<u8>, u64, u64)>> {
        let limits = self.limits.iter().enumerate();
        let applying: Vec<_> = limits
            .filter_map(|(at, limit)| {
                let (conn, burst) = (limit.conn.of(source)?, limit.burst.of(source)?);
                let key = if self.by_rules {
                    // Rules whose keys come out equal are still different limits.
                    [&*self.scope, &limit.key.resolved(source)?, format!("#{at}").as_bytes()].concat()
                } else {
                    [&*self.scope, &*limit.key.or_remote_addr(source, ip_text)].concat()
                };
                Some((key, conn, burst))
            })
            .collect();
        (!applying.is_empty()).then_some(applying)
    }

    /// Counts one more request of `key`: how many there are now; `None` where there would be more than `most`.
    fn count(&self, key: &[u8], most: u64) -> Option<u64> {
        self.under_way.0.with(
            key,
            |count| *count == 0,
            |count| {
                let admitted = *count < most;
                *count += u64::from(admitted);
                admitted.then_some(*count)
            },
        )
    }
}

/// Counts one more request in Redis: the delay, or `None` where a limit refuses it. A fault ends it, unless requests may
/// pass all the same.
async fn enter_all(
    mut presences: Vec<remote::Presence>,
    unit_s: f64,
    allow_degradation: bool,
) -> (Vec<remote::Presence>, Result<Option<Duration>, Fault>) {
    let mut delay_s = 0.0;
    for presence in &mut presences {
        match presence.enter().await {
            Ok(Some(number)) => delay_s += delay_s_of(number, presence.conn, unit_s),
            Ok(None) => return (presences, Ok(None)),
            Err(fault) => {
                tracing::error!("failed to limit conn: {fault}");
                if !allow_degradation {
                    return (presences, Err(fault));
                }
            }
        }
    }
    (presences, Ok(Some(delay(delay_s))))
}

/// For how many seconds the request waits that is the `number`th under way.
fn delay_s_of(number: u64, conn: u64, unit_s: f64) -> f64 {
    if number > conn { unit_s * ((number - 1) / conn) as f64 } else { 0.0 }
}

fn delay(delay_s: f64) -> Duration {
    let delay = Duration::try_from_secs_f64(delay_s).unwrap_or(Duration::MAX);
    // Less than a millisecond is no wait.
    if delay < Duration::from_millis(1) { Duration::ZERO } else { delay }
}

fn schema() -> Value {
    let conn = json!({"oneOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "string"}]});
    let burst = json!({"oneOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]});
    redis_policy::with_policies(
        json!({
            "type": "object",
            "properties": {
                "conn": conn,
                "burst": burst,
                "default_conn_delay": {
                    "description": "Seconds for which a request beyond `conn` waits.",
                    "type": "number",
                    "exclusiveMinimum": 0
                },
                "only_use_default_delay": {"type": "boolean", "default": false},
                "key": {"type": "string"},
                "key_type": {"type": "string", "enum": ["var", "var_combination"], "default": "var"},
                "policy": {"type": "string", "enum": ["redis", "redis-cluster", "local"], "default": "local"},
                "rejected_code": {"type": "integer", "minimum": 200, "maximum": 599, "default": 503},
                "rejected_msg": {"type": "string", "minLength": 1},
                "allow_degradation": {"type": "boolean", "default": false},
                "rules": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"conn": conn, "burst": burst, "key": {"type": "string"}},
                        "required": ["conn", "burst", "key"]
                    }
                }
            },
            "oneOf": [
                {"required": ["conn", "burst", "default_conn_delay", "key"]},
                {"required": ["default_conn_delay", "rules"]}
            ],
            "encrypt_fields": ["redis_password"]
        }),
        Some(&json!({"type": "integer", "default": 3600})),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench};
    use plugin::{Chain, Registry};

    fn chain(config: &Value) -> Result<Chain, Vec<ConfigError>> {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        testkit::chain(&registry, &json!({"limit-conn": config}))
    }

    /// Status and delay in milliseconds of requests that are under way together.
    fn together(chain: &Chain, requests: &[&str]) -> Vec<(u16, u128)> {
        let benches: Vec<_> = requests.iter().map(|request| Bench::new(request)).collect();
        let mut exchanges: Vec<_> = benches.iter().map(Bench::exchange).collect();
        let statuses: Vec<_> =
            exchanges.iter_mut().map(|exchange| testkit::access(chain, exchange)).collect();
        statuses.into_iter().zip(benches.iter().map(|bench| bench.services.slept().as_millis())).collect()
    }

    #[test]
    fn requests_beyond_the_number_wait_and_those_beyond_the_burst_are_refused() {
        let config = json!({"conn": 1, "burst": 2, "default_conn_delay": 0.1, "key": "remote_addr"});
        let chain = chain(&config).expect("valid");
        let expected = [(0, 0), (0, 100), (0, 200), (503, 0)];
        assert_eq!(together(&chain, &["GET /"; 4]), expected);
        assert_eq!(together(&chain, &["GET /"; 4]), expected, "those before are over");
    }

    #[test]
    fn keys_count_apart_and_numbers_may_come_from_the_request() {
        let config = json!({
            "conn": "${http_n ?? 1}", "burst": "${http_b ?? 0}", "default_conn_delay": 0.001, "key": "http_k",
            "rejected_code": 429, "rejected_msg": "busy"
        });
        let chain = chain(&config).expect("valid");
        let got = together(&chain, &["GET /\nK: 1", "GET /\nK: 2", "GET /\nK: 1", "GET /\nK: 1\nN: 2"]);
        assert_eq!(got.iter().map(|one| one.0).collect::<Vec<_>>(), [0, 0, 429, 0]);
        for number in ["0", "x", "1.5", "-1"] {
            assert_eq!(together(&chain, &[&format!("GET /\nN: {number}")])[0].0, 500, "{number}");
        }
    }

    #[test]
    fn rules_apply_where_they_can() {
        let config = json!({"default_conn_delay": 0.001, "rules": [
            {"conn": 1, "burst": 0, "key": "${http_user}"},
            {"conn": "${http_n}", "burst": 0, "key": "${http_project}"}
        ]});
        let chain = chain(&config).expect("valid");
        let got = together(
            &chain,
            &["GET /", "GET /\nuser: a", "GET /\nuser: a", "GET /\nuser: b", "GET /\nproject: p"],
        );
        assert_eq!(got.iter().map(|one| one.0).collect::<Vec<_>>(), [500, 0, 503, 0, 500]);
    }

    #[test]
    fn mistakes_are_named() {
        let ok = json!({"conn": 1, "burst": 0, "default_conn_delay": 1, "key": "a"});
        assert!(chain(&ok).is_ok());
        for (field, value, path) in [
            ("conn", json!(0), "/limit-conn/conn"),
            ("burst", json!(-1), "/limit-conn/burst"),
            ("default_conn_delay", json!(0), "/limit-conn/default_conn_delay"),
            ("key_type", json!("constant"), "/limit-conn/key_type"),
            ("policy", json!("redis"), "/limit-conn"),
        ] {
            let mut config = ok.clone();
            config[field] = value;
            assert_eq!(chain(&config).expect_err("refused")[0].path, path, "{config}");
        }
    }
}
