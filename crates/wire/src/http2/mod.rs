//! HTTP/2's messages (RFC 9113 section 8) in the form of HTTP/1.1 and back.
//!
//! Frames, streams and windows are the `h2` crate's affair. What is here is the meaning of heads and trailers: what
//! comes as HTTP/2 is written as the HTTP/1.1 head that says the same, and then read by the one parser there is, so
//! that every check of it holds for both. What leaves as HTTP/2 is taken from a parsed HTTP/1.1 head.

mod request;
mod response;
mod trailers;

pub use request::{Unwritable, request_from, write_request};
pub use response::{response_from, write_response};
pub use trailers::{trailers_from, write_trailers};

use crate::{Field, Known};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

/// What a client that speaks HTTP/2 without further ado sends first (RFC 9113 section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Whether the first bytes of a connection, a line end among them, are those of an HTTP/2 client.
#[must_use]
pub fn is_preface(bytes: &[u8]) -> bool {
    const LINE: usize = b"PRI * HTTP/2.0\r\n".len();
    bytes.len() >= LINE && bytes.iter().zip(PREFACE).all(|(byte, expected)| byte == expected)
}

/// Whether a message is gRPC's. Its end is told by its trailers, whatever a `Content-Length` says.
fn is_grpc(fields: &HeaderMap) -> bool {
    fields.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// Adds fields to a message that leaves as HTTP/2; those of an HTTP/1.1 connection are left out (RFC 9113 section
/// 8.2.2). What can't be a field there is left out as well.
fn add_fields(map: &mut HeaderMap, fields: &[Field], bytes: &Bytes) {
    map.reserve(fields.len());
    for field in fields {
        if matches!(
            field.known,
            Known::Host
                | Known::Connection
                | Known::KeepAlive
                | Known::ProxyConnection
                | Known::TransferEncoding
                | Known::Upgrade
                | Known::Te
        ) {
            continue;
        }
        let value = bytes.slice(field.value.start()..field.value.end());
        let name = HeaderName::from_bytes(field.name.get(bytes));
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_maybe_shared(value)) {
            map.append(name, value);
        }
    }
}

/// Writes `name: value` and a line end.
fn write_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preface_is_told_by_its_first_line() {
        assert!(is_preface(PREFACE));
        assert!(is_preface(&[PREFACE, b"more"].concat()));
        assert!(is_preface(b"PRI * HTTP/2.0\r\n"));
        assert!(!is_preface(b"PRI * HTTP/2.0\r\nHost: a\r\n\r\n"));
        assert!(!is_preface(b"GET / HTTP/2.0\r\n\r\n"));
        assert!(!is_preface(b"PRI"));
    }
}
