//! `upstreams`: a set of nodes and how requests are spread over them.

use super::{Checks, Timeout};
use crate::Id;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A set of nodes and how requests are spread over them.
#[derive(Debug, Clone, Deserialize)]
pub struct Upstream {
    /// The upstream's id.
    pub id: Option<Id>,
    /// A name for people.
    pub name: Option<String>,
    /// The nodes; written as a list, or as a map from `host:port` to weight.
    #[serde(default, deserialize_with = "nodes")]
    pub nodes: Vec<Node>,
    /// The algorithm: `roundrobin` (default), `chash`, `ewma`, `least_conn`, `p2c` (ours).
    #[serde(rename = "type", default = "roundrobin")]
    pub algorithm: String,
    /// How many further nodes are tried after a failure; the number of nodes less one where absent.
    pub retries: Option<u32>,
    /// Seconds after which no further node is tried; 0 or absent: no limit.
    pub retry_timeout: Option<f64>,
    /// Timeouts; 60 s each where absent.
    pub timeout: Option<Timeout>,
    /// Idle connections to keep; the gateway-wide setting where absent.
    pub keepalive_pool: Option<KeepalivePool>,
    /// What `chash` hashes.
    #[serde(default)]
    pub hash_on: HashOn,
    /// The key of `chash`.
    pub key: Option<String>,
    /// The protocol spoken to the nodes.
    #[serde(default)]
    pub scheme: Scheme,
    /// Which `Host` the nodes see.
    #[serde(default)]
    pub pass_host: PassHost,
    /// The `Host` of `pass_host: rewrite`.
    pub upstream_host: Option<String>,
    /// Service discovery, instead of nodes.
    pub service_name: Option<String>,
    /// The kind of service discovery.
    pub discovery_type: Option<String>,
    /// How the nodes' health is found out.
    pub checks: Option<Checks>,
    /// When nodes are put aside that stand out (ours).
    pub outlier_ejection: Option<OutlierEjection>,
    /// TLS to the nodes, as written.
    pub tls: Option<Value>,
}

fn roundrobin() -> String {
    "roundrobin".to_owned()
}

/// One node of an upstream.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
pub struct Node {
    /// Name or address, IPv6 without brackets.
    pub host: String,
    /// Port; by scheme (80 or 443) where absent.
    pub port: Option<u16>,
    /// Share of requests; 0 takes none.
    pub weight: u32,
    /// Nodes of a lower priority take requests only when no higher one can.
    #[serde(default)]
    pub priority: i32,
}

/// Idle connections kept to the nodes of one upstream, per worker.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(default)]
pub struct KeepalivePool {
    /// How many at most.
    pub size: u32,
    /// Seconds one may idle; 0 closes none for idling.
    pub idle_timeout: f64,
    /// Requests one may carry before it is closed.
    pub requests: u64,
}

/// When a node is put aside for what its own requests come to (ours).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(default)]
pub struct OutlierEjection {
    /// Failed requests in a row that are enough; 0: none are.
    pub consecutive_errors: u32,
    /// How many times slower than the middle one of the nodes is enough; 0: slowness is not.
    pub latency_factor: u32,
    /// And by how many seconds at least.
    pub latency_margin: f64,
    /// Seconds for which a node is put aside the first time.
    pub ejection_time: f64,
    /// The share of the nodes that is put aside at once at most, in percent.
    pub ejected_percent_max: u32,
}

impl Default for OutlierEjection {
    fn default() -> Self {
        Self {
            consecutive_errors: 5,
            latency_factor: 4,
            latency_margin: 0.05,
            ejection_time: 30.0,
            ejected_percent_max: 50,
        }
    }
}

impl Default for KeepalivePool {
    fn default() -> Self {
        Self { size: 320, idle_timeout: 60.0, requests: 1000 }
    }
}

/// What `chash` hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HashOn {
    /// A variable, `key` names it.
    #[default]
    Vars,
    /// A request header.
    Header,
    /// A cookie.
    Cookie,
    /// The authenticated consumer's name.
    Consumer,
    /// A template of variables.
    VarsCombinations,
}

/// The protocol spoken to the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheme {
    /// HTTP/1.1.
    #[default]
    Http,
    /// HTTP/1.1 over TLS.
    Https,
    /// HTTP/2 without TLS.
    Grpc,
    /// HTTP/2 over TLS.
    Grpcs,
    /// TCP (stream routes).
    Tcp,
    /// TLS (stream routes).
    Tls,
    /// UDP (stream routes).
    Udp,
    /// Kafka.
    Kafka,
}

impl Scheme {
    /// As written in configurations and in `$upstream_scheme`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Grpc => "grpc",
            Self::Grpcs => "grpcs",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Udp => "udp",
            Self::Kafka => "kafka",
        }
    }

    /// Whether requests of routes can be passed on by it.
    #[must_use]
    pub fn is_http(self) -> bool {
        matches!(self, Self::Http | Self::Https) || self.is_http2()
    }

    /// Whether it is HTTP/2.
    #[must_use]
    pub fn is_http2(self) -> bool {
        matches!(self, Self::Grpc | Self::Grpcs)
    }

    /// The port of a node that names none.
    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Self::Https | Self::Grpcs | Self::Tls => 443,
            _ => 80,
        }
    }
}

/// Which `Host` the nodes see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PassHost {
    /// The client's.
    #[default]
    Pass,
    /// The node's own name.
    Node,
    /// `upstream_host`.
    Rewrite,
}

/// Reads both forms of `nodes`.
fn nodes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Node>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        List(Vec<Node>),
        Map(serde_json::Map<String, Value>),
    }
    match Written::deserialize(deserializer)? {
        Written::List(list) => Ok(list.into_iter().map(Node::without_brackets).collect()),
        Written::Map(map) => map
            .into_iter()
            .map(|(address, weight)| {
                let weight = weight.as_u64().and_then(|w| u32::try_from(w).ok()).ok_or_else(|| {
                    serde::de::Error::custom(format!("weight of node {address} is not a number"))
                })?;
                let (host, port) = split_address(&address).ok_or_else(|| {
                    serde::de::Error::custom(format!("node {address} is not host or host:port"))
                })?;
                Ok(Node { host: host.to_owned(), port, weight, priority: 0 })
            })
            .collect(),
    }
}

impl Node {
    fn without_brackets(mut self) -> Self {
        if let Some(inner) = self.host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
            self.host = inner.to_owned();
        }
        self
    }
}

/// Splits `host`, `host:port`, `[v6]` and `[v6]:port`; `None` where the port is not one.
#[must_use]
fn split_address(address: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = address.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        return match after.strip_prefix(':') {
            Some(port) => Some((host, Some(port.parse().ok().filter(|p| *p != 0)?))),
            None => after.is_empty().then_some((host, None)),
        };
    }
    match address.split_once(':') {
        // More than one colon and no brackets: a bare IPv6 address.
        Some((_, rest)) if rest.contains(':') => Some((address, None)),
        Some((host, port)) => Some((host, Some(port.parse().ok().filter(|p| *p != 0)?))),
        None => Some((address, None)),
    }
}
