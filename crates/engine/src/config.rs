//! What the engine is told at start and at a reload. Everything is resolved: nothing here is parsed again.

use crate::RealIp;
use discovery::names::Asking;
use ipnet::IpNet;
use observe::AccessLog;
use plugin::{BodyLimits, Gateway, PathRules, Reply};
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use wire::proxy_protocol::Version;

/// The engine's settings.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Addresses to serve.
    pub listen: Vec<Listen>,
    /// Workers, each a thread with an event loop of its own; at least 1. Fixed at the start.
    pub workers: usize,
    /// Whether a worker that panics ends the process instead of being replaced.
    pub exit_on_panic: bool,
    /// Open client connections per worker; at most what RLIMIT_NOFILE allows (`capacity.rs`). For further ones idle ones
    /// are closed, or they wait.
    pub worker_connections: usize,
    /// Cores that workers are pinned to in turn; empty: the kernel places them. Fixed at the start.
    pub cores: Vec<usize>,
    /// How the names of nodes are resolved. Fixed at the start.
    pub names: Asking,
    /// Limits on clients.
    pub client: ClientLimits,
    /// Idle connections to upstreams, unless an upstream has its own setting.
    pub keepalive: snapshot::Keepalive,
    /// The `Server` field: name and version, or the name alone.
    pub server: String,
    /// Whether `X-APISIX-Upstream-Status` is always sent, rather than for 5xx only.
    pub show_upstream_status: bool,
    /// Peers whose `X-Forwarded-*` and `Forwarded` are believed. Where there are any, `X-Forwarded-For` of others is
    /// withdrawn too.
    pub trusted_addresses: Vec<IpNet>,
    /// Whether request fields with an underscore in their name are dropped, as by nginx's `underscores_in_headers off`.
    pub drops_underscores: bool,
    /// Which proxies say who their client is.
    pub real_ip: RealIp,
    /// What becomes of a request's path before routes are matched.
    pub paths: PathRules,
    /// How much of a body is read ahead where conditions look at it.
    pub body_vars: BodyLimits,
    /// Whether HTTP/2 is spoken with clients that ask for it.
    pub http2: bool,
    /// What TLS is spoken with clients; `None` where no address asks for it.
    pub tls: Option<Arc<tls::Server>>,
    /// What TLS is spoken with upstreams.
    pub upstream_tls: Arc<tls::Upstreams>,
    /// What is the same for every request.
    pub gateway: Gateway,
    /// An API served on the data port.
    pub mount: Option<Mount>,
    /// Where exchanges are recorded; `None`: nowhere.
    pub access_log: Option<Arc<AccessLog>>,
    /// What holds for sessions of stream routes.
    pub streams: Streams,
}

impl EngineConfig {
    /// Whether the `X-Forwarded-*` of a peer at `address` are believed.
    pub(crate) fn trusts(&self, address: IpAddr) -> bool {
        self.trusted_addresses.iter().any(|net| net.contains(&address))
    }
}

/// An address to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    /// The address; port 0 lets the kernel choose.
    pub address: SocketAddr,
    /// Whether to do without it where it can't be had: IPv6 on a machine that has none.
    pub optional: bool,
    /// Whether its connections are encrypted.
    pub tls: bool,
    /// Whether its connections begin with a PROXY protocol header.
    pub proxy_protocol: bool,
    /// What is served there.
    pub serves: Serves,
}

impl Listen {
    /// What is served there, for the log.
    pub(crate) fn what(&self) -> &'static str {
        match (self.serves, self.tls) {
            (Serves::Http, false) => "HTTP",
            (Serves::Http, true) => "HTTPS",
            (Serves::Tcp { .. }, false) => "TCP streams",
            (Serves::Tcp { .. }, true) => "TLS streams",
            (Serves::Udp, _) => "UDP streams",
        }
    }
}

/// What an address serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serves {
    /// Requests.
    Http,
    /// TCP sessions of stream routes.
    Tcp {
        /// The PROXY protocol header by which their upstreams are told of the client; `None`: they aren't.
        proxy_protocol_to_upstream: Option<Version>,
    },
    /// UDP sessions of stream routes.
    Udp,
}

/// What holds for sessions of stream routes.
#[derive(Debug, Clone, Default)]
pub struct Streams {
    /// What TLS is spoken with clients. Not HTTP's: no protocol is offered by ALPN.
    pub tls: Option<Arc<tls::Server>>,
    /// Peers whose PROXY protocol headers are believed.
    pub real_ip_from: Vec<IpNet>,
    /// Where sessions are recorded; `None`: nowhere.
    pub access_log: Option<Arc<AccessLog>>,
}

/// Limits on clients.
#[derive(Debug, Clone, Copy)]
pub struct ClientLimits {
    /// How long an idle connection is kept; zero closes it after each response.
    pub keepalive_timeout: Duration,
    /// Requests per connection.
    pub keepalive_requests: u64,
    /// To complete a TLS handshake.
    pub handshake_timeout: Duration,
    /// To receive a whole head: the first of a connection from the connection's start, a later one from its first byte.
    pub header_timeout: Duration,
    /// Between two successive reads of a body.
    pub body_timeout: Duration,
    /// Between two successive writes.
    pub send_timeout: Duration,
    /// Largest request body; 0: no limit.
    pub max_body_bytes: u64,
}

/// An API that the process itself answers on the data port: the Admin API in the quick start.
#[derive(Clone)]
pub struct Mount {
    /// Paths that belong to it start with this.
    pub prefix: String,
    /// Whether it answers loopback peers only; others see 404.
    pub loopback_only: bool,
    /// Largest request body.
    pub max_body_bytes: usize,
    /// Answers.
    pub handler: Arc<dyn MountHandler>,
}

/// Answers the requests of a [`Mount`], away from the workers.
pub trait MountHandler: Send + Sync {
    /// Answers one request. The future runs on a worker's event loop, so it must not block.
    fn handle(&self, request: MountRequest) -> Pin<Box<dyn Future<Output = Reply> + Send>>;
}

/// A request to a [`Mount`].
#[derive(Debug, Clone)]
pub struct MountRequest {
    /// The method's token.
    pub method: String,
    /// The path, normalised.
    pub path: String,
    /// The query without its `?`.
    pub query: String,
    /// Header fields in the order sent. An authority of the target that differs from `Host` is there as another `host`.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub body: Vec<u8>,
    /// The client's address.
    pub peer: IpAddr,
}

impl std::fmt::Debug for Mount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mount").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
