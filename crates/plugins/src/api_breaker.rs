//! Opens a circuit when the upstream keeps failing: requests are then rejected without reaching it, for longer each
//! time.
//!
//! ## When to use
//! Use it to give a failing upstream time to recover and its clients a quick error. The plugin counts the statuses of
//! the upstream's responses per host and path, across all workers.
//!
//! ## Example
//! After three responses with 500 or 503, the circuit opens for two seconds, and the gateway responds with 502. After three
//! more failures it opens for four seconds, then eight, up to `max_breaker_sec`. One response with 200 closes it:
//! ```json
//! {
//!     "api-breaker": {
//!         "break_response_code": 502,
//!         "break_response_body": "{\"message\":\"try again later\"}",
//!         "break_response_headers": [{"key": "Content-Type", "value": "application/json"}],
//!         "max_breaker_sec": 300,
//!         "unhealthy": {"http_statuses": [500, 503], "failures": 3},
//!         "healthy": {"http_statuses": [200], "successes": 1}
//!     }
//! }
//! ```
//! As in APISIX, the header fields are sent only if `break_response_body` is set, and their values can contain variables.
//! Statuses that are in neither list are ignored, and failures need not be consecutive: only `successes` consecutive
//! successes in the unhealthy state reset the count.
//!
//! ## Differences from APISIX
//! - At most 65,536 pairs of host and path are remembered; APISIX's bound is a shared dictionary of 10 MB.
//! - An invalid header field name is rejected.
//! - Times have millisecond resolution: a break of two seconds ends after two seconds, and not up to one second later.

use crate::headers::is_token;
use model::ConfigError;
use model::var::Template;
use plugin::{CompileContext, Exchange, Flow, OnAccess, OnLog, Plugin, PluginDef, Reply, ResponseSource};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stdx::{Clock, Keyed};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<ApiBreaker>("api-breaker", 1005).on_access().on_log().build()
}

/// Pairs of host and path that are remembered: clients choose them. At some 200 bytes each, 13 MB.
const KEYS_MAX: usize = 1 << 16;

/// The user's configuration.
#[derive(Debug, Deserialize)]
pub struct Config {
    break_response_code: u16,
    break_response_body: Option<String>,
    #[serde(default)]
    break_response_headers: Vec<HeaderConfig>,
    max_breaker_sec: u64,
    unhealthy: UnhealthyConfig,
    healthy: HealthyConfig,
}

#[derive(Debug, Deserialize)]
struct HeaderConfig {
    key: String,
    value: String,
}

#[derive(Debug, Deserialize)]
struct UnhealthyConfig {
    http_statuses: Vec<u16>,
    failures: u64,
}

#[derive(Debug, Deserialize)]
struct HealthyConfig {
    http_statuses: Vec<u16>,
    successes: u64,
}

/// The limits, and the state that all configurations share.
pub struct ApiBreaker {
    breakers: Arc<Breakers>,
    code: u16,
    /// The body with its header fields.
    answer: Option<(String, Vec<(String, Template)>)>,
    break_ms_max: u64,
    unhealthy_statuses: Box<[u16]>,
    failures: u64,
    healthy_statuses: Box<[u16]>,
    successes: u64,
}

/// What is known of hosts and paths whose upstreams failed. The process's, as in APISIX: two routes with one host and path
/// share it.
struct Breakers {
    states: Keyed<State>,
    clock: Clock,
    /// Whether any upstream ever failed; until then no request looks into `states`.
    used: AtomicBool,
}

