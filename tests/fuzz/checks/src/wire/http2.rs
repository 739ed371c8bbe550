//! HTTP/2's heads in the form of HTTP/1.1 and back.

use super::lines::{lines, name_and_value, values};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use wire::http1::BodyDecoder;
use wire::http2::{
    request_from, response_from, trailers_from, write_request, write_response, write_trailers,
};
use wire::{BodyEvent, BodyLength, HeadError, Method, RequestHead, ResponseHead};

/// Fields that belong to a connection or say what the head itself says.
const OWN: [&str; 10] = [
    "host",
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
    "te",
    "cookie",
    "content-length",
    "expect",
];

/// A head of HTTP/1 that goes to an upstream as HTTP/2 says the same when it is written back; and a head of HTTP/2 made
/// of any names and values becomes one head of HTTP/1, or is refused.
pub fn request(bytes: &[u8]) {
    let mut head = RequestHead::default();
    if head.parse(bytes) == Ok(true) {
        let shared = Bytes::copy_from_slice(&bytes[..head.length]);
        if let Ok(request) = request_from(&head, &shared, true) {
            let parts = request.into_parts().0;
            check_map(&parts.headers);
            let ends = matches!(head.facts.body, BodyLength::None | BodyLength::Exact(0));
            let again = written(&parts, ends).expect("what was HTTP/1.1 can be written as it");
            check_same(&head, bytes, &again);
        }
    }
    if let Some(parts) = made(bytes) {
        for ends in [false, true] {
            let _ = written(&parts, ends);
        }
    }
}

/// The HTTP/1.1 head of `parts`, which has nothing behind it and no field that `parts` doesn't ask for. `None` where it
/// is refused.
fn written(parts: &Parts, ends: bool) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    write_request(parts, ends, &mut out).ok()?;
    let mut head = RequestHead::default();
    match head.parse(&out) {
        Ok(true) => {}
        Ok(false) => panic!("a head that is written is complete: {}", out.escape_ascii()),
        // Cookies become one line, and a field or two are added.
        Err(HeadError::FieldsTooLarge | HeadError::TargetTooLong) => return Some(out),
        Err(_) => return None,
    }
    assert_eq!(head.length, out.len(), "one head and nothing behind it: {}", out.escape_ascii());
    let lines = lines(&out);
    let (_, lines) = lines.split_first().expect("a request line");
    assert_eq!(values(lines, "host").len(), 1);
    assert!(values(lines, "cookie").len() <= 1);
    for line in lines {
        let (name, value) = name_and_value(line);
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let asked = parts.headers.get_all(&*name).iter().any(|other| other.as_bytes().trim_ascii() == value);
        assert!(
            asked || matches!(&*name, "host" | "cookie" | "transfer-encoding"),
            "{name} was not asked for"
        );
    }
    assert_eq!(head.method_token.get(&out), parts.method.as_str().as_bytes());
    assert_eq!(
        Some(head.target.get(&out)),
        parts.uri.path_and_query().map(|target| target.as_str().as_bytes())
    );
    Some(out)
}

/// What was read of HTTP/1, and of what became of it by way of HTTP/2, is the same.
fn check_same(head: &RequestHead, bytes: &[u8], again: &[u8]) {
    let mut other = RequestHead::default();
    if other.parse(again) != Ok(true) {
        return;
    }
    assert_eq!(other.method_token.get(again), head.method_token.get(bytes));
    assert_eq!(other.target.get(again), head.target.get(bytes));
    assert_eq!(
        other.authority.get(again).to_ascii_lowercase(),
        head.authority.get(bytes).to_ascii_lowercase()
    );
    let fields = |head: &RequestHead, bytes: &[u8]| {
        sorted(head.fields.iter().map(|field| (field.name.get(bytes), field.value.get(bytes))))
    };
    assert_eq!(fields(&other, again), fields(head, bytes));
    let body = |head: &RequestHead| match head.facts.body {
        BodyLength::Exact(0) => BodyLength::None,
        body => body,
    };
    // gRPC's messages have no length of their own.
    assert!(body(&other) == body(head) || body(&other) == BodyLength::Chunked);
}

/// A request of HTTP/2 from its text: `METHOD URI` in the first line, then `name:value`.
fn made(text: &[u8]) -> Option<Parts> {
    let mut lines = text.split(|byte| *byte == b'\n');
    let first = lines.next()?;
    let space = first.iter().position(|byte| *byte == b' ')?;
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.method = http::Method::from_bytes(&first[..space]).ok()?;
    parts.uri = Uri::try_from(first[space..].trim_ascii()).ok()?;
    parts.headers = map(lines.take(150));
    Some(parts)
}

