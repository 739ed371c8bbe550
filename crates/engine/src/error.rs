//! Why an exchange failed, whose fault it was, and whether another node may be tried.

use std::io;

/// A failed exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProxyError {
    pub(crate) kind: ErrorKind,
    pub(crate) side: Side,
    /// Whether the request may be sent again: nothing came back, and sending it twice does no harm.
    pub(crate) retry: bool,
    /// For the log.
    pub(crate) reason: &'static str,
}

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// The peer was not heard of in time.
    Timeout,
    /// The connection could not be made, or ended.
    Connection,
    /// The peer sent what no parser may accept.
    Protocol,
    /// The body is longer than the configuration allows.
    TooLarge,
    /// No node is left to ask.
    NoNode,
    /// A node's name is not known to the resolver.
    Name,
}

/// Whose side of the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Upstream,
}

impl ProxyError {
    pub(crate) fn new(side: Side, kind: ErrorKind, reason: &'static str) -> Self {
        Self { kind, side, retry: false, reason }
    }

    /// An I/O error on one side.
    pub(crate) fn io(side: Side, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut => Self::new(side, ErrorKind::Timeout, "timed out"),
            io::ErrorKind::ConnectionRefused => Self::new(side, ErrorKind::Connection, "connection refused"),
            io::ErrorKind::ConnectionReset => {
                Self::new(side, ErrorKind::Connection, "connection reset by peer")
            }
            io::ErrorKind::BrokenPipe => Self::new(side, ErrorKind::Connection, "connection closed by peer"),
            io::ErrorKind::UnexpectedEof => Self::new(side, ErrorKind::Connection, "connection ended early"),
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                Self::new(side, ErrorKind::Connection, "unreachable")
            }
            _ => Self::new(side, ErrorKind::Connection, "connection failed"),
        }
    }

    /// The same error, worth another node.
    pub(crate) fn retriable(mut self) -> Self {
        self.retry = true;
        self
    }

    /// The status that tells the client; for the log alone where the client is gone (nginx's 499).
    pub(crate) fn status(self) -> u16 {
        match (self.side, self.kind) {
            (_, ErrorKind::TooLarge) => 413,
            (Side::Client, ErrorKind::Timeout) => 408,
            (Side::Client, ErrorKind::Protocol) => 400,
            (Side::Client, _) => 499,
            (Side::Upstream, ErrorKind::Timeout) => 504,
            (Side::Upstream, ErrorKind::Connection | ErrorKind::Protocol) => 502,
            (Side::Upstream, ErrorKind::NoNode | ErrorKind::Name) => 503,
        }
    }
}
