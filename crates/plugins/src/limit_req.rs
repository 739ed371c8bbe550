//! Limits the request rate with a leaky bucket: bursts are delayed to the rate, further requests are rejected with
//! 503.
//!
//! ## When to use
//! Use it to keep an upstream from being overloaded. To limit the number of requests per minute or day, use
//! `limit-count`.
//!
//! ## Example
//! 10 requests per second from each client address; up to 20 more are delayed to that rate:
//! ```json
//! {
//!     "limit-req": {
//!         "rate": 10,
//!         "burst": 20,
//!         "key_type": "var",
//!         "key": "remote_addr",
//!         "rejected_code": 429
//!     }
//! }
//! ```
//!
//! With `policy` `redis` or `redis-cluster`, several gateways share the limit. `allow_degradation` lets requests pass while
//! Redis is unavailable.
//!
//! ## Differences from APISIX
//! - Redis keeps the state of a key until its bucket is empty, also for rates below one request per second.
//! - If the clocks of two gateways differ, the later one is used.
//! - Each worker has one connection to each Redis server, and requests are pipelined, so
//!   `redis_keepalive_pool` changes nothing.

use crate::limit_key::{Key, KeyType};
use crate::redis_policy::schema as redis_policy;
use crate::redis_policy::{Client, Fault, PolicyConfig, Redis, Request, Script, numbers};
use model::ConfigError;
use plugin::{CompileContext, Exchange, Flow, OnAccess, Plugin, PluginDef, Reply};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use stdx::{Clock, Keyed};

/// Takes a request into the bucket of a key, a hash of `excess` and `last` as in APISIX. Arguments: thousandths of a request
/// per second that leak, thousandths that the bucket holds, the time in milliseconds, and for how many milliseconds the
/// state is worth keeping. Returns whether there was room, and the excess as text, since Redis cuts numbers to integers.
static TAKE_IN: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local rate, burst, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local bucket = redis.call('HMGET', KEYS[1], 'excess', 'last')
local excess, last = tonumber(bucket[1] or nil), tonumber(bucket[2] or nil)
if excess and last then
    now = math.max(now, last)
    excess = math.max(excess - rate * (now - last) / 1000 + 1000, 0)
else
    excess = 0
end
if excess > burst then
    return {0, tostring(excess)}
end
redis.call('HSET', KEYS[1], 'excess', excess, 'last', now)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {1, tostring(excess)}",
    )
});

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<LimitReq>("limit-req", 1001).on_access().encrypt_fields(&["redis_password"]).build()
}

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    rate: f64,
    burst: f64,
    key: String,
    key_type: KeyType,
    rejected_code: u16,
    rejected_msg: Option<String>,
    nodelay: bool,
    allow_degradation: bool,
    #[serde(flatten)]
    policy: PolicyConfig,
}

/// The compiled form.
pub struct LimitReq {
    state: Arc<State>,
    /// Keeps the keys of two configurations apart.
    scope: Vec<u8>,
    key: Key,
    pace: Pace,
    answers: Answers,
    /// Where the buckets are, if not here.
    redis: Option<Redis>,
}

/// How fast requests may come.
#[derive(Clone, Copy)]
struct Pace {
    /// Thousandths of a request per second.
    rate: f64,
    /// Thousandths of a request.
    burst: f64,
}

/// How requests are answered.
#[derive(Clone)]
struct Answers {
    rejected_code: u16,
    rejected_msg: Option<String>,
    nodelay: bool,
    allow_degradation: bool,
}

/// What all configurations of the process share.
#[derive(Default)]
struct State {
    buckets: Keyed<Option<Bucket>>,
    clock: Clock,
}

/// One key's leaky bucket; none before the first request.
#[derive(Clone, Copy)]
struct Bucket {
    /// Thousandths of a request beyond the rate.
    excess: f64,
    /// When the last request was let through.
    last_ms: u64,
    /// What it leaks, to tell when it is of no more use.
    rate: f64,
}

impl Bucket {
    /// The excess at `now_ms`; negative where the bucket has been empty for a while.
    fn excess(&self, now_ms: u64) -> f64 {
        self.excess - self.rate * now_ms.saturating_sub(self.last_ms) as f64 / 1000.0
    }

    /// Whether a key without a bucket would be treated alike.
    fn is_idle(&self, now_ms: u64) -> bool {
        self.excess(now_ms) <= -1000.0
    }
}

