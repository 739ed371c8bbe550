//! An upstream, compiled.

mod board;
mod checks;
mod discovered;
mod in_plugins;
mod shared;

pub use board::{Board, CheckTarget, Watched};
pub use checks::{ActiveChecks, Checks, Judgement, PassiveChecks, ProbeRequest};
pub use discovered::Discovered;
pub use in_plugins::InPlugins;
pub use shared::Shared;

use balance::Algorithm;
use balance::outlier::OutlierRules;
use model::ConfigError;
use model::resource::{HashOn, KeepalivePool, OutlierEjection, PassHost, Scheme, Timeout};
use model::var::{Template, Var, VarSource};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long a TCP session may be idle where no timeout is given: nginx's `proxy_timeout`.
const SESSION_IDLE: Duration = Duration::from_secs(600);

/// An upstream, compiled. Immutable: a change makes another one.
#[derive(Debug, PartialEq)]
pub struct Upstream {
    /// Names this content: no two different upstreams of one process share it, and an upstream whose content did not
    /// change keeps it. Later ones are larger.
    pub uid: u64,
    /// The nodes, in the order written; none where a service has them.
    pub nodes: Vec<Node>,
    /// The service that has the nodes; `None` where they are written.
    pub discovered: Option<Discovered>,
    /// How requests are spread.
    pub algorithm: Algorithm,
    /// What `chash` hashes.
    pub hash_key: HashKey,
    /// The protocol spoken to the nodes.
    pub scheme: Scheme,
    /// Which `Host` the nodes see.
    pub pass_host: PassHost,
    /// The `Host` of `pass_host: rewrite`.
    pub upstream_host: Option<String>,
    /// How many further nodes are tried after a failure; `None`: each node once.
    pub retries: Option<u32>,
    /// No further node is tried after this long; `None`: no limit.
    pub retry_timeout: Option<Duration>,
    /// Timeouts, unless the route has its own.
    pub timeouts: Timeouts,
    /// How long a TCP session of a stream route may be idle.
    pub session_idle: Duration,
    /// Idle connections to keep; `None`: the gateway-wide setting.
    pub keepalive: Option<Keepalive>,
    /// How encrypted connections are made; `None`: nothing is shown to the nodes and nothing asked of them.
    pub tls: Option<UpstreamTls>,
    /// How the nodes' health is found out; `None`: not at all.
    pub checks: Option<Arc<Checks>>,
    /// When a node is put aside for what its requests come to; `None`: never.
    pub outliers: Option<OutlierRules>,
    /// What the workers share of it.
    pub shared: Shared,
}

/// How encrypted connections to an upstream are made.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UpstreamTls {
    /// Whether the node's certificate must be valid for the name that it is asked for.
    pub verify: bool,
    /// The certificate shown to it.
    pub identity: Option<Arc<tls::Identity>>,
    /// The ssl resource whose certificate is shown, where none is given here.
    pub client_cert_id: Option<String>,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Node {
    /// Where it is.
    pub host: NodeHost,
    /// Its port.
    pub port: u16,
    /// Share of requests; 0 takes none.
    pub weight: u32,
    /// Nodes of a lower priority take requests only when no higher one can.
    pub priority: i32,
    /// The `Host` of `pass_host: node`: the host, with the port unless it is the scheme's own; IPv6 in brackets.
    pub authority: Box<str>,
}

/// Where a node is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NodeHost {
    /// At an address.
    Ip(IpAddr),
    /// At the addresses of a name, resolved at run time.
    Name(String),
}

impl fmt::Display for NodeHost {
    /// The name, or the address without brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

impl NodeHost {
    /// As it stands before a port and in URLs: IPv6 in brackets.
    #[must_use]
    pub fn in_authority(&self) -> String {
        match self {
            Self::Ip(IpAddr::V6(ip)) => format!("[{ip}]"),
            other => other.to_string(),
        }
    }
}

/// What `chash` hashes.
#[derive(Debug, Clone, PartialEq)]
pub enum HashKey {
    /// A variable (also headers, cookies and the consumer's name).
    Var(Var),
    /// A template of variables.
    Template(Template),
}

/// How long to wait for an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// To connect.
    pub connect: Duration,
    /// Between two successive writes.
    pub send: Duration,
    /// Between two successive reads.
    pub read: Duration,
}

