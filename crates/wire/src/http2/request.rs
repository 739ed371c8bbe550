//! Request heads.

use super::{add_fields, is_grpc, write_line};
use crate::{HeadError, RequestHead};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, COOKIE, HOST, HeaderValue, TE};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Request, Uri};

/// A head that can't be said in HTTP/2: a target or an authority that a URI can't have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unwritable;

/// Writes a request's head as HTTP/1.1 has it. `ends` says whether no body follows; otherwise it is chunked, or of the
/// length that the head says.
///
/// # Errors
/// What HTTP/2 lets in and HTTP/1.1 could not tell apart. The text is still to be parsed, which finds the rest.
pub fn write_request(parts: &Parts, ends: bool, out: &mut Vec<u8>) -> Result<(), HeadError> {
    if parts.method == Method::CONNECT {
        return Err(HeadError::Method);
    }
    let target = parts.uri.path_and_query().map_or("", PathAndQuery::as_str);
    // An absolute form would have an authority of its own.
    if !target.starts_with('/') && target != "*" {
        return Err(HeadError::Bad("invalid :path"));
    }
    out.extend_from_slice(parts.method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(target.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    if let Some(authority) = authority(parts)? {
        write_line(out, b"Host", authority);
    }
    let grpc = is_grpc(&parts.headers);
    let mut cookies = false;
    for (name, value) in &parts.headers {
        match *name {
            HOST => {}
            // Sent in pieces, so that they compress; HTTP/1.1 knows one line (RFC 9113 section 8.2.3).
            COOKIE => cookies = true,
            CONTENT_LENGTH if grpc && !ends => {}
            _ => write_line(out, name.as_str().as_bytes(), value.as_bytes()),
        }
    }
    if cookies {
        out.extend_from_slice(b"cookie: ");
        for (number, value) in parts.headers.get_all(COOKIE).iter().enumerate() {
            out.extend_from_slice(if number == 0 { b"" } else { b"; " });
            out.extend_from_slice(value.as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }
    if !ends && (grpc || !parts.headers.contains_key(CONTENT_LENGTH)) {
        out.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// `:authority`, which `Host` may stand for and must not contradict (RFC 9113 section 8.3.1).
fn authority(parts: &Parts) -> Result<Option<&[u8]>, HeadError> {
    let mut authority = parts.uri.authority().map(|authority| authority.as_str().as_bytes());
    for host in parts.headers.get_all(HOST) {
        match authority {
            Some(other) if !other.eq_ignore_ascii_case(host.as_bytes()) => {
                return Err(HeadError::Bad("Host differs from :authority"));
            }
            _ => authority = Some(authority.unwrap_or(host.as_bytes())),
        }
    }
    Ok(authority)
}

/// The request that `head`, parsed from `bytes`, is in HTTP/2. `secure` says whether it is sent encrypted.
///
/// # Errors
/// A target or a host that HTTP/2 can't say.
pub fn request_from(head: &RequestHead, bytes: &Bytes, secure: bool) -> Result<Request<()>, Unwritable> {
    let shared = |span: crate::Span| bytes.slice(span.start()..span.end());
    let mut uri = http::uri::Parts::default();
    uri.scheme = Some(if secure { Scheme::HTTPS } else { Scheme::HTTP });
    uri.authority = Some(Authority::from_maybe_shared(shared(head.authority)).map_err(|_| Unwritable)?);
    uri.path_and_query = Some(PathAndQuery::from_maybe_shared(shared(head.target)).map_err(|_| Unwritable)?);
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(head.method_token.get(bytes)).map_err(|_| Unwritable)?;
    *request.uri_mut() = Uri::from_parts(uri).map_err(|_| Unwritable)?;
    *request.version_mut() = http::Version::HTTP_2;
    add_fields(request.headers_mut(), &head.fields, bytes);
    // Trailers are passed on, and gRPC servers insist on hearing so.
    request.headers_mut().insert(TE, HeaderValue::from_static("trailers"));
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(uri: &str, fields: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    fn written(uri: &str, fields: &[(&str, &str)], ends: bool) -> Result<String, HeadError> {
        let mut out = Vec::new();
        write_request(&parts(uri, fields), ends, &mut out)?;
        Ok(String::from_utf8(out).expect("text"))
    }

    #[test]
    fn heads_are_written_as_http1_has_them() {
        for (uri, fields, ends, expected) in [
            ("http://a.com/x?y", &[][..], true, "GET /x?y HTTP/1.1\r\nHost: a.com\r\n\r\n"),
            ("http://a.com", &[("host", "A.com")], true, "GET / HTTP/1.1\r\nHost: a.com\r\n\r\n"),
            ("/", &[("host", "b")], true, "GET / HTTP/1.1\r\nHost: b\r\n\r\n"),
            (
                "http://a/",
                &[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2")],
                true,
                "GET / HTTP/1.1\r\nHost: a\r\nx: y\r\ncookie: a=1; b=2\r\n\r\n",
            ),
            ("http://a/", &[], false, "GET / HTTP/1.1\r\nHost: a\r\ntransfer-encoding: chunked\r\n\r\n"),
            (
                "http://a/",
                &[("content-length", "3")],
                false,
                "GET / HTTP/1.1\r\nHost: a\r\ncontent-length: 3\r\n\r\n",
            ),
            (
                "http://a/",
                &[("content-length", "3"), ("content-type", "application/grpc")],
                false,
                "GET / HTTP/1.1\r\nHost: a\r\ncontent-type: application/grpc\r\ntransfer-encoding: chunked\r\n\r\n",
            ),
        ] {
            assert_eq!(written(uri, fields, ends).as_deref(), Ok(expected), "{uri}");
        }
    }

    #[test]
    fn what_would_be_ambiguous_is_refused() {
        let other = [("host", "b")];
        assert_eq!(written("http://a/", &other, true), Err(HeadError::Bad("Host differs from :authority")));
        let twice = [("host", "a"), ("host", "b")];
        assert_eq!(written("/", &twice, true), Err(HeadError::Bad("Host differs from :authority")));
        let mut tunnel = parts("http://a/", &[]);
        tunnel.method = Method::CONNECT;
        assert_eq!(write_request(&tunnel, true, &mut Vec::new()), Err(HeadError::Method));
    }

    /// The limits for clients were applied before the gateway and its plugins added their own fields.
    #[test]
    fn a_head_of_the_gateways_own_may_be_longer_than_a_clients() {
        let long = format!("x: {}\r\n", "y".repeat(9000));
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{}{}\r\n", long.repeat(4), "z: 1\r\n".repeat(130));
        let bytes = Bytes::from(text);
        let mut head = RequestHead::default();
        assert!(head.parse(&bytes).is_err());
        assert_eq!(head.parse_own(&bytes[..30_000]), Ok(false));
        assert_eq!(head.parse_own(&bytes), Ok(true));
        assert_eq!(request_from(&head, &bytes, true).expect("writable").headers().len(), 4 + 130 + 1);
    }

    #[test]
    fn a_head_goes_to_an_upstream_without_its_connections_fields() {
        let text =
            b"POST /a.B/C?x HTTP/1.1\r\nHost: h:1\r\nX-A: 1\r\nx-a: 2\r\nTransfer-Encoding: chunked\r\n\
            Connection: close\r\nTE: x\r\n\r\n";
        let bytes = Bytes::from_static(text);
        let mut head = RequestHead::default();
        assert_eq!(head.parse(&bytes), Ok(true));
        let request = request_from(&head, &bytes, true).expect("writable");
        assert_eq!(request.uri(), "https://h:1/a.B/C?x");
        let fields: Vec<_> = request.headers().iter().map(|(n, v)| (n.as_str(), v.as_bytes())).collect();
        assert_eq!(fields, [("x-a", &b"1"[..]), ("x-a", b"2"), ("te", b"trailers")]);
    }
}
