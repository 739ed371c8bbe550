//! An upstream, compiled.

use balance::Algorithm;
use model::resource::{PassHost, Scheme};
use model::var::{Template, Var};
use std::net::IpAddr;
use std::time::Duration;

/// An upstream, compiled. Immutable: a change makes another one.
#[derive(Debug)]
pub struct Upstream {
    /// Names this content: no two different upstreams of one process share it, and an upstream whose content did not
    /// change keeps it. The key of per-worker balancer state.
    pub uid: u64,
    /// The nodes, in the order written.
    pub nodes: Vec<Node>,
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
    /// How many further nodes are tried after a failure.
    pub retries: u32,
    /// No further node is tried after this long; `None`: no limit.
    pub retry_timeout: Option<Duration>,
    /// Timeouts, unless the route has its own.
    pub timeouts: Timeouts,
    /// Idle connections to keep; `None`: the gateway-wide setting.
    pub keepalive: Option<Keepalive>,
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
}

/// Where a node is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NodeHost {
    /// At an address.
    Ip(IpAddr),
    /// At the addresses of a name, resolved at run time.
    Name(String),
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