impl Plugin for LimitReq {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(Self {
            redis: Redis::compile(&config.policy, cx)?,
            state: cx.shared.get(),
            scope: format!("{}:{}:", cx.parent.resource_key, cx.parent.config_version).into_bytes(),
            key: Key::compile(config.key_type, &config.key),
            pace: Pace { rate: config.rate * 1000.0, burst: config.burst * 1000.0 },
            answers: Answers {
                rejected_code: config.rejected_code,
                rejected_msg: config.rejected_msg,
                nodelay: config.nodelay,
                allow_degradation: config.allow_degradation,
            },
        })
    }

    fn schema() -> Value {
        redis_policy::with_policies(
            json!({
                "type": "object",
                "properties": {
                    "rate": {"description": "Requests per second.", "type": "number", "exclusiveMinimum": 0},
                    "burst": {
                        "description": "Requests beyond the rate that wait, and are not refused.",
                        "type": "number",
                        "minimum": 0
                    },
                    "key": {"type": "string"},
                    "key_type": {"type": "string", "enum": ["var", "var_combination"], "default": "var"},
                    "policy": {
                        "type": "string",
                        "enum": ["redis", "redis-cluster", "local"],
                        "default": "local"
                    },
                    "rejected_code": {"type": "integer", "minimum": 200, "maximum": 599, "default": 503},
                    "rejected_msg": {"type": "string", "minLength": 1},
                    "nodelay": {
                        "description": "Requests within the burst don't wait.",
                        "type": "boolean",
                        "default": false
                    },
                    "allow_degradation": {"type": "boolean", "default": false}
                },
                "required": ["rate", "burst", "key"],
                "encrypt_fields": ["redis_password"]
            }),
            None,
        )
    }
}

impl OnAccess for LimitReq {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let key = [&*self.scope, &*self.key.or_remote_addr(exchange, &exchange.client.ip_text)].concat();
        let now_ms = self.state.clock.unix_ms(exchange.timing.started);
        match &self.redis {
            None => self.answers.answer(self.enter(&key, now_ms), self.pace, exchange),
            Some(redis) => self.ask(redis, &key, now_ms, exchange),
        }
    }
}

impl LimitReq {
    /// Takes a request in: by how much it is beyond the rate; `None` where that is too much.
    fn enter(&self, key: &[u8], now_ms: u64) -> Option<f64> {
        let idle = |bucket: &Option<Bucket>| bucket.is_none_or(|bucket| bucket.is_idle(now_ms));
        self.state.buckets.with(key, idle, |bucket| {
            let excess = match bucket {
                Some(bucket) => (bucket.excess(now_ms) + 1000.0).max(0.0),
                None => 0.0,
            };
            let admitted = excess <= self.pace.burst;
            if admitted {
                // Requests of two workers may come out of order: time doesn't go back.
                let last_ms = bucket.map_or(now_ms, |bucket| bucket.last_ms.max(now_ms));
                *bucket = Some(Bucket { excess, last_ms, rate: self.pace.rate });
            }
            admitted.then_some(excess)
        })
    }

    /// As [`Self::enter`], in Redis.
    #[inline(never)]
    fn ask(&self, redis: &Redis, key: &[u8], now_ms: u64, exchange: &Exchange<'_>) -> Flow {
        let (client, pace, answers) = (redis.client(exchange), self.pace, self.answers.clone());
        let request = Request::script(&TAKE_IN)
            .key([b"limit_req:", key].concat())
            .number(pace.rate)
            .number(pace.burst)
            .number(now_ms)
            .number(pace.kept_ms());
        Flow::wait(async move { taken_in(&client, &request).await }, move |taken, exchange| match taken {
            Ok(excess) => answers.answer(excess, pace, exchange),
            Err(fault) => {
                let route = exchange.route.map_or("", |route| &route.id);
                tracing::error!(route, "failed to limit req: {fault}");
                if answers.allow_degradation { Flow::Next } else { Flow::status(500) }
            }
        })
    }
}

async fn taken_in(client: &Client, request: &Request) -> Result<Option<f64>, Fault> {
    let [admitted, excess] = numbers(&client.ask(request).await?)?;
    Ok((admitted != 0.0).then_some(excess))
}

impl Pace {
    /// For how many milliseconds a bucket differs from none at all, and a second more for clocks that disagree.
    fn kept_ms(self) -> u64 {
        // Casts saturate; a century is more than any server runs.
        (((self.burst + 1000.0) / self.rate * 1000.0).ceil() as u64).min(3_200_000_000_000) + 1000
    }
}

