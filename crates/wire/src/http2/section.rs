//! Field sections of messages that leave.

use crate::field::Span;
use crate::head::{is_token, push_clean};
use crate::{Field, FieldName, FieldSink, FieldValue, Known, MadeLines};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TE};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Request, Response, StatusCode, Uri};

/// A head that can't be said in HTTP/2: a target or an authority that a URI can't have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unwritable;

/// The fields of a message that is being written. Those of an HTTP/1.1 connection are left out (RFC 9113 section 8.2.2),
/// and what can't be a field of HTTP/2.
#[derive(Debug, Default)]
pub struct FieldSection {
    /// The values, one after the other.
    text: Vec<u8>,
    fields: Vec<(HeaderName, Span)>,
}

/// Method, target and authority of a request: ranges of the section's text.
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    method: Span,
    target: Span,
    authority: Span,
}

impl FieldSection {
    /// The response with `status` and these fields.
    #[must_use]
    pub fn into_response(self, status: u16) -> Response<()> {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
        *response.version_mut() = http::Version::HTTP_2;
        let fields = response.headers_mut();
        self.add_to(fields, &mut Bytes::new());
        // A gRPC answer of a head alone has no length: it ends with the head.
        let empty = fields.get(CONTENT_LENGTH).is_some_and(|length| length.as_bytes() == b"0");
        if empty && fields.contains_key("grpc-status") {
            fields.remove(CONTENT_LENGTH);
        }
        response
    }

    /// The bytes of all names and values.
    #[must_use]
    pub fn size(&self) -> usize {
        self.fields.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
    }

    /// Adds a field whose value is what was added to the text from `start` on.
    fn push(&mut self, name: &[u8], start: usize) {
        let belongs_to_connection = matches!(
            Known::classify(name),
            Known::Host
                | Known::Connection
                | Known::KeepAlive
                | Known::ProxyConnection
                | Known::TransferEncoding
                | Known::Upgrade
                | Known::Te
        );
        match HeaderName::from_bytes(name) {
            Ok(name) if !belongs_to_connection => {
                let value = Span::new(start, self.text.len());
                self.fields.push((name, value));
            }
            _ => self.text.truncate(start),
        }
    }

    /// Adds the fields to `map`, their values as parts of one buffer, which `text` is afterwards.
    fn add_to(self, map: &mut HeaderMap, text: &mut Bytes) {
        *text = Bytes::from(self.text);
        map.reserve(self.fields.len());
        for (name, value) in self.fields {
            // All are free of control bytes, which is all that is asked of them.
            if let Ok(value) = HeaderValue::from_maybe_shared(text.slice(value.start()..value.end())) {
                map.append(name, value);
            }
        }
    }
}

impl FieldSink for FieldSection {
    fn joined<'p>(&mut self, name: FieldName, pieces: impl Iterator<Item = FieldValue<'p>>) {
        let start = self.text.len();
        pieces.for_each(|piece| self.text.extend_from_slice(piece.bytes()));
        self.push(name.as_str().as_bytes(), start);
    }

    fn number(&mut self, name: FieldName, value: u64) {
        let start = self.text.len();
        crate::http1::push_decimal(&mut self.text, value);
        self.push(name.as_str().as_bytes(), start);
    }

    fn any(&mut self, name: &str, value: &[u8]) {
        if is_token(name.as_bytes()) {
            let start = self.text.len();
            push_clean(value.trim_ascii(), &mut self.text);
            self.push(name.as_bytes(), start);
        }
    }

    fn lines(&mut self, lines: MadeLines<'_>) {
        for (name, value) in lines.fields() {
            let start = self.text.len();
            self.text.extend_from_slice(value);
            self.push(name, start);
        }
    }

    fn relay(&mut self, bytes: &[u8], fields: &[Field], mut keeps: impl FnMut(&Field) -> bool) {
        self.fields.reserve(fields.len());
        for field in fields.iter().filter(|field| keeps(field)) {
            let start = self.text.len();
            self.text.extend_from_slice(field.value.get(bytes));
            self.push(field.name.get(bytes), start);
        }
    }
}

/// The head of a request that is being written.
#[derive(Debug, Default)]
pub struct RequestSection {
    line: Line,
    fields: FieldSection,
}

impl RequestSection {
    /// Begins a request.
    #[must_use]
    pub fn new(method: &[u8], target: &[u8], authority: &[u8]) -> Self {
        let mut section = Self::default();
        section.begin(method, target, authority);
        section
    }

