//! Request heads that came as HTTP/2.

use super::is_grpc;
use super::page::{Limits, Page, TooLarge, is_malformed};
use crate::http1::{FIELDS_MAX, HEAD_MAX, LINE_MAX};
use crate::{HeadError, RequestHead};
use http::Method;
use http::header::{CONTENT_LENGTH, COOKIE, HOST, HeaderValue};
use http::request::Parts;
use http::uri::PathAndQuery;
use std::iter::once;

/// Reads a request's head into `head`, whose ranges are those of `into`, and returns how much of `into` is filled. `ends`
/// says whether no body follows. Of a head that is refused, the first line is there, for the log, if it fits.
///
/// # Errors
/// What is refused of HTTP/1.1 for the same reasons, and what HTTP/2 lets in and HTTP/1.1 could not tell apart.
pub fn read_request(
    parts: &Parts,
    ends: bool,
    head: &mut RequestHead,
    into: &mut [u8],
) -> (usize, Result<(), HeadError>) {
    let length = into.len().min(HEAD_MAX);
    let mut page = Page::new(&mut into[..length], Limits { line: LINE_MAX, fields: FIELDS_MAX });
    let read = read(parts, ends, head, &mut page);
    (page.filled(), read)
}

fn read(parts: &Parts, ends: bool, head: &mut RequestHead, page: &mut Page<'_>) -> Result<(), HeadError> {
    if parts.method == Method::CONNECT {
        return Err(HeadError::Method);
    }
    let target = parts.uri.path_and_query().map_or("", PathAndQuery::as_str);
    // An absolute form would have an authority of its own.
    if !target.starts_with('/') && target != "*" {
        return Err(HeadError::Bad("invalid :path"));
    }
    let long = |_: TooLarge| HeadError::TargetTooLong;
    let method = page.add(parts.method.as_str().as_bytes()).map_err(long)?;
    page.add(b" ").map_err(long)?;
    let target = page.add(target.as_bytes()).map_err(long)?;
    page.add(b" HTTP/2.0\r\n").map_err(long)?;
    let mut fields = head.begin(page.bytes(), method, target)?;
    let large = |_: TooLarge| HeadError::FieldsTooLarge;
    if let Some(authority) = authority(parts)? {
        let host = page.field(b"Host", once(authority), &mut head.fields).map_err(large)?;
        fields.host = Some(host.value);
    }
    let grpc = is_grpc(&parts.headers);
    let mut cookies = false;
    for (name, value) in &parts.headers {
        match *name {
            HOST => continue,
            // Sent in pieces, so that they compress; HTTP/1.1 knows one line (RFC 9113 section 8.2.3).
            COOKIE => {
                cookies = true;
                continue;
            }
            CONTENT_LENGTH if grpc && !ends => continue,
            _ => {}
        }
        let value = once(value.as_bytes().trim_ascii());
        let field = page.field(name.as_str().as_bytes(), value, &mut head.fields).map_err(large)?;
        if is_malformed(field.known) {
            return Err(HeadError::Bad("field of an HTTP/1.1 connection in HTTP/2"));
        }
        head.note(field.known, field.value.get(page.bytes()), &mut fields)?;
    }
    if cookies {
        let pieces = parts.headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes);
        let pieces = pieces.enumerate().flat_map(|(at, cookie)| {
            let between = if at == 0 { &b""[..] } else { b"; " };
            [between, cookie.trim_ascii()]
        });
        page.field(b"cookie", pieces, &mut head.fields).map_err(large)?;
    }
    page.add(b"\r\n").map_err(large)?;
    head.end_fields(page.bytes(), &fields, !ends)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BodyLength;
    use http::Request;

    fn parts(uri: &str, fields: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    /// The layout of the head of `parts`, and its body's length.
    fn laid_out(parts: &Parts, ends: bool) -> Result<(String, BodyLength), HeadError> {
        let (mut head, mut into) = (RequestHead::default(), [0; 40_000]);
        let (filled, read) = read_request(parts, ends, &mut head, &mut into);
        read?;
        assert_eq!(head.length, filled);
        let mut lines = head.fields.iter().map(|field| field.name.start()).collect::<Vec<_>>();
        lines.remove(0);
        lines.push(filled - 2);
        let ends: Vec<_> = head.fields.iter().map(|field| field.line_end as usize).collect();
        assert_eq!(lines, ends, "fields stand side by side");
        Ok((String::from_utf8(into[..filled].to_vec()).expect("text"), head.facts.body))
    }

    #[test]
    fn heads_are_laid_out_as_ranges() {
        let grpc = ("content-type", "application/grpc");
        for (uri, fields, ends, expected, body) in [
            ("http://a.com/x?y", &[][..], true, "GET /x?y HTTP/2.0\r\nHost: a.com\r\n\r\n", BodyLength::None),
            (
                "http://a.com",
                &[("host", "A.com")],
                true,
                "GET / HTTP/2.0\r\nHost: a.com\r\n\r\n",
                BodyLength::None,
            ),
            ("/", &[("host", "b")], true, "GET / HTTP/2.0\r\nHost: b\r\n\r\n", BodyLength::None),
            (
                "http://a/",
                &[("cookie", "a=1"), ("x", " y\t"), ("cookie", "b=2")],
                true,
                "GET / HTTP/2.0\r\nHost: a\r\nx: y\r\ncookie: a=1; b=2\r\n\r\n",
                BodyLength::None,
            ),
            ("http://a/", &[], false, "GET / HTTP/2.0\r\nHost: a\r\n\r\n", BodyLength::Chunked),
            (
                "http://a/",
                &[("content-length", "3")],
                false,
                "GET / HTTP/2.0\r\nHost: a\r\ncontent-length: 3\r\n\r\n",
                BodyLength::Exact(3),
            ),
            (
                "http://a/",
                &[("content-length", "3"), grpc],
                false,
                "GET / HTTP/2.0\r\nHost: a\r\ncontent-type: application/grpc\r\n\r\n",
                BodyLength::Chunked,
            ),
        ] {
            let expected = (expected.to_owned(), body);
            assert_eq!(laid_out(&parts(uri, fields), ends), Ok(expected), "{uri}");
        }
    }

    #[test]
    fn facts_are_those_of_the_same_request_in_http1() {
        let long = "y".repeat(8180);
        for (uri, fields) in [
            (
                "http://a.com:80/x/../y?z",
                &[("expect", "100-continue"), ("content-length", "3"), ("te", "trailers")][..],
            ),
            ("http://A.com/%2e", &[("x-forwarded-for", "1.1.1.1"), ("user-agent", "u")]),
            ("http://a/", &[("expect", "200-ok")]),
            ("http://a/", &[("content-length", "3"), ("content-length", "3")]),
            ("http://a/", &[("content-length", "+3")]),
            ("http://a/", &[("content_length", "3")]),
            ("http://a/", &[("x", &long)]),
            ("/", &[]),
        ] {
            let (mut head, mut into) = (RequestHead::default(), [0; 40_000]);
            let (_, read) = read_request(&parts(uri, fields), false, &mut head, &mut into);
            let uri: http::Uri = uri.parse().expect("a URI");
            let mut text = format!("GET {} HTTP/1.1\r\n", uri.path_and_query().expect("a path")).into_bytes();
            if let Some(authority) = uri.authority() {
                text.extend_from_slice(format!("Host: {authority}\r\n").as_bytes());
            }
            for (name, value) in fields {
                text.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
            }
            if !fields.iter().any(|(name, _)| *name == "content-length") {
                text.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
            }
            text.extend_from_slice(b"\r\n");
            let mut other = RequestHead::default();
            assert_eq!(read.map(|()| true), other.parse(&text), "{uri}");
            if read.is_ok() {
                other.facts.http2 = true;
                assert_eq!(head.facts, other.facts);
                for (one, another) in [
                    (head.method_token, other.method_token),
                    (head.target, other.target),
                    (head.path, other.path),
                    (head.query, other.query),
                    (head.authority, other.authority),
                    (head.host, other.host),
                ] {
                    assert_eq!(one.get(&into), another.get(&text), "{uri}");
                }
            }
        }
    }

    #[test]
    fn what_would_be_ambiguous_is_refused() {
        let refused = |parts: &Parts| laid_out(parts, true).map(|(text, _)| text);
        let differs = Err(HeadError::Bad("Host differs from :authority"));
        assert_eq!(refused(&parts("http://a/", &[("host", "b")])), differs);
        assert_eq!(refused(&parts("/", &[("host", "a"), ("host", "b")])), differs);
        let connection = Err(HeadError::Bad("field of an HTTP/1.1 connection in HTTP/2"));
        for name in ["connection", "transfer-encoding", "upgrade", "keep-alive", "proxy-connection"] {
            assert_eq!(refused(&parts("http://a/", &[(name, "x")])), connection, "{name}");
        }
        let mut tunnel = parts("http://a/", &[]);
        tunnel.method = Method::CONNECT;
        assert_eq!(refused(&tunnel), Err(HeadError::Method));
        let long = format!("http://a/{}", "x".repeat(8200));
        assert_eq!(refused(&parts(&long, &[])), Err(HeadError::TargetTooLong));
        let many = vec![("x", "y"); 128];
        assert_eq!(refused(&parts("http://a/", &many)), Err(HeadError::FieldsTooLarge));
        let value = "y".repeat(8000);
        let large = vec![("x", &*value); 5];
        assert_eq!(refused(&parts("http://a/", &large)), Err(HeadError::FieldsTooLarge));
    }
}
