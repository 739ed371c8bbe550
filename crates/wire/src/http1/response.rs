//! Response heads, read from upstreams.

use super::request::{crlf_after, decimal, tokens};
use super::{FIELDS_MAX, HEAD_MAX};
use crate::{BodyLength, Field, Known, Method, Span};
use std::mem::MaybeUninit;

/// A response head: ranges into the bytes it was parsed from. Reused from response to response.
#[derive(Debug)]
pub struct ResponseHead {
    /// The header lines in the order sent.
    pub fields: Vec<Field>,
    /// The status code, 100 to 599.
    pub status: u16,
    /// The reason phrase; may be empty.
    pub reason: Span,
    /// Where the first header line starts.
    pub fields_start: usize,
    /// Length of the head with its final empty line: where the body starts.
    pub length: usize,
    /// How long the body is, the request's method considered.
    pub body: BodyLength,
    /// The `Content-Length`, even where no body follows (HEAD, 304).
    pub content_length: Option<u64>,
    /// Whether the upstream keeps its connection open.
    pub keep_alive: bool,
    /// Whether `Connection` names fields to be dropped on the way.
    pub nominates: bool,
}

impl Default for ResponseHead {
    fn default() -> Self {
        Self {
            fields: Vec::new(),
            status: 0,
            reason: Span::default(),
            fields_start: 0,
            length: 0,
            body: BodyLength::None,
            content_length: None,
            keep_alive: false,
            nominates: false,
        }
    }
}

/// Why a response can't be passed on; the client is told 502.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseError(pub &'static str);

/// What the fields say about the body and the connection.
struct Framing {
    content_length: Option<u64>,
    chunked: bool,
    closes: bool,
}

impl ResponseHead {
    /// Parses the head at the start of `bytes`, the answer to a request with `method`. `Ok(false)`: it is not
    /// complete yet. On an error the contents are unspecified.
    ///
    /// # Errors
    /// When the head is malformed, its framing ambiguous, or it is longer than [`HEAD_MAX`].
    pub fn parse(&mut self, bytes: &[u8], method: Method) -> Result<bool, ResponseError> {
        let mut slots = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut response = httparse::Response::new(&mut []);
        let config = httparse::ParserConfig::default();
        let length = match config.parse_response_with_uninit_headers(&mut response, bytes, &mut slots) {
            Ok(httparse::Status::Complete(length)) if length <= HEAD_MAX => length,
            Ok(httparse::Status::Partial) if bytes.len() < HEAD_MAX => return Ok(false),
            Ok(_) => return Err(ResponseError("upstream sent too big header")),
            Err(_) => return Err(ResponseError("upstream sent an invalid header")),
        };
        let (Some(status), Some(version)) = (response.code, response.version) else {
            return Err(ResponseError("upstream sent an incomplete status line"));
        };
        if !(100..=599).contains(&status) {
            return Err(ResponseError("upstream sent an invalid status"));
        }
        self.length = length;
        self.status = status;
        self.keep_alive = version == 1;
        self.nominates = false;
        self.reason = response
            .reason
            .filter(|r| !r.is_empty())
            .map_or(Span::default(), |r| Span::of(bytes, r.as_bytes()));
        // The reason ends the line; without one its end has to be looked for.
        self.fields_start = match self.reason.is_empty() {
            true => memchr::memchr(b'\n', bytes).map_or(length, |at| at + 1),
            false => crlf_after(bytes, self.reason.end()).unwrap_or_default(),
        };
        if self.fields_start < 2 || bytes[self.fields_start - 2] != b'\r' {
            return Err(ResponseError("upstream sent a bare LF"));
        }
        let Framing { content_length, chunked, closes } = self.read_fields(bytes, response.headers)?;
        self.content_length = content_length;
        self.body = match (content_length, chunked) {
            (Some(_), true) => {
                return Err(ResponseError("upstream sent both Content-Length and Transfer-Encoding"));
            }
            // RFC 9112 section 6.3: these never have a body, whatever the fields say.
            _ if method == Method::Head || status < 200 || matches!(status, 204 | 304) => BodyLength::None,
            (None, true) => BodyLength::Chunked,
            (Some(length), false) => BodyLength::exact(length),
            (None, false) => BodyLength::UntilClose,
        };
        let announced = chunked || content_length.is_some_and(|length| length > 0);
        if status < 200 && announced {
            return Err(ResponseError("upstream sent an interim response with a body"));
        }
        // Such a connection can't be trusted to be where the next response starts: a transfer coding in HTTP/1.0 (RFC
        // 9112 section 6.1), or a body that a 204 must not have and may yet send.
        let doubtful = (chunked && version == 0) || (status == 204 && announced);
        self.keep_alive &= !closes && !doubtful && self.body != BodyLength::UntilClose;
        Ok(true)
    }

    fn read_fields(
        &mut self,
        bytes: &[u8],
        fields: &[httparse::Header<'_>],
    ) -> Result<Framing, ResponseError> {
        let mut line_start = self.fields_start;
        let mut framing = Framing { content_length: None, chunked: false, closes: false };
        self.fields.clear();
        for field in fields {
            let name = Span::of(bytes, field.name.as_bytes());
            let value = if field.value.is_empty() {
                Span::new(name.end() + 1, name.end() + 1)
            } else {
                Span::of(bytes, field.value)
            };
            if name.start() != line_start {
                return Err(ResponseError("upstream sent a folded header line"));
            }
            line_start =
                crlf_after(bytes, value.end()).map_err(|_| ResponseError("upstream sent a bare LF"))?;
            let known = Known::classify(field.name.as_bytes());
            match known {
                Known::ContentLength => {
                    let number = decimal(field.value)
                        .ok_or(ResponseError("upstream sent an invalid Content-Length"))?;
                    if framing.content_length.replace(number).is_some() {
                        return Err(ResponseError("upstream sent more than one Content-Length"));
                    }
                }
                Known::TransferEncoding => {
                    if framing.chunked || !field.value.eq_ignore_ascii_case(b"chunked") {
                        return Err(ResponseError("upstream sent an unknown Transfer-Encoding"));
                    }
                    framing.chunked = true;
                }
                Known::Connection => framing.closes |= self.note_connection(field.value),
                _ => {}
            }
            self.fields.push(Field { name, value, line_end: line_start as u32, known });
        }
        if bytes.get(line_start..self.length) != Some(b"\r\n") {
            return Err(ResponseError("upstream sent a bare LF"));
        }
        Ok(framing)
    }

    /// Takes note of a `Connection` field; true if it says `close`, which wins over every `keep-alive`.
    fn note_connection(&mut self, value: &[u8]) -> bool {
        let mut closes = false;
        for token in tokens(value) {
            if token.eq_ignore_ascii_case(b"close") {
                closes = true;
            } else if token.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else if !token.eq_ignore_ascii_case(b"upgrade") {
                self.nominates = true;
            }
        }
        closes
    }

    /// The value of the first field called `name` (any case).
    #[must_use]
    pub fn header<'b>(&self, bytes: &'b [u8], name: &[u8]) -> Option<&'b [u8]> {
        self.fields
            .iter()
            .find(|field| field.name.len() == name.len() && field.name.get(bytes).eq_ignore_ascii_case(name))
            .map(|field| field.value.get(bytes))
    }
}
