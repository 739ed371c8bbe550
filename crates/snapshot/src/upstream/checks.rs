//! How the health of an upstream's nodes is found out, compiled.

use balance::health::{Event, Thresholds};
use model::ConfigError;
use model::resource::{self, CheckProtocol};
use std::time::Duration;

/// Probes of one upstream that may be under way at once, whatever is asked for: each holds a socket.
const CONCURRENCY_MAX: usize = 1024;

/// How the health of an upstream's nodes is found out.
#[derive(Debug, PartialEq)]
pub struct Checks {
    /// By probes.
    pub active: Option<ActiveChecks>,
    /// By what becomes of the clients' requests.
    pub passive: PassiveChecks,
}

/// Probes sent to the nodes.
#[derive(Debug, PartialEq)]
pub struct ActiveChecks {
    /// What a probe is.
    pub protocol: CheckProtocol,
    /// How long one may take.
    pub timeout: Duration,
    /// Probes of one upstream that may be under way at once; from 1.
    pub concurrency: usize,
    /// The `Host` asked for where nothing else says so.
    pub host: Option<String>,
    /// The port probed; `None`: the node's own.
    pub port: Option<u16>,
    /// The request that is sent; its `Host` is the node's.
    pub request: ProbeRequest,
    /// Whether a node's certificate has to be valid.
    pub verify: bool,
    /// Between two probes of a healthy node; `None`: it is not probed.
    pub healthy_interval: Option<Duration>,
    /// Between two probes of an unhealthy node; `None`: it is not probed.
    pub unhealthy_interval: Option<Duration>,
    /// Which answers are good and bad.
    pub statuses: Judgement,
    /// How many of them count.
    pub thresholds: Thresholds,
}

/// The request of a probe, but for its `Host`.
#[derive(Debug, PartialEq, Eq)]
pub struct ProbeRequest {
    /// The method's token.
    pub method: String,
    /// The path.
    pub path: String,
    /// Further fields, each as `Name: value`.
    pub fields: Vec<String>,
    /// The body.
    pub body: String,
}

/// What is concluded from the clients' requests.
#[derive(Debug, PartialEq)]
pub struct PassiveChecks {
    /// Which responses are good and bad; `None`: only connections are looked at.
    pub statuses: Option<Judgement>,
    /// How many of them count.
    pub thresholds: Thresholds,
}

/// Which statuses speak for a node's health and which against it.
#[derive(Debug, PartialEq, Eq)]
pub struct Judgement {
    good: StatusSet,
    bad: StatusSet,
}

/// Statuses from 0 to 639, a bit for each.
#[derive(Debug, Default, PartialEq, Eq)]
struct StatusSet([u64; 10]);

impl Checks {
    /// Compiles `checks` as written; `None` for none.
    ///
    /// Failed connections count also where no `passive` is written, as in APISIX: lua-resty-healthcheck then has its
    /// defaults.
    pub(super) fn compile(written: &resource::Checks, errors: &mut Vec<ConfigError>) -> Option<Self> {
        if written.active.is_none() && written.passive.is_none() {
            return None;
        }
        let active = written.active.as_ref().map(|active| ActiveChecks::compile(active, errors));
        let defaults = resource::PassiveChecks::default();
        let passive = written.passive.as_ref().unwrap_or(&defaults);
        let looks_at_statuses = written.passive.is_some() && passive.protocol != CheckProtocol::Tcp;
        let (healthy, unhealthy) = (&passive.healthy, &passive.unhealthy);
        let passive = PassiveChecks {
            statuses: looks_at_statuses
                .then(|| Judgement::new(&healthy.http_statuses, &unhealthy.http_statuses)),
            thresholds: Thresholds {
                successes: healthy.successes,
                http_failures: unhealthy.http_failures,
                tcp_failures: unhealthy.tcp_failures,
                timeouts: unhealthy.timeouts,
            },
        };
        Some(Self { active, passive })
    }
}

