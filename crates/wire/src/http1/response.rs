//! Response heads, read from upstreams.

use super::scan::{Line, Scan, line, text};
use super::value::{decimal, tokens};
use super::{FIELDS_MAX, HEAD_MAX};
use crate::field::is;
use crate::{BodyLength, Field, Known, Method, Span};

/// Length of `HTTP/1.1 200`.
const STATUS_END: usize = 12;

/// The status line that nearly all upstreams send.
const OK_LINE: &[u8] = b"HTTP/1.1 200 OK\r\n";

/// A response head: ranges into the bytes it was parsed from. Reused from response to response.
#[derive(Debug)]
pub struct ResponseHead {
    /// The header lines in the order sent.
    pub fields: Vec<Field>,
    /// The status code: 100 to 599.
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
        let window = &bytes[..bytes.len().min(HEAD_MAX)];
        let parsed = match self.read_status_line(window)? {
            Some(http11) => self.read_fields(window)?.map(|framing| (http11, framing)),
            None => None,
        };
        let Some((http11, Framing { content_length, chunked, closes })) = parsed else {
            return if bytes.len() < HEAD_MAX {
                Ok(false)
            } else {
                Err(ResponseError("upstream sent too big header"))
            };
        };
        let status = self.status;
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
        let doubtful = (chunked && !http11) || (status == 204 && announced);
        self.keep_alive &= !closes && !doubtful && self.body != BodyLength::UntilClose;
        Ok(true)
    }

    /// Reads `version SP status [SP reason] CRLF`: whether it is HTTP/1.1; `None` where more bytes are needed.
    #[inline]
    fn read_status_line(&mut self, bytes: &[u8]) -> Result<Option<bool>, ResponseError> {
        // Nearly all begin with just this.
        if bytes.starts_with(OK_LINE) {
            self.status = 200;
            self.reason = Span::new(STATUS_END + 1, OK_LINE.len() - 2);
            self.fields_start = OK_LINE.len();
            self.keep_alive = true;
            self.nominates = false;
            return Ok(Some(true));
        }
        self.read_any_status_line(bytes)
    }

    #[inline(never)]
    fn read_any_status_line(&mut self, bytes: &[u8]) -> Result<Option<bool>, ResponseError> {
        const INVALID: ResponseError = ResponseError("upstream sent an invalid status line");
        let Some((start, rest)) = bytes.split_first_chunk::<STATUS_END>() else {
            // Enough of it to tell HTTP from anything else, so that a client isn't kept waiting for garbage.
            return if b"HTTP/1.".starts_with(&bytes[..bytes.len().min(7)]) {
                Ok(None)
            } else {
                Err(INVALID)
            };
        };
        // Compared as one word; the status is what is left.
        let http11 = match start.first_chunk() {
            Some(b"HTTP/1.1") => true,
            Some(b"HTTP/1.0") => false,
            _ => return Err(INVALID),
        };
        let &[.., b' ', hundreds @ b'1'..=b'9', tens @ b'0'..=b'9', ones @ b'0'..=b'9'] = start else {
            return Err(INVALID);
        };
        if hundreds > b'5' {
            return Err(INVALID);
        }
        let [hundreds, tens, ones] = [hundreds, tens, ones].map(|digit| u16::from(digit - b'0'));
        self.status = hundreds * 100 + tens * 10 + ones;
        // The space after the status may be missing along with the reason (RFC 9112 section 4 asks for it; servers
        // leave it out).
        let from = STATUS_END + usize::from(rest.first() == Some(&b' '));
        if !matches!(rest.first(), None | Some(b' ' | b'\r')) {
            return Err(INVALID);
        }
        let end = match text(bytes, from) {
            Scan::Done((_, end)) => end,
            Scan::More => return Ok(None),
            Scan::Bad(_) => return Err(INVALID),
        };
        self.reason = Span::new(from, end - 2);
        self.fields_start = end;
        self.keep_alive = http11;
        self.nominates = false;
        Ok(Some(http11))
    }

    /// Reads the fields: positions, classes, framing, all in one pass; `None` where more bytes are needed.
    fn read_fields(&mut self, bytes: &[u8]) -> Result<Option<Framing>, ResponseError> {
        self.fields.clear();
        let mut at = self.fields_start;
        let mut framing = Framing { content_length: None, chunked: false, closes: false };
        loop {
            match line(bytes, at) {
                Scan::Done(Line::Field { name, value, end, known }) => {
                    if self.fields.len() == FIELDS_MAX {
                        return Err(ResponseError("upstream sent too many header fields"));
                    }
                    at = end;
                    if let Known::ContentLength | Known::TransferEncoding | Known::Connection = known {
                        self.note(known, value.get(bytes), &mut framing)?;
                    }
                    self.fields.push(Field { name, value, line_end: end as u32, known });
                }
                Scan::Done(Line::End(end)) => {
                    self.length = end;
                    return Ok(Some(framing));
                }
                Scan::More => return Ok(None),
                Scan::Bad(_) => return Err(ResponseError("upstream sent an invalid header")),
            }
        }
    }

    /// Takes note of a field that the gateway acts upon.
    #[inline(always)]
    fn note(&mut self, known: Known, value: &[u8], framing: &mut Framing) -> Result<(), ResponseError> {
        match known {
            Known::ContentLength => {
                let number =
                    decimal(value).ok_or(ResponseError("upstream sent an invalid Content-Length"))?;
                if framing.content_length.replace(number).is_some() {
                    return Err(ResponseError("upstream sent more than one Content-Length"));
                }
            }
            Known::TransferEncoding => {
                if framing.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(ResponseError("upstream sent an unknown Transfer-Encoding"));
                }
                framing.chunked = true;
            }
            Known::Connection => framing.closes |= self.note_connection(value),
            _ => {}
        }
        Ok(())
    }

    /// Takes note of a field of HTTP/2, if it is about the body's length.
    pub(crate) fn note_length(&mut self, field: &Field, bytes: &[u8]) -> Result<(), ResponseError> {
        if field.known != Known::ContentLength {
            return Ok(());
        }
        let mut framing = Framing { content_length: self.content_length, chunked: false, closes: false };
        self.note(field.known, field.value.get(bytes), &mut framing)?;
        self.content_length = framing.content_length;
        Ok(())
    }

    /// Takes note of a `Connection` field; true if it says `close`, which wins over every `keep-alive`.
    #[inline(always)]
    fn note_connection(&mut self, value: &[u8]) -> bool {
        // Nearly all say just this.
        if is(value, b"keep-alive") {
            self.keep_alive = true;
            return false;
        }
        self.note_options(value)
    }

    #[inline(never)]
    fn note_options(&mut self, value: &[u8]) -> bool {
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