/// What of `lines` a field of HTTP/2 can be.
fn map<'t>(lines: impl Iterator<Item = &'t [u8]>) -> HeaderMap {
    let mut map = HeaderMap::new();
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(&line[colon + 1..])) {
            map.append(name, value);
        }
    }
    map
}

/// A response and its trailers, in the same ways.
pub fn response(bytes: &[u8]) {
    let mut head = ResponseHead::default();
    if head.parse(bytes, Method::Get) == Ok(true) {
        let shared = Bytes::copy_from_slice(&bytes[..head.length]);
        let response = response_from(&head, &shared).into_parts().0;
        check_map(&response.headers);
        let out = written_response(&response, head.body == BodyLength::None);
        let mut again = ResponseHead::default();
        if again.parse(&out, Method::Get) == Ok(true) {
            assert_eq!(again.status, head.status);
            let fields = |head: &ResponseHead, bytes: &[u8]| {
                sorted(head.fields.iter().map(|field| (field.name.get(bytes), field.value.get(bytes))))
            };
            assert_eq!(fields(&again, &out), fields(&head, bytes));
        }
    }
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let status = lines.next().and_then(|line| http::StatusCode::from_bytes(line.trim_ascii()).ok());
    let mut parts = http::Response::new(()).into_parts().0;
    parts.status = status.unwrap_or_default();
    parts.headers = map(lines.take(150));
    for ends in [false, true] {
        written_response(&parts, ends);
    }
    trailers(bytes);
}

/// The HTTP/1.1 head of `parts`; where it is accepted, it is one head and nothing behind it.
fn written_response(parts: &http::response::Parts, ends: bool) -> Vec<u8> {
    let mut out = Vec::new();
    write_response(parts, ends, false, &mut out);
    let mut head = ResponseHead::default();
    let parsed = head.parse(&out, Method::Get);
    assert_ne!(parsed, Ok(false), "a head that is written is complete: {}", out.escape_ascii());
    if parsed == Ok(true) {
        assert_eq!((head.length, head.status), (out.len(), parts.status.as_u16()));
    }
    out
}

/// Trailers that a chunked body may have come back by way of HTTP/2.
fn trailers(lines: &[u8]) {
    let section = |lines: &[u8]| {
        let wire = [b"0\r\n", lines, b"\r\n"].concat();
        match BodyDecoder::new(BodyLength::Chunked).next(&wire) {
            Ok((_, BodyEvent::Trailers(lines))) => Some(lines.to_vec()),
            _ => None,
        }
    };
    let Some(lines) = section(lines) else { return };
    let map = trailers_from(&lines);
    check_map(&map);
    assert_eq!(map.len(), lines.iter().filter(|byte| **byte == b'\n').count(), "none is left out");
    let mut out = Vec::new();
    write_trailers(&map, &mut out);
    // White space around values may go, but nothing comes.
    assert!(out.len() <= lines.len() + map.len());
    if out.len() < wire::http1::TRAILERS_MAX - 2 {
        let again = section(&out).expect("what was a trailer section is one");
        assert_eq!(trailers_from(&again), map);
    }
}

/// Names of HTTP/2 are tokens in lower case, and no value has a control byte (RFC 9113 section 8.2.1).
fn check_map(map: &HeaderMap) {
    for (name, value) in map {
        let name = name.as_str();
        assert!(name.bytes().all(|byte| super::lines::is_token_byte(byte) && !byte.is_ascii_uppercase()));
        assert!(value.as_bytes().iter().all(|byte| *byte == b'\t' || !byte.is_ascii_control()), "{name}");
        let connection = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
        assert!(!connection.contains(&name), "{name} belongs to a connection of HTTP/1.1");
    }
}

/// Names in lower case and values, but for those that a head says itself.
fn sorted<'h>(fields: impl Iterator<Item = (&'h [u8], &'h [u8])>) -> Vec<(String, Vec<u8>)> {
    let mut fields: Vec<_> = fields
        .map(|(name, value)| (String::from_utf8_lossy(name).to_ascii_lowercase(), value.to_vec()))
        .filter(|(name, _)| !OWN.contains(&&**name))
        .collect();
    // Those of one name keep their order.
    fields.sort_by(|(a, _), (b, _)| a.cmp(b));
    fields
}
