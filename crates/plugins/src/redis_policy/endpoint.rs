//! Where a server is, and how it is spoken to.

use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;
use stdx::Secret;

/// A server's host, an IP address or a name, and its port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Address {
    pub(super) host: Box<str>,
    pub(super) port: u16,
}

/// How a server is spoken to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Access {
    /// `None`: in the clear; else whether the certificate must be valid for the host.
    pub(super) tls: Option<bool>,
    pub(super) username: Option<String>,
    /// Empty where the server asks for none.
    pub(super) password: Secret,
    pub(super) database: u64,
    pub(super) timeouts: Timeouts,
}

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Timeouts {
    /// Until a connection is ready for commands: TCP, TLS, authentication, database.
    pub(super) connect: Duration,
    /// From a command to its reply.
    pub(super) reply: Duration,
    /// How long a connection may idle; it is closed after that, before twice as long.
    pub(super) idle: Duration,
}

impl Timeouts {
    /// The same time to connect and to reply. Times are in milliseconds.
    pub(super) fn of(timeout: u64, idle: u64) -> Self {
        let timeout = Duration::from_millis(timeout);
        Self { connect: timeout, reply: timeout, idle: Duration::from_millis(idle) }
    }

    /// The longest that an operation may take, with all redirections and second attempts.
    pub(super) fn whole(self) -> Duration {
        self.connect.saturating_add(self.reply)
    }
}

/// One server. Connections to equal endpoints are shared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Endpoint {
    pub(super) address: Address,
    pub(super) access: Access,
}

impl Address {
    /// Reads `host:port`; IPv6 with or without brackets.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().ok().filter(|port| *port > 0)?;
        (!host.is_empty()).then(|| Self { host: host.into(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl Endpoint {
    /// The endpoint as an upstream of one node.
    pub(super) fn upstream(&self) -> Value {
        let Self { address, access } = self;
        json!({
            "type": "roundrobin",
            "scheme": if access.tls.is_some() { "tls" } else { "tcp" },
            "pass_host": "node",
            "nodes": [{ "host": &*address.host, "port": address.port, "weight": 1 }],
            "retries": 0,
            "tls": { "verify": access.tls.unwrap_or_default() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        for (text, expected) in [
            ("127.0.0.1:6379", Some("127.0.0.1:6379")),
            ("redis-0.redis:7000", Some("redis-0.redis:7000")),
            ("[::1]:6379", Some("[::1]:6379")),
            ("::1:6379", Some("[::1]:6379")),
            ("redis", None),
            ("redis:", None),
            ("redis:0", None),
            ("redis:70000", None),
            (":6379", None),
        ] {
            let read = Address::parse(text).map(|address| address.to_string());
            assert_eq!(read.as_deref(), expected, "{text}");
        }
    }
}
