//! Why an exchange failed, whose fault it was, and whether another node may be tried.

use crate::transport::StreamError;
use plugin::Reply;
use rustix::io::Errno;
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
    /// The upstream has not processed the request, and says so (HTTP/2): it may be sent again whatever its method.
    Refused,
    /// The upstream ended the request alone, after it had begun to process it (HTTP/2).
    Reset,
    /// The peer sent what no parser may accept.
    Protocol,
    /// The body is longer than the configuration allows.
    TooLarge,
    /// The worker holds as much of requests' bodies as it may.
    NoRoom,
    /// No node is left to ask.
    NoNode,
    /// A plugin has the request sent to another node.
    Declined,
    /// A node's name is not known to the resolver.
    Name,
    /// A plugin's filter failed on a body, or took too long; with the status that the client gets.
    Plugin(u16),
}

/// Whose side of the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Upstream,
    /// The gateway itself: one of its plugins.
    Gateway,
}

impl ProxyError {
    pub(crate) fn new(side: Side, kind: ErrorKind, reason: &'static str) -> Self {
        Self { kind, side, retry: false, reason }
    }

    /// An I/O error on one side.
    pub(crate) fn io(side: Side, error: &io::Error) -> Self {
        match StreamError::of(error) {
            Some(StreamError::Malformed(why)) => return Self::new(side, ErrorKind::Protocol, why),
            Some(error) if side == Side::Upstream => return Self::stream(error),
            _ => {}
        }
        let reason = match error.kind() {
            // Not the kernel's ENOMEM.
            io::ErrorKind::OutOfMemory if error.raw_os_error().is_none() => {
                return Self::new(side, ErrorKind::NoRoom, "the worker holds too much of requests' bodies");
            }
            io::ErrorKind::TimedOut => return Self::new(side, ErrorKind::Timeout, "timed out"),
            io::ErrorKind::ConnectionRefused => "connection refused",
            io::ErrorKind::ConnectionReset => "connection reset by peer",
            io::ErrorKind::BrokenPipe => "connection closed by peer",
            io::ErrorKind::UnexpectedEof => "connection ended early",
            _ => by_code(error),
        };
        Self::new(side, ErrorKind::Connection, reason)
    }

    /// The end of a stream to an upstream.
    fn stream(error: StreamError) -> Self {
        let refused = "upstream refused the request unprocessed (REFUSED_STREAM or GOAWAY)";
        match error {
            StreamError::Refused => Self::new(Side::Upstream, ErrorKind::Refused, refused).retriable(),
            StreamError::Reset => {
                Self::new(Side::Upstream, ErrorKind::Reset, "stream reset by upstream (RST_STREAM)")
            }
            StreamError::Malformed(why) => Self::new(Side::Upstream, ErrorKind::Protocol, why),
        }
    }

    /// The same error, worth another node.
    pub(crate) fn retriable(mut self) -> Self {
        self.retry = true;
        self
    }

    /// The answer that tells the client.
    pub(crate) fn reply(self) -> Reply {
        let reply = Reply::status(self.status());
        // The bodies that are held now are sent on, or time out.
        if self.kind == ErrorKind::NoRoom { reply.with_header("Retry-After", "1") } else { reply }
    }

    /// The status that tells the client; for the log alone where the client is gone (nginx's 499).
    pub(crate) fn status(self) -> u16 {
        match (self.side, self.kind) {
            (_, ErrorKind::Plugin(status)) => status,
            (_, ErrorKind::TooLarge) => 413,
            (_, ErrorKind::NoRoom) => 503,
            (Side::Client, ErrorKind::Timeout) => 408,
            (Side::Client, ErrorKind::Protocol) => 400,
            (Side::Client, _) => 499,
            (Side::Gateway, _) => 500,
            (Side::Upstream, ErrorKind::Timeout) => 504,
            (
                Side::Upstream,
                ErrorKind::Connection | ErrorKind::Refused | ErrorKind::Reset | ErrorKind::Protocol,
            ) => 502,
            (Side::Upstream, ErrorKind::NoNode | ErrorKind::Declined | ErrorKind::Name) => 503,
        }
    }
}

/// What an error of the operating system means: which of them is for the operator to repair is in the words.
#[cold]
fn by_code(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE) => "too many open files in the process (EMFILE): raise worker_rlimit_nofile",
        Some(Errno::NFILE) => "too many open files in the system (ENFILE): raise fs.file-max",
        Some(Errno::ADDRNOTAVAIL) => {
            "no local port left (EADDRNOTAVAIL): use keepalive_pool, or widen net.ipv4.ip_local_port_range"
        }
        Some(Errno::NETUNREACH) => "network unreachable (ENETUNREACH): no route to the address",
        Some(Errno::HOSTUNREACH) => "host unreachable (EHOSTUNREACH)",
        Some(Errno::NETDOWN) => "network down (ENETDOWN)",
        Some(Errno::NOBUFS | Errno::NOMEM) => "out of memory for sockets (ENOBUFS)",
        Some(Errno::ACCESS | Errno::PERM) => "not permitted (EACCES): a firewall rejects the connection",
        _ => match error.kind() {
            io::ErrorKind::InvalidData => "invalid data",
            _ => "connection failed",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_operating_system_are_told_apart() {
        for (errno, word) in [
            (Errno::MFILE, "EMFILE"),
            (Errno::NFILE, "ENFILE"),
            (Errno::ADDRNOTAVAIL, "EADDRNOTAVAIL"),
            (Errno::NETUNREACH, "ENETUNREACH"),
            (Errno::HOSTUNREACH, "EHOSTUNREACH"),
            (Errno::CONNREFUSED, "connection refused"),
            (Errno::CONNRESET, "connection reset by peer"),
            (Errno::PIPE, "connection closed by peer"),
        ] {
            let error = ProxyError::io(Side::Upstream, &errno.into());
            assert!(error.reason.contains(word), "{errno:?}: {}", error.reason);
            assert_eq!((error.kind, error.status()), (ErrorKind::Connection, 502));
        }
        assert_eq!(ProxyError::io(Side::Upstream, &Errno::TIMEDOUT.into()).status(), 504);
    }
}
