//! Limits the number of requests per time window, by client address or any other key; further requests get 503.
//!
//! ## When to use
//! Use it to protect an upstream from a client that sends too many requests, or to enforce quotas. The count is exact
//! across all workers of a gateway. Each response tells the limit, the remaining requests and the seconds until the
//! window ends, in `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`.
//!
//! ## Example
//! 100 requests per minute from each client address; further requests get 429:
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
//! 100 requests per minute from each consumer, counted in Redis for all gateways. Requests pass while Redis is
//! unavailable:
//! ```json
//! {
//!     "limit-count": {
//!         "count": 100,
//!         "time_window": 60,
//!         "key": "consumer_name",
//!         "policy": "redis",
//!         "redis_host": "redis.internal",
//!         "redis_password": "$ENV://REDIS_PASSWORD",
//!         "redis_timeout": 200,
//!         "allow_degradation": true
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - Each worker has one connection to each Redis server, and requests are pipelined, so
//!   `redis_keepalive_pool` changes nothing. An operation takes at most the sum of its timeouts, including redirections.
//! - With `sync_interval`, requests that were not yet synchronised when a window ends are not counted in the next one.
//! - Sliding windows are exact across workers, and `X-RateLimit-Remaining` is never below 0.
//! - A group's settings can be changed when no route, service or consumer uses the group.
//! - The header names in the plugin's metadata, and `header_prefix`, must be valid in a header.
//! - The log variable `$rate_limiting_info` is not set.

mod config;
mod delayed;
mod group;
mod headers;
mod outcome;
mod remote;
mod schema;
mod shared_windows;

use crate::limit_key::Key;
use crate::redis_policy::Redis;
use config::{Config, WindowType};
use delayed::Delayed;
use group::{Group, Groups};
use headers::HeaderNames;
use model::ConfigError;
use outcome::Outcome;
use plugin::{CompileContext, Exchange, Flow, OnAccess, Plugin, PluginDef};
use remote::{Answers, Remote, Rule};
use serde_json::Value;
use shared_windows::SharedWindows;
use std::sync::Arc;
use stdx::Clock;
use stdx::window::{Scope, Windows};

const NAME: &str = "limit-count";

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<LimitCount>(NAME, 1002)
        .on_access()
        .action()
        .encrypt_fields(&["redis_password", "sentinel_password"])
        .build()
}

