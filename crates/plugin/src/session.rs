//! One client's bytes on a stream route: a TCP connection, or the datagrams that one address sends to one port.

use crate::var_text::{number, seconds, ssl_var, text};
use crate::{Client, Extensions, Extras, Gateway, RouteInfo, UpstreamTrace};
use model::var::{Var, VarSource};
use observe::access_log::{LogHeader, LogSource, UpstreamFields};
use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;
use stdx::{Moment, WorkerToken};

/// What hooks see of a session. Made by the engine; lives as long as the session.
#[derive(Debug)]
pub struct Session<'a> {
    /// The client; the one behind a proxy, where that is believed.
    pub client: &'a Client,
    /// What carries it.
    pub transport: Transport,
    /// The address that is listened on, as configured: `0.0.0.0:9100`.
    pub listener: SocketAddr,
    /// The process it runs in.
    pub gateway: &'a Gateway,
    /// The worker it runs on: the key to per-worker state.
    pub worker: &'a WorkerToken,
    /// The route that matched.
    pub route: Option<&'a RouteInfo>,
    /// The upstream's part so far.
    pub upstream: UpstreamTrace,
    /// Bytes both ways.
    pub traffic: Traffic,
    /// When it began.
    pub started: Moment,
    /// How long it took; zero before its end.
    pub total: Duration,
    /// How it ended, in nginx's numbers: 200, 403, 502 and so on; 0 before its end.
    pub status: u16,
    /// Variables that plugins set: `(name, value)`.
    pub vars: Vec<(&'static str, Vec<u8>)>,
    /// Where it goes instead of the route's upstream, and what plugins note.
    pub extras: Extras,
}

/// What carries a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A TCP connection.
    Tcp,
    /// Datagrams.
    Udp,
}

/// Bytes of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// From the client.
    pub received: u64,
    /// To the client.
    pub sent: u64,
    /// From the upstream.
    pub upstream_received: u64,
    /// To the upstream.
    pub upstream_sent: u64,
}

impl Transport {
    /// `$protocol`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }
}

impl<'a> Session<'a> {
    /// A session that begins now.
    #[must_use]
    pub fn new(
        client: &'a Client,
        transport: Transport,
        listener: SocketAddr,
        gateway: &'a Gateway,
        worker: &'a WorkerToken,
    ) -> Self {
        let started = Moment::now();
        Self {
            client,
            transport,
            listener,
            gateway,
            worker,
            route: None,
            upstream: UpstreamTrace::new(started),
            traffic: Traffic::default(),
            started,
            total: Duration::ZERO,
            status: 0,
            vars: Vec::new(),
            extras: Extras::default(),
        }
    }
}

impl Session<'_> {
    /// The values that plugins share, to be changed.
    pub fn extensions(&mut self) -> &mut Extensions {
        &mut self.extras.extensions
    }

    /// The shared value of type `T`.
    #[must_use]
    pub fn extension<T: 'static>(&self) -> Option<&T> {
        self.extras.extensions.get()
    }
}

impl VarSource for Session<'_> {
    fn var(&self, var: &Var) -> Option<Cow<'_, [u8]>> {
        match var {
            Var::RemoteAddr => text(&self.client.ip_text),
            Var::RemotePort => Some(number(u64::from(self.client.addr.port()))),
            Var::ServerAddr => Some(Cow::Owned(self.client.local.ip().to_string().into_bytes())),
            Var::ServerPort => Some(number(u64::from(self.client.local.port()))),
            Var::Ssl(var) => ssl_var(*var, self.client.tls.as_deref()?),
            Var::Connection => Some(number(self.client.serial)),
            Var::Status => (self.status != 0).then(|| number(u64::from(self.status))),
            Var::BytesSent => Some(number(self.traffic.sent)),
            Var::Hostname => text(&self.gateway.hostname),
            Var::Pid => Some(number(u64::from(self.gateway.pid))),
            Var::Custom(name) => self.own_var(name),
            _ => self.upstream.var(var).or_else(|| self.route?.var(var)),
        }
    }
}

impl Session<'_> {
    /// nginx's variables that only streams have, and what plugins have set.
    fn own_var(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        match name {
            "protocol" => text(self.transport.as_str()),
            "session_time" => Some(seconds(self.total)),
            "bytes_received" => Some(number(self.traffic.received)),
            "upstream_bytes_sent" => Some(number(self.traffic.upstream_sent)),
            "upstream_bytes_received" => Some(number(self.traffic.upstream_received)),
            "upstream_connect_time" => self.upstream.time.map(seconds),
            _ => {
                let set = self.vars.iter().rev().find(|(set, _)| *set == name);
                set.map(|(_, value)| Cow::Borrowed(value.as_slice()))
            }
        }
    }
}

/// What the access log asks of a session; what only requests have is absent.
impl LogSource for Session<'_> {
    fn remote_addr(&self) -> &[u8] {
        self.client.ip_text.as_bytes()
    }

    fn request_line(&self) -> [&[u8]; 3] {
        [b"", b"", b""]
    }

    fn request_id(&self) -> Option<u128> {
        None
    }

    fn status(&self) -> u16 {
        self.status
    }

    fn bytes_sent(&self) -> u64 {
        self.traffic.sent
    }

    fn body_bytes_sent(&self) -> u64 {
        self.traffic.sent
    }

    fn request_length(&self) -> u64 {
        self.traffic.received
    }

    fn request_time(&self) -> Duration {
        self.total
    }

    fn header(&self, _: LogHeader) -> Option<&[u8]> {
        None
    }

    fn upstream(&self) -> UpstreamFields<'_> {
        UpstreamFields {
            addr: self.upstream.addr().as_bytes(),
            scheme: self.upstream.scheme.as_bytes(),
            ..UpstreamFields::default()
        }
    }
}