impl Default for Breakers {
    fn default() -> Self {
        Self { states: Keyed::new(KEYS_MAX), clock: Clock::default(), used: AtomicBool::new(false) }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    unhealthy: u64,
    healthy: u64,
    /// When `unhealthy` last reached a multiple of `failures`, and when that is forgotten.
    tripped: Option<Tripped>,
}

#[derive(Debug, Clone, Copy)]
struct Tripped {
    at_ms: u64,
    until_ms: u64,
}

impl Plugin for ApiBreaker {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        if let Some(at) = config.break_response_headers.iter().position(|header| !is_token(&header.key)) {
            let place = format!("/break_response_headers/{at}/key");
            return Err(vec![ConfigError::new(place, "invalid field character in header")]);
        }
        let headers = config.break_response_headers.into_iter();
        let headers = headers.map(|header| (header.key, Template::parse(&header.value))).collect();
        Ok(Self {
            breakers: cx.shared.get(),
            code: config.break_response_code,
            answer: config.break_response_body.map(|body| (body, headers)),
            break_ms_max: config.max_breaker_sec.saturating_mul(1000),
            unhealthy_statuses: config.unhealthy.http_statuses.into(),
            failures: config.unhealthy.failures,
            healthy_statuses: config.healthy.http_statuses.into(),
            successes: config.healthy.successes,
        })
    }

    fn schema() -> Value {
        let statuses = |minimum: u16, maximum: u16, default: u16| {
            json!({
                "type": "array",
                "minItems": 1,
                "items": {"type": "integer", "minimum": minimum, "maximum": maximum},
                "uniqueItems": true,
                "default": [default]
            })
        };
        let count = json!({"type": "integer", "minimum": 1, "default": 3});
        json!({
            "type": "object",
            "properties": {
                "break_response_code": {"type": "integer", "minimum": 200, "maximum": 599},
                "break_response_body": {"type": "string"},
                "break_response_headers": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "key": {"type": "string", "minLength": 1},
                            "value": {"type": "string", "minLength": 1}
                        },
                        "required": ["key", "value"]
                    }
                },
                "max_breaker_sec": {"type": "integer", "minimum": 3, "default": 300},
                "unhealthy": {
                    "type": "object",
                    "properties": {"http_statuses": statuses(500, 599, 500), "failures": count},
                    "default": {"http_statuses": [500], "failures": 3}
                },
                "healthy": {
                    "type": "object",
                    "properties": {"http_statuses": statuses(200, 499, 200), "successes": count},
                    "default": {"http_statuses": [200], "successes": 3}
                }
            },
            "required": ["break_response_code"]
        })
    }
}

impl OnAccess for ApiBreaker {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        if !self.breakers.used.load(Ordering::Relaxed) {
            return Flow::Next;
        }
        let now_ms = self.breakers.clock.unix_ms(exchange.timing.started);
        let mut open = false;
        self.breakers.states.release(&key(exchange), |state| {
            open = state.tripped.is_some_and(|tripped| self.is_open(state.unhealthy, tripped, now_ms));
            false
        });
        if open { self.refuse(exchange) } else { Flow::Next }
    }
}

impl OnLog for ApiBreaker {
    fn log(&self, exchange: &Exchange<'_>) {
        // As in nginx an upstream that can't be reached has the status of the error that it causes.
        let status = match (exchange.upstream.status, exchange.source) {
            (0, ResponseSource::Nginx) => exchange.status,
            (status, _) => status,
        };
        if self.unhealthy_statuses.contains(&status) {
            self.failed(exchange);
        } else if self.healthy_statuses.contains(&status) && self.breakers.used.load(Ordering::Relaxed) {
            self.succeeded(exchange);
        }
    }
}

/// Host and path, which a zero byte can't be part of.
fn key(exchange: &Exchange<'_>) -> Vec<u8> {
    [&*exchange.request.host, b"\0", &*exchange.request.path].concat()
}

impl ApiBreaker {
    fn is_open(&self, unhealthy: u64, tripped: Tripped, now_ms: u64) -> bool {
        let times = (unhealthy / self.failures).max(1);
        let break_s = u32::try_from(times).ok().and_then(|times| 2u64.checked_pow(times));
        let break_ms = break_s.map_or(u64::MAX, |s| s.saturating_mul(1000)).min(self.break_ms_max);
        now_ms < tripped.until_ms && now_ms <= tripped.at_ms.saturating_add(break_ms)
    }