/// The compiled form.
pub struct LimitCount {
    state: Arc<State>,
    /// The limits that are counted here; none where Redis counts.
    limits: Box<[Limit]>,
    /// Whether the limits are `rules`, each of which applies only where its key has a value.
    by_rules: bool,
    sliding: bool,
    allow_degradation: bool,
    answers: Answers,
    /// What counts in Redis.
    remote: Option<Arc<Remote>>,
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

/// One number per window, counted here.
struct Limit {
    scope: Scope,
    rule: Rule,
}

impl Plugin for LimitCount {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        config.check()?;
        let redis = Redis::compile(&config.policy, cx)?;
        let state: Arc<State> = cx.shared.get();
        let group = config.group.as_ref().map(|name| state.groups.join(name, &config)).transpose()?;
        let of_parent = || format!("{}:{}", cx.parent.resource_key, cx.parent.config_version);
        let rules = rules(&config, &HeaderNames::of(cx.metadata));
        let (by_rules, sliding) = (config.rules.is_some(), config.window_type == WindowType::Sliding);
        let answers = Answers {
            show_headers: config.show_limit_quota_header,
            rejected_code: config.rejected_code,
            rejected_msg: config.rejected_msg.clone(),
        };
        let mut limits = Vec::new();
        let remote = match redis {
            Some(redis) => {
                let scope = config.group.clone().unwrap_or_else(of_parent);
                let delayed =
                    config.sync_interval().map(|time| Arc::new(Delayed::new(cx.shared.get(), time)));
                Some(Arc::new(Remote {
                    redis,
                    windows: Arc::new(SharedWindows::new(NAME, &scope, sliding, state.clock)),
                    delayed,
                    rules,
                    by_rules,
                    answers: answers.clone(),
                    allow_degradation: config.allow_degradation,
                }))
            }
            None => {
                let scope = config.group.as_ref().map_or_else(of_parent, |group| format!("group {group}"));
                limits = self::limits(rules, &scope, by_rules, &state.windows);
                None
            }
        };
        Ok(Self {
            limits: limits.into(),
            by_rules,
            sliding,
            allow_degradation: config.allow_degradation,
            answers,
            remote,
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
fn rules(config: &Config, names: &HeaderNames) -> Vec<Rule> {
    if let Some(rules) = &config.rules {
        let rule = |(at, rule): (usize, &config::RuleConfig)| {
            let number = (at + 1).to_string();
            let names = names.with_prefix(rule.header_prefix.as_deref().unwrap_or(&number));
            Rule::new(Key::template(&rule.key), &rule.count, &rule.time_window, names)
        };
        return rules.iter().enumerate().map(rule).collect();
    }
    let (Some(count), Some(time_window)) = (&config.count, &config.time_window) else { return Vec::new() };
    vec![Rule::new(Key::compile(config.key_type, &config.key), count, time_window, names.clone())]
}

/// The limits that are counted here.
fn limits(rules: Vec<Rule>, scope: &str, by_rules: bool, windows: &Windows) -> Vec<Limit> {
    let limit = |(at, rule)| {
        // Rules whose keys come out equal are still different limits.
        let name = if by_rules { format!("{scope}#{}", at + 1) } else { scope.to_owned() };
        Limit { scope: windows.scope(&name), rule }
    };
    rules.into_iter().enumerate().map(limit).collect()
}

impl OnAccess for LimitCount {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let flow = match &*self.limits {
            [limit] if !self.by_rules => self.access_one(limit, exchange),
            _ => self.access_otherwise(exchange),
        };
        flow.unwrap_or_else(|| if self.allow_degradation { Flow::Next } else { Flow::status(500) })
    }
}

impl LimitCount {
    /// `None` where the request gives no usable number.
    #[inline(always)]
    fn access_one(&self, limit: &Limit, exchange: &mut Exchange<'_>) -> Option<Flow> {
        let Limit { rule, .. } = limit;
        let (count, window_s) = (rule.count.of(exchange)?, rule.window_s.of(exchange)?);
        let outcome = match &rule.key {
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
        Some(self.answers.answer(rule, count, outcome, exchange))
    }

    /// As [`Self::access_by_rules`], or by Redis. Counting one limit here passes by this.
    #[inline(never)]
    fn access_otherwise(&self, exchange: &mut Exchange<'_>) -> Option<Flow> {
        match &self.remote {
            Some(remote) => remote.access(exchange, 1),
            None => self.access_by_rules(exchange),
        }
    }

    /// Runs the rules that apply; `None` where none does, or where one gives no usable number. The numbers of all are
    /// settled before the first one counts.
    fn access_by_rules(&self, exchange: &mut Exchange<'_>) -> Option<Flow> {
        let mut applying = Vec::new();
        for limit in &self.limits {
            let Limit { rule, .. } = limit;
            if let Some(key) = rule.key.resolved(exchange) {
                applying.push((limit, key, rule.count.of(exchange)?, rule.window_s.of(exchange)?));
            }
        }
        if applying.is_empty() {
            return None;
        }
        for (limit, key, count, window_s) in applying {
            let outcome = self.count_by(limit, &key, count, window_s, exchange);
            let flow = self.answers.answer(&limit.rule, count, outcome, exchange);
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
        Outcome::fixed(counted.consumed, count, counted.left_ms)
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
        Outcome::sliding(slid, count, length_ms)
    }
}

#[cfg(test)]
mod tests;