impl ActiveChecks {
    fn compile(written: &resource::ActiveChecks, errors: &mut Vec<ConfigError>) -> Self {
        let mut mistake = |path: &str, what: &str| {
            errors.push(ConfigError::new(format!("/checks/active/{path}"), what));
        };
        let timeout = Duration::try_from_secs_f64(written.timeout).unwrap_or_default();
        if timeout.is_zero() {
            mistake("timeout", "is not a time greater than 0");
        }
        let printable = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if !written.http_path.starts_with('/') || !printable(&written.http_path) {
            mistake("http_path", "is not a path: it begins with `/` and holds no space");
        }
        for (index, field) in written.req_headers.iter().enumerate() {
            let named = field.split_once(':').is_some_and(|(name, _)| !name.is_empty() && printable(name));
            if !field.is_empty() && (!named || field.bytes().any(|byte| byte.is_ascii_control())) {
                mistake(&format!("req_headers/{index}"), "is not a field of the form `Name: value`");
            }
        }
        let interval = |seconds: u32| (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)));
        let (healthy, unhealthy) = (&written.healthy, &written.unhealthy);
        Self {
            protocol: written.protocol,
            timeout,
            host: written.host.clone(),
            port: written.port,
            concurrency: usize::try_from(written.concurrency).unwrap_or(1).clamp(1, CONCURRENCY_MAX),
            request: ProbeRequest {
                method: written.http_method.clone(),
                path: written.http_path.clone(),
                fields: written.req_headers.iter().filter(|field| !field.is_empty()).cloned().collect(),
                body: written.http_req_body.clone(),
            },
            verify: written.https_verify_certificate,
            healthy_interval: interval(healthy.interval),
            unhealthy_interval: interval(unhealthy.interval),
            statuses: Judgement::new(&healthy.http_statuses, &unhealthy.http_statuses),
            thresholds: Thresholds {
                successes: healthy.successes,
                http_failures: unhealthy.http_failures,
                tcp_failures: unhealthy.tcp_failures,
                timeouts: unhealthy.timeouts,
            },
        }
    }

    /// Between two probes of a node that is, or is not, `usable`; `None`: none are sent.
    #[must_use]
    pub fn interval(&self, usable: bool) -> Option<Duration> {
        if usable { self.healthy_interval } else { self.unhealthy_interval }
    }
}

impl Judgement {
    fn new(good: &[u16], bad: &[u16]) -> Self {
        Self { good: StatusSet::of(good), bad: StatusSet::of(bad) }
    }

    /// What an answer of this status says; `None`: nothing. What is in both lists is good.
    #[must_use]
    #[inline]
    pub fn of(&self, status: u16) -> Option<Event> {
        if self.good.has(status) {
            Some(Event::Success)
        } else {
            self.bad.has(status).then_some(Event::HttpFailure)
        }
    }
}

impl StatusSet {
    fn of(statuses: &[u16]) -> Self {
        let mut set = Self::default();
        for &status in statuses {
            if let Some(word) = set.0.get_mut(usize::from(status / 64)) {
                *word |= 1 << (status % 64);
            }
        }
        set
    }

    fn has(&self, status: u16) -> bool {
        self.0.get(usize::from(status / 64)).is_some_and(|word| word >> (status % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn compile(written: Value) -> (Option<Checks>, Vec<String>) {
        let mut errors = Vec::new();
        let written = serde_json::from_value(written).expect("the shape of checks");
        let checks = Checks::compile(&written, &mut errors);
        (checks, errors.into_iter().map(|error| error.path).collect())
    }

    #[test]
    fn statuses_say_good_or_bad_or_nothing() {
        let judgement = Judgement::new(&[200, 302, 599], &[500, 302, 639]);
        for (status, said) in [
            (200, Some(Event::Success)),
            (302, Some(Event::Success)),
            (599, Some(Event::Success)),
            (500, Some(Event::HttpFailure)),
            (639, Some(Event::HttpFailure)),
            (404, None),
            (0, None),
            (u16::MAX, None),
        ] {
            assert_eq!(judgement.of(status), said, "{status}");
        }
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let (checks, errors) = compile(json!({ "active": {} }));
        let checks = checks.expect("compiled");
        assert_eq!(errors, Vec::<String>::new());
        let active = checks.active.expect("written");
        let second = Some(Duration::from_secs(1));
        assert_eq!((active.interval(true), active.interval(false)), (second, second));
        assert_eq!((active.timeout, active.concurrency), (Duration::from_secs(1), 10));
        assert_eq!(checks.passive.statuses, None, "nothing is written of it");
        assert_eq!(checks.passive.thresholds.tcp_failures, 2, "connections count all the same");
        assert_eq!(compile(json!({})).0, None);
    }

    #[test]
    fn mistakes_have_their_paths() {
        for (active, path) in [
            (json!({ "timeout": 0 }), "timeout"),
            (json!({ "timeout": -1 }), "timeout"),
            (json!({ "http_path": "status" }), "http_path"),
            (json!({ "http_path": "/a b" }), "http_path"),
            (json!({ "req_headers": ["A: b", "no field"] }), "req_headers/1"),
            (json!({ "req_headers": ["A: b\r\nC: d"] }), "req_headers/0"),
        ] {
            let (_, errors) = compile(json!({ "active": active }));
            assert_eq!(errors, [format!("/checks/active/{path}")]);
        }
    }

    #[test]
    fn concurrency_has_bounds() {
        for (written, expected) in [(-1, 1), (0, 1), (3, 3), (1_000_000, CONCURRENCY_MAX)] {
            let (checks, _) = compile(json!({ "active": { "concurrency": written } }));
            assert_eq!(checks.and_then(|checks| checks.active).map(|a| a.concurrency), Some(expected));
        }
    }
}