    #[cold]
    fn refuse(&self, exchange: &Exchange<'_>) -> Flow {
        let Some((body, headers)) = &self.answer else { return Flow::status(self.code) };
        let reply = headers.iter().fold(Reply::text(self.code, body.as_str()), |mut reply, (name, value)| {
            let mut rendered = Vec::new();
            value.render(exchange, &mut rendered);
            if name.eq_ignore_ascii_case("content-type") {
                // A body has one type: the last that is configured, as in nginx.
                reply.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
            }
            reply.with_header(name.clone(), rendered)
        });
        Flow::reply(reply)
    }

    #[cold]
    fn failed(&self, exchange: &Exchange<'_>) {
        let now_ms = self.breakers.clock.unix_ms(exchange.timing.started + exchange.timing.total);
        self.breakers.used.store(true, Ordering::Relaxed);
        let count = |state: &mut State| {
            state.unhealthy += 1;
            state.healthy = 0;
            if state.unhealthy.is_multiple_of(self.failures) {
                let until_ms = now_ms.saturating_add(self.break_ms_max);
                state.tripped = Some(Tripped { at_ms: now_ms, until_ms });
            }
        };
        let idle = |state: &State| state.tripped.is_some_and(|tripped| tripped.until_ms < now_ms);
        self.breakers.states.with(&key(exchange), idle, count);
    }

