//! The PROXY protocol, versions 1 and 2: how a proxy tells the next server whose connection it passes on.
//!
//! The header stands before the first byte of the connection proper, in the clear even where TLS follows. It is read as
//! strictly as its specification has it written: what is only nearly a header is none, since whoever sends it decides
//! what address is believed.

mod v1;
mod v2;

use std::net::{IpAddr, SocketAddr};

/// The longest header taken: version 2 with extensions (a certificate's names, say), as much as nginx takes. One of
/// version 1 has 107 bytes at most.
pub const HEADER_MAX: usize = 4096;

/// The two ends of a connection, of one address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// Who opened it.
    pub source: SocketAddr,
    /// Where it was accepted.
    pub destination: SocketAddr,
}

/// How a header is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// As a line of text.
    V1,
    /// In binary.
    V2,
}

/// A header that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Its bytes; the connection proper begins behind them.
    pub length: usize,
    /// The ends of the client's connection; `None` where the proxy speaks for itself or doesn't know them.
    pub ends: Option<Ends>,
}

/// Why there is no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderError {
    /// The connection begins otherwise.
    Missing,
    /// It begins like one and is none.
    Malformed,
    /// It has more than [`HEADER_MAX`] bytes.
    TooLong,
}

impl HeaderError {
    /// For the log.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Missing => "the connection does not begin with a PROXY protocol header",
            Self::Malformed => "the PROXY protocol header is malformed",
            Self::TooLong => "the PROXY protocol header is too long",
        }
    }
}

impl Header {
    /// Reads the header at the start of `bytes`; `None` where it is not complete yet, and then every byte belongs to it.
    ///
    /// # Errors
    /// As soon as no further byte can make it a header.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, HeaderError> {
        match bytes.first() {
            None => Ok(None),
            Some(b'P') => v1::parse(bytes),
            Some(_) => v2::parse(bytes),
        }
    }
}

impl Ends {
    /// Appends a header.
    pub fn write(&self, version: Version, out: &mut Vec<u8>) {
        match version {
            Version::V1 => v1::write(&self.of_one_family(), out),
            Version::V2 => v2::write(&self.of_one_family(), out),
        }
    }

    /// The same ends, an IPv4 address beside an IPv6 one mapped into IPv6.
    fn of_one_family(&self) -> Self {
        if self.source.is_ipv4() == self.destination.is_ipv4() {
            return *self;
        }
        let mapped = |end: SocketAddr| match end.ip() {
            IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), end.port()),
            IpAddr::V6(_) => end,
        };
        Self { source: mapped(self.source), destination: mapped(self.destination) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_two_families_are_written_as_one() {
        let ends = Ends {
            source: "192.0.2.1:1000".parse().unwrap(),
            destination: "[2001:db8::1]:443".parse().unwrap(),
        };
        let mut text = Vec::new();
        ends.write(Version::V1, &mut text);
        assert_eq!(text, b"PROXY TCP6 ::ffff:192.0.2.1 2001:db8::1 1000 443\r\n");
    }
}
