//! Answers requests beyond a number per time window with 503, counted by client address or any other key.
//!
//! ## When to use
//! To protect an upstream from a client that asks too often, or to sell quotas. The count is exact across all workers
//! of a gateway. Each response says in `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` what is
//! allowed, what is left of it, and in how many seconds the window ends.
//!
//! ## Example
//! 100 requests a minute from each client address, 429 beyond:
//! ```json
//! {
//!     "limit-count": {
//!         "count": 100,
//!         "time_window": 60,
//!         "rejected_code": 429,
//!         "rejected_msg": "too many requests",
//!         "key_type": "var",
//!         "key": "remote_addr"
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - `policy` must be `local` for now: `redis`, `redis-cluster` and `redis-sentinel` are refused with a message.
//! - Sliding windows are exact across workers, too, and `X-RateLimit-Remaining` is never below 0.
//! - A group's settings may be changed once no route, service or consumer uses the group any more.
//! - The header names in the plugin's metadata, and `header_prefix`, must be valid in a header.
//! - The log variable `$rate_limiting_info` is not set.

mod config;
mod group;
mod headers;
mod schema;

use crate::amount::{Amount, AmountConfig};
use crate::limit_key::Key;
use config::{Config, WindowType};
use group::{Group, Groups};
use headers::{HeaderNames, Headers, Reset};
use model::ConfigError;
use plugin::{CompileContext, Exchange, Flow, OnAccess, Plugin, PluginDef, Reply};
use serde_json::Value;
use std::sync::Arc;
use stdx::Clock;
use stdx::window::{Scope, Windows};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<LimitCount>("limit-count", 1002).on_access().action().build()
}

/// The compiled form.
pub struct LimitCount {
    state: Arc<State>,
    limits: Box<[Limit]>,
    /// Whether the limits are `rules`, each of which applies only where its key has a value.
    by_rules: bool,
    sliding: bool,
    show_headers: bool,
    allow_degradation: bool,
    rejected_code: u16,
    rejected_msg: Option<String>,
    /// Holds the group's settings in place for as long as they are used.
    _group: Option<Arc<Group>>,
}

/// What all configurations of the process share.
#[derive(Default)]
struct State {
    windows: Windows,
    clock: Clock,
    groups: Groups,
}

/// One number per window.
struct Limit {
    scope: Scope,
    key: Key,
    count: Amount,
    window_s: Amount,
    headers: Headers,
}

/// What counting a request came to.
struct Outcome {
    admitted: bool,
    remaining: u64,
    reset: Reset,
}

impl Plugin for LimitCount {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        config.check()?;
        config.policy.check()?;
        let state: Arc<State> = cx.shared.get();
        let group = config.group.as_ref().map(|name| state.groups.join(name, &config)).transpose()?;
        let scope = match &config.group {
            Some(group) => format!("group {group}"),
            None => format!("{}:{}", cx.parent.resource_key, cx.parent.config_version),
        };
        Ok(Self {
            limits: limits(&config, &scope, &HeaderNames::of(cx.metadata), &state.windows).into(),
            by_rules: config.rules.is_some(),
            sliding: config.window_type == WindowType::Sliding,
            show_headers: config.show_limit_quota_header,
            allow_degradation: config.allow_degradation,
            rejected_code: config.rejected_code,
            rejected_msg: config.rejected_msg,
            state,
            _group: group,
        })
    }

    fn schema() -> Value {
        schema::config()
    }

    fn metadata_schema() -> Option<Value> {
        Some(schema::metadata())
    }
}

/// The limits that a configuration asks for.
fn limits(config: &Config, scope: &str, names: &HeaderNames, windows: &Windows) -> Vec<Limit> {
    if let Some(rules) = &config.rules {
        let limit = |(at, rule): (usize, &config::RuleConfig)| {
            let number = (at + 1).to_string();
            let names = names.with_prefix(rule.header_prefix.as_deref().unwrap_or(&number));
            // Rules whose keys come out equal are still different limits.
            let scope = windows.scope(&format!("{scope}#{number}"));
            Limit::new(scope, Key::template(&rule.key), &rule.count, &rule.time_window, names)
        };
        return rules.iter().enumerate().map(limit).collect();
    }
    let (Some(count), Some(time_window)) = (&config.count, &config.time_window) else { return Vec::new() };
    let key = Key::compile(config.key_type, &config.key);
    vec![Limit::new(windows.scope(scope), key, count, time_window, names.clone())]
}

impl Limit {
    fn new(
        scope: Scope,
        key: Key,
        count: &AmountConfig,
        time_window: &AmountConfig,
        names: HeaderNames,
    ) -> Self {
        let count = Amount::compile(count, 1);
        let headers = Headers::new(names, count.fixed());
        Self { scope, key, count, window_s: Amount::compile(time_window, 1), headers }
    }
}