    fn succeeded(&self, exchange: &Exchange<'_>) {
        self.breakers.states.release(&key(exchange), |state| {
            state.healthy += 1;
            state.healthy >= self.successes
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench};
    use plugin::{Chain, Registry};
    use std::time::Duration;
    use stdx::Moment;

    fn chain(config: &Value) -> Result<Chain, Vec<ConfigError>> {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("valid schemas");
        testkit::chain(&registry, &json!({ "api-breaker": config }))
    }

    /// Sends a request after so many seconds to an upstream that answers with `status`: the client's status.
    fn request(chain: &Chain, bench: &Bench, start: Moment, (after_s, status): (u64, u16)) -> u16 {
        let mut exchange = bench.exchange();
        exchange.timing.started = start + Duration::from_secs(after_s);
        match testkit::access(chain, &mut exchange) {
            0 => exchange.upstream.status = status,
            refused => {
                testkit::log(chain, &mut exchange, refused);
                return refused;
            }
        }
        testkit::log(chain, &mut exchange, status);
        status
    }

    /// The statuses that clients see.
    fn seen<const N: usize>(config: &Value, requests: [(u64, u16); N]) -> [u16; N] {
        let (chain, bench, start) = (chain(config).expect("valid"), Bench::new("GET /a"), Moment::now());
        requests.map(|one| request(&chain, &bench, start, one))
    }

    #[test]
    fn breaks_double_up_to_their_maximum() {
        let config = json!({"break_response_code": 599, "max_breaker_sec": 5, "unhealthy": {"failures": 1}});
        let requests =
            [(0, 500), (1, 500), (2, 500), (3, 500), (7, 500), (8, 500), (12, 500), (13, 500), (18, 200)];
        // 2 s from 0, 4 s from 3, then 5 s from 8, when it is forgotten.
        assert_eq!(seen(&config, requests), [500, 599, 599, 500, 599, 500, 599, 500, 200]);
    }

    #[test]
    fn failures_are_counted_until_enough_successes_come_in_a_row() {
        let config = json!({"break_response_code": 502, "unhealthy": {"http_statuses": [500, 503]},
                            "healthy": {"successes": 2}});
        let counted = [(0, 500), (0, 404), (0, 503), (0, 200), (0, 500), (1, 500)];
        assert_eq!(seen(&config, counted), [500, 404, 503, 200, 500, 502]);
        let healed =
            [(0, 500), (0, 503), (0, 200), (0, 200), (0, 500), (0, 500), (0, 200), (0, 500), (0, 500)];
        assert_eq!(seen(&config, healed), [500, 503, 200, 200, 500, 500, 200, 500, 502]);
        let others = [(0, 501), (0, 501), (0, 501), (0, 501)];
        assert_eq!(seen(&config, others), [501; 4]);
    }

    #[test]
    fn hosts_and_paths_break_apart_and_workers_together() {
        let config = json!({"break_response_code": 502, "unhealthy": {"failures": 2}});
        let (chain, start) = (chain(&config).expect("valid"), Moment::now());
        // Each bench is a worker of its own.
        let bench = |request: &str| Bench::new(request);
        assert_eq!(request(&chain, &bench("GET /a\nHost: x"), start, (0, 500)), 500);
        assert_eq!(request(&chain, &bench("GET /a\nHost: x"), start, (0, 500)), 500);
        for (text, status) in [
            ("GET /a\nHost: x", 502),
            ("GET /b\nHost: x", 200),
            ("GET /a\nHost: y", 200),
            ("GET /a?q\nHost: X", 502),
        ] {
            assert_eq!(request(&chain, &bench(text), start, (1, 200)), status, "{text}");
        }
    }

    #[test]
    fn an_upstream_that_can_not_be_reached_fails() {
        let config = json!({"break_response_code": 503,
                            "unhealthy": {"http_statuses": [502], "failures": 1}});
        let (chain, bench) = (chain(&config).expect("valid"), Bench::new("GET /"));
        let mut exchange = bench.exchange();
        exchange.source = ResponseSource::Nginx;
        testkit::log(&chain, &mut exchange, 502);
        assert_eq!(testkit::access(&chain, &mut bench.exchange()), 503);
    }

    #[test]
    fn the_answer_is_as_configured() {
        let headers =
            json!([{"key": "X-Client", "value": "$remote_addr!"}, {"key": "X-Client", "value": "b"}]);
        let types = json!([{"key": "Content-Type", "value": "a/a"}, {"key": "content-type", "value": "b/b"}]);
        for (config, body, lines) in [
            (json!({"break_response_headers": headers}), None, vec![]),
            (
                json!({"break_response_headers": headers, "break_response_body": "later"}),
                Some("later"),
                vec!["127.0.0.1!", "b"],
            ),
            (json!({"break_response_headers": types, "break_response_body": "{}"}), Some("{}"), vec!["b/b"]),
        ] {
            let mut config = config;
            config["break_response_code"] = json!(503);
            config["unhealthy"] = json!({"failures": 1});
            let (chain, bench) = (chain(&config).expect("valid"), Bench::new("GET /"));
            assert_eq!(request(&chain, &bench, Moment::now(), (0, 500)), 500);
            let reply = testkit::request(&chain, &mut bench.exchange()).expect("refused");
            assert_eq!((reply.status, reply.body.as_deref()), (503, body.map(str::as_bytes)));
            let values: Vec<_> =
                reply.headers.iter().map(|(_, value)| String::from_utf8_lossy(value)).collect();
            assert_eq!(values, lines);
        }
    }

    #[test]
    fn configurations_are_checked() {
        for (config, path) in [
            (json!({}), ""),
            (json!({"break_response_code": 199}), "/break_response_code"),
            (json!({"break_response_code": 502, "max_breaker_sec": 2}), "/max_breaker_sec"),
            (
                json!({"break_response_code": 502, "unhealthy": {"http_statuses": [499]}}),
                "/unhealthy/http_statuses",
            ),
            (json!({"break_response_code": 502, "unhealthy": {"http_statuses": [500, 500]}}), "/unhealthy"),
            (
                json!({"break_response_code": 502, "healthy": {"http_statuses": [500]}}),
                "/healthy/http_statuses",
            ),
            (json!({"break_response_code": 502, "healthy": {"successes": 0}}), "/healthy/successes"),
            (
                json!({"break_response_code": 502, "break_response_headers": [{"key": "a"}]}),
                "/break_response_headers",
            ),
            (
                json!({"break_response_code": 502, "break_response_headers": [{"key": "a b", "value": "c"}]}),
                "/break_response_headers/0/key",
            ),
        ] {
            let errors = chain(&config).expect_err("refused");
            assert!(errors[0].path.starts_with(&format!("/api-breaker{path}")), "{config}: {errors:?}");
        }
    }
}