/// Idle connections to the nodes of one upstream, per worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// How many at most.
    pub size: u32,
    /// How long one may idle; `None`: for ever.
    pub idle_timeout: Option<Duration>,
    /// Requests one may carry.
    pub requests: u64,
}

impl Upstream {
    /// How many further nodes are tried after a failure.
    #[must_use]
    pub fn retries(&self) -> u32 {
        // Each node is asked at most once, unless the operator says otherwise.
        let others = || u32::try_from(self.nodes.len().saturating_sub(1)).unwrap_or(u32::MAX);
        self.retries.unwrap_or_else(others)
    }

    /// What `chash` hashes for a request; the client's address where the configured key has no value. Empty for the
    /// other algorithms, which hash nothing.
    pub fn hashed<'s>(&self, source: &'s dyn VarSource) -> Cow<'s, [u8]> {
        let value = match &self.hash_key {
            _ if self.algorithm != Algorithm::Chash => return Cow::Borrowed(b""),
            HashKey::Var(var) => source.var(var),
            HashKey::Template(template) => {
                let mut text = Vec::new();
                (template.render(source, &mut text) > 0).then_some(Cow::Owned(text))
            }
        };
        value.or_else(|| source.var(&Var::RemoteAddr)).unwrap_or_default()
    }

    /// Whether another node may be tried after `tries` that failed, the last one not counted, `elapsed` after the
    /// beginning.
    #[must_use]
    pub fn may_retry(&self, tries: u32, elapsed: Duration) -> bool {
        tries < self.retries() && self.retry_timeout.is_none_or(|limit| elapsed < limit)
    }

    /// Compiles an upstream as written. Its `uid` is 0 and nothing is `shared`: whoever keeps it gives it both.
    ///
    /// An upstream that names a service has no nodes here: who has an eye on services gives it
    /// [`Discovered`](Self::discovered) ones.
    ///
    /// # Errors
    /// Every mistake, with its path in the upstream.
    pub fn compile(written: &model::Upstream) -> Result<Self, Vec<ConfigError>> {
        let mut errors = Vec::new();
        let algorithm = written.algorithm.parse().unwrap_or_else(|error| {
            errors.push(error);
            Algorithm::default()
        });
        let hash_key = HashKey::compile(written, algorithm).unwrap_or_else(|error| {
            errors.push(error);
            HashKey::Var(Var::RemoteAddr)
        });
        if written.pass_host == PassHost::Rewrite && written.upstream_host.is_none() {
            errors.push(ConfigError::new("/upstream_host", "is needed where `pass_host` is `rewrite`"));
        }
        let retry_timeout = written.retry_timeout.filter(|seconds| *seconds != 0.0);
        let retry_timeout =
            retry_timeout.and_then(|seconds| duration(seconds, "/retry_timeout", &mut errors));
        let timeouts = Timeouts::compile(written.timeout.unwrap_or_default()).unwrap_or_else(|found| {
            errors.extend(found.into_iter().map(|error| error.under("/timeout")));
            Timeouts::default()
        });
        let keepalive = written.keepalive_pool.and_then(|pool| Keepalive::compile(pool, &mut errors));
        let tls = written.tls.as_ref().and_then(|tls| UpstreamTls::compile(tls, &mut errors));
        let checks = written.checks.as_ref().and_then(|checks| Checks::compile(checks, &mut errors));
        let outliers = written.outlier_ejection.and_then(|ejection| outlier_rules(ejection, &mut errors));
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Self {
            uid: 0,
            nodes: written.nodes.iter().map(|node| Node::compile(node, written.scheme)).collect(),
            algorithm,
            hash_key,
            scheme: written.scheme,
            pass_host: written.pass_host,
            upstream_host: written.upstream_host.clone(),
            discovered: None,
            retries: written.retries,
            retry_timeout,
            timeouts,
            session_idle: if written.timeout.is_some() { timeouts.read } else { SESSION_IDLE },
            keepalive,
            tls,
            checks: checks.map(Arc::new),
            outliers,
            shared: Shared::default(),
        })
    }
}