    /// Says what the request is for: once, before all fields.
    pub fn begin(&mut self, method: &[u8], target: &[u8], authority: &[u8]) {
        let text = &mut self.fields.text;
        let mut add = |bytes: &[u8]| {
            let start = text.len();
            text.extend_from_slice(bytes);
            Span::new(start, text.len())
        };
        self.line = Line { method: add(method), target: add(target), authority: add(authority) };
    }

    /// The fields.
    pub fn fields(&mut self) -> &mut FieldSection {
        &mut self.fields
    }

    /// The request. `secure` says whether it is sent encrypted.
    ///
    /// # Errors
    /// A target or a host that HTTP/2 can't say.
    pub fn into_request(self, secure: bool) -> Result<Request<()>, Unwritable> {
        let (mut request, mut text) = (Request::new(()), Bytes::new());
        self.fields.add_to(request.headers_mut(), &mut text);
        let shared = |span: Span| text.slice(span.start()..span.end());
        let mut uri = http::uri::Parts::default();
        uri.scheme = Some(if secure { Scheme::HTTPS } else { Scheme::HTTP });
        uri.authority =
            Some(Authority::from_maybe_shared(shared(self.line.authority)).map_err(|_| Unwritable)?);
        uri.path_and_query =
            Some(PathAndQuery::from_maybe_shared(shared(self.line.target)).map_err(|_| Unwritable)?);
        *request.method_mut() = Method::from_bytes(self.line.method.get(&text)).map_err(|_| Unwritable)?;
        *request.uri_mut() = Uri::from_parts(uri).map_err(|_| Unwritable)?;
        *request.version_mut() = http::Version::HTTP_2;
        // Trailers are passed on, and gRPC servers insist on hearing so.
        request.headers_mut().insert(TE, HeaderValue::from_static("trailers"));
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FieldLines, Method, RequestHead, ResponseHead};

    fn fields(map: &HeaderMap) -> Vec<(&str, &[u8])> {
        map.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect()
    }

    #[test]
    fn a_head_goes_to_an_upstream_without_its_connections_fields() {
        let text =
            b"POST /a.B/C?x HTTP/1.1\r\nHost: h:1\r\nX-A: 1\r\nx-a: 2\r\nTransfer-Encoding: chunked\r\n\
            Connection: close\r\nTE: x\r\n\r\n";
        let mut head = RequestHead::default();
        assert_eq!(head.parse(text), Ok(true));
        let mut section = RequestSection::new(b"POST", head.target.get(text), head.authority.get(text));
        section.fields().relay(text, &head.fields, |_| true);
        let mut made = FieldLines::default();
        made.push("X-B", b" b\r\nX-Evil: 1");
        made.push("Connection", b"close");
        section.fields().lines(made.all());
        let request = section.into_request(true).expect("writable");
        assert_eq!(
            (request.method().as_str(), request.uri().to_string()),
            ("POST", "https://h:1/a.B/C?x".into())
        );
        let expected = [("x-a", &b"1"[..]), ("x-a", b"2"), ("x-b", b"b  X-Evil: 1"), ("te", b"trailers")];
        assert_eq!(fields(request.headers()), expected);
        for (target, authority) in [(&b"/a b"[..], &b"h"[..]), (b"/", b"h h"), (b"/", b"")] {
            assert!(RequestSection::new(b"GET", target, authority).into_request(true).is_err());
        }
    }

    #[test]
    fn a_response_leaves_without_its_connections_fields() {
        let text = b"HTTP/1.1 200 OK\r\nServer: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\
            Set-Cookie: a\r\nSet-Cookie: b\r\n\r\n";
        let mut head = ResponseHead::default();
        assert_eq!(head.parse(text, Method::Get), Ok(true));
        let mut section = FieldSection::default();
        section.relay(text, &head.fields, |_| true);
        section.any("X C", b"no token");
        section.any("X-C", b"c\0");
        section.number(FieldName::of("X-D: "), 70);
        assert_eq!(section.size(), 6 + 1 + (10 + 1) * 2 + 3 + 2 + 3 + 2);
        let response = section.into_response(999);
        assert_eq!(response.status(), 999);
        let expected = [
            ("server", &b"x"[..]),
            ("set-cookie", b"a"),
            ("set-cookie", b"b"),
            ("x-c", b"c "),
            ("x-d", b"70"),
        ];
        assert_eq!(fields(response.headers()), expected);
    }

    #[test]
    fn a_grpc_error_that_is_a_head_alone_stays_one() {
        let mut section = FieldSection::default();
        section.any("grpc-status", b"5");
        section.any("content-length", b"0");
        assert_eq!(fields(section.into_response(200).headers()), [("grpc-status", &b"5"[..])]);
    }
}
