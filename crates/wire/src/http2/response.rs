//! Response heads.

use super::{add_fields, is_grpc, write_line};
use crate::http1::push_decimal;
use crate::{BodyLength, ResponseHead};
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::response::Parts;
use http::{Response, StatusCode};

/// The response that `head`, parsed from `bytes`, is in HTTP/2.
#[must_use]
pub fn response_from(head: &ResponseHead, bytes: &Bytes) -> Response<()> {
    let mut response = Response::new(());
    // Parsed statuses are in 100..=999.
    *response.status_mut() = StatusCode::from_u16(head.status).unwrap_or(StatusCode::BAD_GATEWAY);
    *response.version_mut() = http::Version::HTTP_2;
    let fields = response.headers_mut();
    add_fields(fields, &head.fields, bytes);
    // A gRPC answer of a head alone has no length: it ends with the head.
    if head.body == BodyLength::None && head.content_length == Some(0) && fields.contains_key("grpc-status") {
        fields.remove(CONTENT_LENGTH);
    }
    response
}

/// Writes a response's head as HTTP/1.1 has it. `ends` says whether no body follows, `bodiless` whether none could: the
/// answer to a HEAD. A body is of the length that the head says, or chunked: then `true` is returned.
pub fn write_response(parts: &Parts, ends: bool, bodiless: bool, out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(b"HTTP/1.1 ");
    push_decimal(out, u64::from(parts.status.as_u16()));
    out.extend_from_slice(b" \r\n");
    let chunked = !ends && (is_grpc(&parts.headers) || !parts.headers.contains_key(CONTENT_LENGTH));
    for (name, value) in &parts.headers {
        if !(chunked && name == CONTENT_LENGTH) {
            write_line(out, name.as_str().as_bytes(), value.as_bytes());
        }
    }
    let bodiless = bodiless || parts.status.is_informational() || matches!(parts.status.as_u16(), 204 | 304);
    let chunked = chunked && !bodiless;
    if chunked {
        out.extend_from_slice(b"transfer-encoding: chunked\r\n");
    } else if ends && !bodiless && !parts.headers.contains_key(CONTENT_LENGTH) {
        out.extend_from_slice(b"content-length: 0\r\n");
    }
    out.extend_from_slice(b"\r\n");
    chunked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Method;

    #[test]
    fn a_response_leaves_without_its_connections_fields() {
        let text = b"HTTP/1.1 200 OK\r\nServer: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\
            Set-Cookie: a\r\nSet-Cookie: b\r\n\r\n";
        let bytes = Bytes::from_static(text);
        let mut head = ResponseHead::default();
        assert_eq!(head.parse(&bytes, Method::Get), Ok(true));
        let response = response_from(&head, &bytes);
        assert_eq!(response.status(), 200);
        let fields: Vec<_> = response.headers().iter().map(|(n, v)| (n.as_str(), v.as_bytes())).collect();
        assert_eq!(fields, [("server", &b"x"[..]), ("set-cookie", b"a"), ("set-cookie", b"b")]);
    }

    /// The limits for upstreams were applied before the gateway and its plugins added their own fields.
    #[test]
    fn a_head_of_the_gateways_own_may_be_longer_than_an_upstreams() {
        let line = format!("x: {}\r\n", "y".repeat(400));
        let text = format!("HTTP/1.1 999 \r\n{}content-length: 0\r\n\r\n", line.repeat(130));
        let bytes = Bytes::from(text);
        let mut head = ResponseHead::default();
        assert!(head.parse(&bytes, Method::Get).is_err());
        assert_eq!(head.parse_own(&bytes, Method::Get), Ok(true));
        let response = response_from(&head, &bytes);
        assert_eq!((response.status().as_u16(), response.headers().len()), (999, 131));
    }

    #[test]
    fn a_grpc_error_that_is_a_head_alone_stays_one() {
        let bytes = Bytes::from_static(b"HTTP/1.1 200 \r\ngrpc-status: 5\r\ncontent-length: 0\r\n\r\n");
        let mut head = ResponseHead::default();
        assert_eq!(head.parse(&bytes, Method::Post), Ok(true));
        assert_eq!(response_from(&head, &bytes).headers().len(), 1);
    }

    #[test]
    fn heads_are_written_as_http1_has_them() {
        for (status, fields, ends, bodiless, expected) in [
            (200, &[("content-length", "3")][..], false, false, "content-length: 3\r\n"),
            (200, &[], false, false, "transfer-encoding: chunked\r\n"),
            // A value says nothing about the framing.
            (
                200,
                &[("content-length", "3"), ("x", "transfer-encoding: chunked")],
                false,
                false,
                "content-length: 3\r\nx: transfer-encoding: chunked\r\n",
            ),
            (200, &[], true, false, "content-length: 0\r\n"),
            (204, &[], true, false, ""),
            (200, &[("content-length", "3")], true, true, "content-length: 3\r\n"),
            (
                200,
                &[("content-type", "application/grpc"), ("content-length", "3")],
                false,
                false,
                "content-type: application/grpc\r\ntransfer-encoding: chunked\r\n",
            ),
        ] {
            let mut response = Response::builder().status(status);
            for (name, value) in fields {
                response = response.header(*name, *value);
            }
            let mut out = Vec::new();
            let parts = response.body(()).expect("a response").into_parts().0;
            let chunked = write_response(&parts, ends, bodiless, &mut out);
            assert_eq!(chunked, expected.lines().any(|line| line == "transfer-encoding: chunked"));
            assert_eq!(String::from_utf8_lossy(&out), format!("HTTP/1.1 {status} \r\n{expected}\r\n"));
        }
    }
}
