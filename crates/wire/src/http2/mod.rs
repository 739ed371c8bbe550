//! HTTP/2's messages (RFC 9113 section 8) in the vocabulary of all versions.
//!
//! Frames, streams and windows are the `h2` crate's affair. What is here is the meaning of heads and trailers. A head that
//! comes is read into the same ranges that HTTP/1.1's parser finds, with the same checks; one that leaves is written by
//! the serializer that writes HTTP/1.1's, into a [`FieldSection`].

mod frames;
mod page;
mod request;
mod response;
mod section;
mod trailers;

pub use frames::{FrameHead, FrameScanner, PREFACE};
pub use request::read_request;
pub use response::read_response;
pub use section::{FieldSection, RequestSection, Unwritable};
pub use trailers::{read_trailers, trailers_from};

use crate::Method;
use http::header::{CONTENT_TYPE, HeaderMap};

/// What a client begins to speak on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// HTTP/1, well formed or not.
    Http1,
    /// HTTP/2, without further ado (RFC 9113 section 3.4): the preface's first line. What follows it is for the codec
    /// of HTTP/2 to check.
    Http2,
    /// Neither. Where both are spoken this is an invalid preface, which is not answered.
    Neither,
}

impl Opening {
    /// Tells it by the first bytes of the connection, a line among them that was not accepted as HTTP/1.1's. HTTP/1 is
    /// what appears to be it by a method that is known or by its version (RFC 9112 section 2.2): a client that only
    /// misspells it is told so.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        if bytes.starts_with(b"PRI * HTTP/2.0\r\n") {
            return Self::Http2;
        }
        let mut lines = bytes.trim_ascii_start().split(|byte| *byte == b'\n');
        let line = lines.next().unwrap_or_default();
        let mut words = line.split(u8::is_ascii_whitespace);
        let knows_method = words.next().is_some_and(|word| Method::from_token(word) != Method::Other);
        let names_version = words.any(|word| word.starts_with(b"HTTP/"));
        if knows_method || names_version { Self::Http1 } else { Self::Neither }
    }
}

/// Whether a message is gRPC's. Its end is told by its trailers, whatever a `Content-Length` says.
fn is_grpc(fields: &HeaderMap) -> bool {
    fields.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_told_by_its_first_line() {
        for (bytes, expected) in [
            (&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], Opening::Http2),
            (b"PRI * HTTP/2.0\r\n", Opening::Http2),
            (b"PRI * HTTP/2.0\r\nHost: a\r\n\r\n", Opening::Http2),
            (b"PRI * HTTP/1.1\r\n", Opening::Http1),
            (b"GET / HTTP/2.0\r\n\r\n", Opening::Http1),
            (b"GET /\r\n", Opening::Http1),
            (b"\r\n\r\nGET / HTTP/1.1\r\n", Opening::Http1),
            (b"BREW /a b HTTP/1.1\r\n", Opening::Http1),
            (b"INVALID CONNECTION PREFACE\r\n\r\n", Opening::Neither),
            (b"BREW /pot\r\nHTTP/1.1\r\n", Opening::Neither),
            (b"\x16\x03\x01\x02\0\x01\n", Opening::Neither),
            (b"\n", Opening::Neither),
        ] {
            assert_eq!(Opening::of(bytes), expected, "{}", bytes.escape_ascii());
        }
    }
}