impl UpstreamTls {
    fn compile(written: &Value, errors: &mut Vec<ConfigError>) -> Option<Self> {
        let text = |name: &str| written.get(name).and_then(Value::as_str);
        let identity = match (text("client_cert"), text("client_key")) {
            (Some(cert), Some(key)) => match tls::Identity::from_pem(cert, key) {
                Ok(identity) => Some(Arc::new(identity)),
                Err(error) => {
                    errors.push(ConfigError::new("/tls/client_cert", error.to_string()));
                    None
                }
            },
            _ => None,
        };
        let client_cert_id = match written.get("client_cert_id") {
            Some(Value::String(id)) => Some(id.clone()),
            Some(Value::Number(id)) => Some(id.to_string()),
            _ => None,
        };
        let verify = written.get("verify").and_then(Value::as_bool).unwrap_or(false);
        Some(Self { verify, identity, client_cert_id })
    }
}

impl Node {
    fn compile(written: &model::resource::Node, scheme: Scheme) -> Self {
        let port = written.port.unwrap_or_else(|| scheme.default_port());
        let bare =
            written.host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&written.host);
        let host = bare.parse().map_or_else(|_| NodeHost::Name(bare.to_owned()), NodeHost::Ip);
        let shown = host.in_authority();
        let authority = if port == scheme.default_port() { shown } else { format!("{shown}:{port}") };
        Self { host, port, weight: written.weight, priority: written.priority, authority: authority.into() }
    }
}

impl HashKey {
    fn compile(written: &model::Upstream, algorithm: Algorithm) -> Result<Self, ConfigError> {
        if written.hash_on == HashOn::Consumer {
            return Ok(Self::Var(Var::ConsumerName));
        }
        let Some(key) = &written.key else {
            return match algorithm {
                Algorithm::Chash => {
                    Err(ConfigError::new("/key", "missing key: chash needs something to hash"))
                }
                // Never asked for; the client's address is what chash falls back to.
                _ => Ok(Self::Var(Var::RemoteAddr)),
            };
        };
        Ok(match written.hash_on {
            HashOn::Header => Self::Var(Var::parse(&format!("http_{key}"))),
            HashOn::Cookie => Self::Var(Var::Cookie(key.clone())),
            HashOn::VarsCombinations => Self::Template(Template::parse(key)),
            HashOn::Vars | HashOn::Consumer => Self::Var(Var::parse(key)),
        })
    }
}

impl Timeouts {
    /// Compiles a `timeout` object.
    ///
    /// # Errors
    /// Every member that is no time greater than zero, with its path in the object.
    pub fn compile(written: Timeout) -> Result<Self, Vec<ConfigError>> {
        let mut errors = Vec::new();
        let mut time = |seconds: f64, path: &str| match Duration::try_from_secs_f64(seconds) {
            Ok(time) if !time.is_zero() => time,
            _ => {
                errors.push(ConfigError::new(path, format!("{seconds} is not a time greater than 0")));
                Duration::ZERO
            }
        };
        let times = Self {
            connect: time(written.connect, "/connect"),
            send: time(written.send, "/send"),
            read: time(written.read, "/read"),
        };
        if errors.is_empty() { Ok(times) } else { Err(errors) }
    }
}

impl Default for Timeouts {
    /// 60 s each, as in nginx and APISIX.
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Self { connect: minute, send: minute, read: minute }
    }
}

impl Keepalive {
    fn compile(pool: KeepalivePool, errors: &mut Vec<ConfigError>) -> Option<Self> {
        let idle_timeout = duration(pool.idle_timeout, "/keepalive_pool/idle_timeout", errors)?;
        Some(Self {
            size: pool.size,
            idle_timeout: (!idle_timeout.is_zero()).then_some(idle_timeout),
            requests: pool.requests,
        })
    }
}

fn outlier_rules(written: OutlierEjection, errors: &mut Vec<ConfigError>) -> Option<OutlierRules> {
    let margin = duration(written.latency_margin, "/outlier_ejection/latency_margin", errors);
    let time = duration(written.ejection_time, "/outlier_ejection/ejection_time", errors);
    Some(OutlierRules {
        errors: written.consecutive_errors,
        slower: written.latency_factor,
        slower_by_us: u32::try_from(margin?.as_micros()).unwrap_or(u32::MAX),
        eject_ms: u64::try_from(time?.as_millis()).unwrap_or(u64::MAX),
        ejected_percent: written.ejected_percent_max,
    })
}

/// Seconds as a duration; a negative or endless number is a mistake.
fn duration(seconds: f64, path: &str, errors: &mut Vec<ConfigError>) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds)
        .inspect_err(|_| errors.push(ConfigError::new(path, format!("{seconds} is not a time in seconds"))))
        .ok()
}

#[cfg(test)]
mod tests;
