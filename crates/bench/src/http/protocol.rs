//! Which protocol is spoken.

/// The protocol spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1
    Http1,
    /// HTTP/2, by ALPN over TLS and by prior knowledge without.
    Http2,
}
