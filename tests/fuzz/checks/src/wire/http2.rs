//! HTTP/2's heads and trailers, read and written.

use super::lines::{lines, name_and_value, values};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use wire::http1::{BodyDecoder, FIELDS_MAX, HEAD_MAX};
use wire::http2::{FieldSection, RequestSection, read_request, read_response, read_trailers, trailers_from};
use wire::{BodyEvent, BodyLength, FieldSink, Method, RequestHead, ResponseHead};

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

/// A head of HTTP/1 that goes to an upstream as HTTP/2 says the same when it is read back; and a head of HTTP/2 made of
/// any names and values is refused, or read as HTTP/1.1's parser reads the bytes that it is laid out in.
pub fn request(bytes: &[u8]) {
    let mut head = RequestHead::default();
    if head.parse(bytes) == Ok(true) {
        let method = head.method_token.get(bytes);
        let mut section = RequestSection::new(method, head.target.get(bytes), head.authority.get(bytes));
        section.fields().relay(bytes, &head.fields, |_| true);
        if let Ok(request) = section.into_request(true) {
            let parts = request.into_parts().0;
            check_map(&parts.headers);
            let ends = matches!(head.facts.body, BodyLength::None | BodyLength::Exact(0));
            if let Some((other, page)) = read(&parts, ends) {
                check_same(&head, bytes, &other, &page);
            }
        }
    }
    if let Some(parts) = made(bytes) {
        for ends in [false, true] {
            read(&parts, ends);
        }
    }
}

/// The head of `parts`, and the bytes that it is laid out in, with no field that `parts` doesn't have. `None` where it is
/// refused.
fn read(parts: &Parts, ends: bool) -> Option<(RequestHead, Vec<u8>)> {
    let (mut head, mut page) = (RequestHead::default(), vec![0; HEAD_MAX]);
    let (filled, read) = read_request(parts, ends, &mut head, &mut page);
    page.truncate(filled);
    read.ok()?;
    assert_eq!(head.length, page.len());
    assert!(head.facts.http2);
    let lines = lines(&page);
    let (_, lines) = lines.split_first().expect("a request line");
    assert_eq!(values(lines, "host").len(), 1);
    assert!(values(lines, "cookie").len() <= 1);
    for line in lines {
        let (name, value) = name_and_value(line);
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let asked = parts.headers.get_all(&*name).iter().any(|other| other.as_bytes().trim_ascii() == value);
        assert!(asked || matches!(&*name, "host" | "cookie"), "{name} was not asked for");
    }
    assert_eq!(head.method_token.get(&page), parts.method.as_str().as_bytes());
    let target = parts.uri.path_and_query().map(|target| target.as_str().as_bytes());
    assert_eq!(Some(head.target.get(&page)), target);
    check_layout(&head, &page);
    Some((head, page))
}

/// The parser of HTTP/1.1 finds the same in the bytes of a head that came as HTTP/2, and accepts them.
fn check_layout(head: &RequestHead, page: &[u8]) {
    let version = page.windows(11).position(|bytes| bytes == b" HTTP/2.0\r\n").expect("a version");
    let mut text = page.to_vec();
    text[version..version + 9].copy_from_slice(b" HTTP/1.1");
    let mut other = RequestHead::default();
    assert_eq!(other.parse(&text), Ok(true), "{}", text.escape_ascii());
    assert_eq!(other.fields, head.fields);
    let ranges = |head: &RequestHead| {
        [head.method_token, head.target, head.path, head.query, head.authority, head.host]
    };
    assert_eq!((other.length, ranges(&other)), (head.length, ranges(head)));
    let (mut facts, mut expected) = (other.facts, head.facts);
    facts.http2 = true;
    // The end of the stream is that of a body whose length no field says.
    if expected.body == BodyLength::Chunked {
        assert_eq!(facts.body, BodyLength::None);
        (facts.body, facts.expects_continue) = (BodyLength::Chunked, expected.expects_continue);
    }
    expected.http2 = true;
    assert_eq!(facts, expected);
}

/// What was read of HTTP/1, and of what became of it by way of HTTP/2, is the same.
fn check_same(head: &RequestHead, bytes: &[u8], other: &RequestHead, again: &[u8]) {
    assert_eq!(other.method_token.get(again), head.method_token.get(bytes));
    assert_eq!(other.target.get(again), head.target.get(bytes));
    assert_eq!(
        other.authority.get(again).to_ascii_lowercase(),
        head.authority.get(bytes).to_ascii_lowercase()
    );
    let fields = |head: &RequestHead, bytes: &[u8]| {
        sorted(head.fields.iter().map(|field| (field.name.get(bytes), field.value.get(bytes))))
    };
    assert_eq!(fields(other, again), fields(head, bytes));
    let body = |head: &RequestHead| match head.facts.body {
        BodyLength::Exact(0) => BodyLength::None,
        body => body,
    };
    // gRPC's messages have no length of their own.
    assert!(body(other) == body(head) || body(other) == BodyLength::Chunked);
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
        let mut section = FieldSection::default();
        section.relay(bytes, &head.fields, |_| true);
        let response = section.into_response(head.status).into_parts().0;
        check_map(&response.headers);
        if let Some((again, page)) = read_back(&response, head.body == BodyLength::None) {
            assert_eq!(again.status, head.status);
            let fields = |head: &ResponseHead, bytes: &[u8]| {
                sorted(head.fields.iter().map(|field| (field.name.get(bytes), field.value.get(bytes))))
            };
            assert_eq!(fields(&again, &page), fields(&head, bytes));
        }
    }
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let status = lines.next().and_then(|line| http::StatusCode::from_bytes(line.trim_ascii()).ok());
    let mut parts = http::Response::new(()).into_parts().0;
    parts.status = status.unwrap_or_default();
    parts.headers = map(lines.take(150));
    for ends in [false, true] {
        read_back(&parts, ends);
    }
    trailers(bytes);
}

/// The head of `parts`, and the bytes that it is laid out in, in which the parser of HTTP/1.1 finds the same.
fn read_back(parts: &http::response::Parts, ends: bool) -> Option<(ResponseHead, Vec<u8>)> {
    let (mut head, mut page) = (ResponseHead::default(), vec![0; 2 * HEAD_MAX]);
    let filled = read_response(parts, ends, Method::Get, &mut head, &mut page).ok()?;
    page.truncate(filled);
    assert_eq!((head.length, head.status), (filled, parts.status.as_u16()));
    if filled < HEAD_MAX && head.status >= 200 && head.fields.len() <= FIELDS_MAX {
        let mut text = page.clone();
        text[..8].copy_from_slice(b"HTTP/1.1");
        let mut other = ResponseHead::default();
        assert_eq!(other.parse(&text, Method::Get), Ok(true), "{}", text.escape_ascii());
        assert_eq!(other.fields, head.fields);
        let facts = |head: &ResponseHead| (head.status, head.fields_start, head.length, head.content_length);
        assert_eq!(facts(&other), facts(&head));
        assert!(other.body == head.body || head.body == BodyLength::Chunked || ends);
    }
    Some((head, page))
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
    // White space around values may go, but nothing comes.
    if read_trailers(&map, &mut out).is_ok() {
        assert!(out.len() <= lines.len() + map.len());
        let again = section(&out).expect("what was a trailer section is one");
        assert_eq!(trailers_from(&again), map);
    } else {
        assert!(out.len() > wire::http1::TRAILERS_MAX - 2, "{}", out.escape_ascii());
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