impl OnAccess for LimitCount {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let flow = match &*self.limits {
            [limit] if !self.by_rules => self.access_one(limit, exchange),
            _ => self.access_by_rules(exchange),
        };
        flow.unwrap_or_else(|| if self.allow_degradation { Flow::Next } else { Flow::status(500) })
    }
}

impl LimitCount {
    /// `None` where the request gives no usable number.
    #[inline(always)]
    fn access_one(&self, limit: &Limit, exchange: &mut Exchange<'_>) -> Option<Flow> {
        let (count, window_s) = (limit.count.of(exchange)?, limit.window_s.of(exchange)?);
        let outcome = match &limit.key {
            Key::RemoteAddr => {
                self.count(limit, exchange.client.ip_text.as_bytes(), count, window_s, exchange)
            }
            key => self.count_by(
                limit,
                &key.or_remote_addr(exchange, &exchange.client.ip_text),
                count,
                window_s,
                exchange,
            ),
        };
        Some(self.answer(limit, count, &outcome, exchange))
    }

    /// Runs the rules that apply; `None` where none does, or where one gives no usable number. The numbers of all are
    /// settled before the first one counts.
    #[inline(never)]
    fn access_by_rules(&self, exchange: &mut Exchange<'_>) -> Option<Flow> {
        let mut applying = Vec::new();
        for limit in &self.limits {
            if let Some(key) = limit.key.resolved(exchange) {
                applying.push((limit, key, limit.count.of(exchange)?, limit.window_s.of(exchange)?));
            }
        }
        if applying.is_empty() {
            return None;
        }
        for (limit, key, count, window_s) in applying {
            let outcome = self.count_by(limit, &key, count, window_s, exchange);
            let flow = self.answer(limit, count, &outcome, exchange);
            if !matches!(flow, Flow::Next) {
                return Some(flow);
            }
        }
        Some(Flow::Next)
    }

    /// As [`Self::count`], out of the way of what nearly everyone counts by.
    #[inline(never)]
    fn count_by(
        &self,
        limit: &Limit,
        key: &[u8],
        count: u64,
        window_s: u64,
        exchange: &Exchange<'_>,
    ) -> Outcome {
        self.count(limit, key, count, window_s, exchange)
    }

    #[inline(always)]
    fn count(
        &self,
        limit: &Limit,
        key: &[u8],
        count: u64,
        window_s: u64,
        exchange: &Exchange<'_>,
    ) -> Outcome {
        let now_ms = self.state.clock.unix_ms(exchange.timing.started);
        let length_ms = window_s.saturating_mul(1000);
        if self.sliding {
            return self.slide(limit, key, count, length_ms, now_ms, exchange);
        }
        let counted = self.state.windows.count(exchange.worker, &limit.scope, key, 1, length_ms, now_ms);
        Outcome {
            admitted: counted.consumed <= count,
            remaining: count.saturating_sub(counted.consumed),
            reset: Reset::rounded_down(counted.left_ms),
        }
    }

    #[inline(never)]
    fn slide(
        &self,
        limit: &Limit,
        key: &[u8],
        count: u64,
        length_ms: u64,
        now_ms: u64,
        exchange: &Exchange<'_>,
    ) -> Outcome {
        let windows = &self.state.windows;
        let slid = windows.count_sliding(exchange.worker, &limit.scope, key, 1, count, length_ms, now_ms);
        // Counts are at most 2^53, where f64 is exact; casts back saturate, so a negative rest is 0.
        let (limit, consumed, left_ms) = (count as f64, slid.consumed as f64, slid.left_ms as f64);
        let per_ms = slid.previous as f64 / length_ms as f64;
        if slid.admitted {
            let remaining = (limit - consumed - per_ms * left_ms).floor() as u64;
            return Outcome { admitted: true, remaining, reset: Reset::rounded_up(slid.left_ms) };
        }
        // With room in the running window, the wait is until enough of the window before is out of sight.
        let wait_ms = if slid.consumed >= count || slid.previous == 0 {
            slid.left_ms
        } else {
            (left_ms - (limit - consumed) / per_ms).ceil() as u64
        };
        Outcome { admitted: false, remaining: 0, reset: Reset::rounded_up(wait_ms) }
    }

    #[inline(always)]
    fn answer(&self, limit: &Limit, count: u64, outcome: &Outcome, exchange: &mut Exchange<'_>) -> Flow {
        if self.show_headers {
            limit.headers.write(count, outcome.remaining, outcome.reset, &mut exchange.reply_headers);
        }
        if outcome.admitted { Flow::Next } else { self.reject() }
    }

    #[cold]
    fn reject(&self) -> Flow {
        Flow::reply(match &self.rejected_msg {
            Some(message) => Reply::error(self.rejected_code, message),
            None => Reply::status(self.rejected_code),
        })
    }
}

#[cfg(test)]
mod tests;