impl Answers {
    /// Lets a request pass, at its time, that is by `excess` beyond the rate; rejects it where that is too much.
    fn answer(&self, excess: Option<f64>, pace: Pace, exchange: &Exchange<'_>) -> Flow {
        let Some(excess) = excess else {
            return Flow::reply(match &self.rejected_msg {
                Some(message) => Reply::error(self.rejected_code, message),
                None => Reply::status(self.rejected_code),
            });
        };
        let delay = Duration::try_from_secs_f64(excess / pace.rate).unwrap_or(Duration::MAX);
        if self.nodelay || delay < Duration::from_millis(1) {
            return Flow::Next;
        }
        exchange.after(delay, Flow::Next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench};
    use plugin::{Chain, Registry};

    fn chain(config: &Value) -> Result<Chain, Vec<ConfigError>> {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        testkit::chain(&registry, &json!({"limit-req": config}))
    }

    /// Status and delay in milliseconds of requests, each so many milliseconds after the start.
    fn outcomes(chain: &Chain, requests: &[(&str, u64)]) -> Vec<(u16, u128)> {
        let start = stdx::Moment::now() + Duration::from_secs(1);
        let one = |(request, after_ms): &(&str, u64)| {
            let bench = Bench::new(request);
            let mut exchange = bench.exchange();
            exchange.timing.started = start + Duration::from_millis(*after_ms);
            let status = testkit::access(chain, &mut exchange);
            (status, bench.services.slept().as_millis())
        };
        requests.iter().map(one).collect()
    }

    #[test]
    fn requests_beyond_the_rate_wait_and_those_beyond_the_burst_are_refused() {
        let chain = chain(&json!({"rate": 10, "burst": 2, "key": "remote_addr"})).expect("valid");
        let at = |after_ms| ("GET /", after_ms);
        let got = outcomes(&chain, &[at(0), at(0), at(0), at(0), at(100), at(100), at(1000)]);
        assert_eq!(got, [(0, 0), (0, 100), (0, 200), (503, 0), (0, 200), (503, 0), (0, 0)]);
    }

    #[test]
    fn keys_count_apart_and_answers_are_as_asked_for() {
        let config = json!({
            "rate": 0.1, "burst": 0.1, "key": "$http_a $http_b", "key_type": "var_combination",
            "rejected_code": 429, "rejected_msg": "too fast"
        });
        let chain = chain(&config).expect("valid");
        let got =
            outcomes(&chain, &[("GET /\nA: 1", 0), ("GET /\nB: 1", 0), ("GET /\nA: 1", 1), ("GET /", 0)]);
        assert_eq!(got.iter().map(|one| one.0).collect::<Vec<_>>(), [0, 0, 429, 0]);
        let reply = testkit::request(&chain, &mut Bench::new("GET /\nB: 1").exchange()).expect("refused");
        assert_eq!(reply.body.as_deref(), Some(&b"{\"error_msg\":\"too fast\"}\n"[..]));
    }

    #[test]
    fn nobody_waits_with_nodelay() {
        let config = json!({"rate": 1, "burst": 5, "key": "remote_addr", "nodelay": true});
        let got = outcomes(&chain(&config).expect("valid"), &[("GET /", 0), ("GET /", 0), ("GET /", 0)]);
        assert_eq!(got, [(0, 0); 3]);
    }

    #[test]
    fn mistakes_are_named() {
        for (config, path) in [
            (json!({"rate": 0, "burst": 0, "key": "a"}), "/limit-req/rate"),
            (json!({"rate": 1, "burst": -1, "key": "a"}), "/limit-req/burst"),
            (json!({"rate": 1, "burst": 1}), "/limit-req"),
            (json!({"rate": 1, "burst": 1, "key": "a", "policy": "redis"}), "/limit-req"),
            (
                json!({
                    "rate": 1, "burst": 1, "key": "a", "policy": "redis", "redis_host": "a1", "redis_port": 65536
                }),
                "/limit-req/redis_port",
            ),
            (
                json!({
                    "rate": 1, "burst": 1, "key": "a", "policy": "redis-cluster", "redis_cluster_name": "c",
                    "redis_cluster_nodes": ["a:1", "b"]
                }),
                "/limit-req/redis_cluster_nodes/1",
            ),
        ] {
            assert_eq!(chain(&config).expect_err("refused")[0].path, path, "{config}");
        }
    }
}
