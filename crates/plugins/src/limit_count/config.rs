//! What a user writes.

use crate::amount::AmountConfig;
use crate::headers::is_token;
use crate::limit_key::KeyType;
use crate::redis_policy::PolicyConfig;
use model::ConfigError;
use serde::Deserialize;
use std::collections::HashSet;
use std::time::Duration;

/// The `sync_interval` that asks Redis for each request.
const NO_DELAYED_SYNC: f64 = -1.0;

/// The least `sync_interval` in seconds.
const SYNC_INTERVAL_MIN: f64 = 0.1;

/// The configuration, defaults filled in by the schema. Its JSON Schema is written out in `schema.rs`: what depends on
/// what (`count` or `rules`, Redis by policy) is beyond what a type can say.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Config {
    pub(super) count: Option<AmountConfig>,
    pub(super) time_window: Option<AmountConfig>,
    pub(super) window_type: WindowType,
    pub(super) rules: Option<Vec<RuleConfig>>,
    pub(super) group: Option<String>,
    pub(super) key: String,
    pub(super) key_type: KeyType,
    pub(super) rejected_code: u16,
    pub(super) rejected_msg: Option<String>,
    pub(super) allow_degradation: bool,
    pub(super) show_limit_quota_header: bool,
    pub(super) sync_interval: f64,
    #[serde(flatten)]
    pub(super) policy: PolicyConfig,
}

/// One of `rules`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct RuleConfig {
    pub(super) count: AmountConfig,
    pub(super) time_window: AmountConfig,
    pub(super) key: String,
    pub(super) header_prefix: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WindowType {
    Fixed,
    Sliding,
}

impl Config {
    /// What the schema can't say. The messages are APISIX's.
    pub(super) fn check(&self) -> Result<(), Vec<ConfigError>> {
        let rules = self.rules.as_deref().unwrap_or_default();
        let mut errors = Vec::new();
        if self.rules.is_some() && (self.count.is_some() || self.time_window.is_some()) {
            let message = "count/time_window and rules cannot be specified at the same time";
            errors.push(ConfigError::new("/rules", message));
        }
        if self.rules.is_some() && self.group.is_some() {
            errors.push(ConfigError::new("/group", "group and rules cannot be specified at the same time"));
        }
        errors.extend(self.check_sync_interval());
        let mut keys = HashSet::new();
        for (at, rule) in rules.iter().enumerate() {
            if !keys.insert(&rule.key) {
                let message = format!("duplicate key '{}' in rules", rule.key);
                errors.push(ConfigError::new(format!("/rules/{at}/key"), message));
            }
            if rule.header_prefix.as_ref().is_some_and(|prefix| !is_token(prefix)) {
                let message = "must be letters, digits and dashes: it becomes part of a header's name";
                errors.push(ConfigError::new(format!("/rules/{at}/header_prefix"), message));
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// The time between two exchanges with Redis, where counting goes on here in between.
    pub(super) fn sync_interval(&self) -> Option<Duration> {
        if self.policy == PolicyConfig::Local || self.sync_interval == NO_DELAYED_SYNC {
            return None;
        }
        Duration::try_from_secs_f64(self.sync_interval).ok()
    }

    fn check_sync_interval(&self) -> Option<ConfigError> {
        let interval = self.sync_interval;
        if self.policy == PolicyConfig::Local || interval == NO_DELAYED_SYNC {
            return None;
        }
        let message = match self.time_window {
            _ if interval < SYNC_INTERVAL_MIN => "sync_interval should not be smaller than 0.1",
            Some(AmountConfig::Integer(window)) if interval >= window as f64 => {
                "sync_interval should be smaller than time_window"
            }
            Some(AmountConfig::Float(window)) if interval >= window => {
                "sync_interval should be smaller than time_window"
            }
            _ if self.sync_interval().is_none() => "sync_interval is too large",
            _ => return None,
        };
        Some(ConfigError::new("/sync_interval", message))
    }
}
