//! Request heads.

pub use super::error::HeadError;
use super::scan::{Line, Scan, control, line, token_end};
use super::value::{decimal, names_http, tokens};
use super::{FIELDS_MAX, HEAD_MAX, LINE_MAX};
use crate::field::is;
use crate::target::{plain_host, plain_target, strip_scheme};
use crate::{BodyLength, Field, Known, Method, Span, host_of};

/// Length of `HTTP/1.1 CRLF`.
const VERSION_LINE: usize = 10;

/// A request head: ranges into the bytes it was parsed from. Reused from request to request.
#[derive(Debug, Clone, Default)]
pub struct RequestHead {
    /// The header lines in the order sent.
    pub fields: Vec<Field>,
    /// The method's token.
    pub method_token: Span,
    /// The whole target: origin form, or `*`.
    pub target: Span,
    /// Path of the target.
    pub path: Span,
    /// Query without its `?`; empty where there is none.
    pub query: Span,
    /// The authority the request is for: of the absolute form, else of `Host`.
    pub authority: Span,
    /// Its host, without the port.
    pub host: Span,
    /// Length of the head with its final empty line: where the body starts.
    pub length: usize,
    /// What the gateway must know of it.
    pub facts: RequestFacts,
    /// Fields that [`Self::withdraw_forwarded`] took out; those of an earlier head unless the facts say so.
    withdrawn: Vec<Field>,
}

/// What a request head says about itself, found while it was parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestFacts {
    /// The method.
    pub method: Method,
    /// HTTP/1.1 or later; else HTTP/1.0.
    pub http11: bool,
    /// HTTP/2, and `http11` with it.
    pub http2: bool,
    /// How long the body is.
    pub body: BodyLength,
    /// Whether the client wants to keep the connection.
    pub keep_alive: bool,
    /// Whether the path is known to have the form that routes are matched against, and is told from the query already.
    pub(super) plain_target: bool,
    /// Whether the host is known to have no capital.
    pub(super) plain_host: bool,
    /// Whether `Connection` says `close`; `keep_alive` is false then.
    closes: bool,
    /// Whether an `Upgrade` field names HTTP or TLS; `upgrade` is false then.
    hides: bool,
    /// Whether a field says for whom the peer speaks: `X-Forwarded-For`, `-Proto`, `-Host`, `-Port` or `Forwarded`.
    pub forwarded: bool,
    /// Whether fields were withdrawn.
    pub(super) withdrawn: bool,
    /// Whether it waits for `100 Continue`.
    pub expects_continue: bool,
    /// Whether it asks for another protocol (`Connection: upgrade` with an `Upgrade` field) that a tunnel may carry:
    /// not for another HTTP version or TLS, which would hide further requests from the gateway.
    pub upgrade: bool,
    /// Whether `Connection` names fields to be dropped on the way.
    pub nominates: bool,
    /// Whether a `TE` field says `trailers`.
    pub te_trailers: bool,
}

impl Default for RequestFacts {
    fn default() -> Self {
        Self {
            method: Method::Get,
            http11: true,
            http2: false,
            body: BodyLength::None,
            keep_alive: true,
            plain_target: false,
            plain_host: false,
            closes: false,
            hides: false,
            forwarded: false,
            withdrawn: false,
            expects_continue: false,
            upgrade: false,
            nominates: false,
            te_trailers: false,
        }
    }
}

impl RequestHead {
    /// Parses the head at the start of `bytes`. `Ok(false)`: it is not complete yet. On an error the contents are
    /// unspecified.
    ///
    /// # Errors
    /// When the head is malformed, ambiguous or too large.
    pub fn parse(&mut self, bytes: &[u8]) -> Result<bool, HeadError> {
        // What lies beyond the limit is as if it had not come: a head that reaches it is refused as incomplete.
        let window = &bytes[..bytes.len().min(HEAD_MAX)];
        let Some(fields) = self.read_request_line(window)? else { return Self::partial(bytes) };
        let Some(host) = self.read_fields(window, fields)? else { return Self::partial(bytes) };
        self.read_target(bytes, host)?;
        Ok(true)
    }

    /// Reads `method SP target SP version CRLF`. Where the next line starts; `None` where more bytes are needed.
    fn read_request_line(&mut self, bytes: &[u8]) -> Result<Option<usize>, HeadError> {
        // Nearly all begin with just this.
        let (start, method_end, method) = if bytes.starts_with(b"GET ") {
            (0, 3, Method::Get)
        } else {
            match read_method(bytes)? {
                Some((start, end)) => (start, end, Method::from_token(&bytes[start..end])),
                None => return Ok(None),
            }
        };
        let target_start = method_end + 1;
        let plain = plain_target(bytes, target_start);
        let target_end = plain.map_or_else(|| control::<b' '>(bytes, target_start), |(_, end)| end);
        match bytes.get(target_end) {
            None => return Ok(None),
            Some(b' ') if target_end > target_start => {}
            Some(_) => return Err(HeadError::Bad("invalid request line")),
        }
        self.method_token = Span::new(start, method_end);
        self.target = Span::new(target_start, target_end);
        let line_end = target_end + 1 + VERSION_LINE;
        // Compared as words, which a pattern of bytes is not.
        let http11 = match bytes.get(target_end + 1..line_end) {
            Some(version) if version == b"HTTP/1.1\r\n" => true,
            Some(version) if version == b"HTTP/1.0\r\n" => false,
            _ => return Self::other_version(&bytes[target_end + 1..]),
        };
        if line_end - start > LINE_MAX {
            return Err(HeadError::TargetTooLong);
        }
        self.note_line(bytes, method, plain, http11)?;
        Ok(Some(line_end))
    }

    /// Takes note of the request line, whose ranges are known. `plain` is what [`plain_target`] found.
    #[inline(always)]
    fn note_line(
        &mut self,
        bytes: &[u8],
        method: Method,
        plain: Option<(usize, usize)>,
        http11: bool,
    ) -> Result<(), HeadError> {
        match plain {
            Some((path_end, end)) => self.split_target(path_end, end),
            None if std::str::from_utf8(self.target.get(bytes)).is_err() => {
                return Err(HeadError::Bad("request target is not UTF-8"));
            }
            None => {}
        }
        self.facts = RequestFacts {
            method,
            http11,
            keep_alive: http11,
            plain_target: plain.is_some(),
            ..RequestFacts::default()
        };
        Ok(())
    }

    /// Begins a head of HTTP/2. `line` is the buffer that it is laid out in, so far: method, target and version with a
    /// space between two of them.
    pub(crate) fn begin(&mut self, line: &[u8], method: Span, target: Span) -> Result<Found, HeadError> {
        if line.len() > LINE_MAX {
            return Err(HeadError::TargetTooLong);
        }
        if control::<b' '>(line, target.start()) != target.end() {
            return Err(HeadError::Bad("invalid request line"));
        }
        (self.method_token, self.target) = (method, target);
        let known = Method::from_token(method.get(line));
        self.note_line(line, known, plain_target(line, target.start()), true)?;
        self.facts.http2 = true;
        self.fields.clear();
        Ok(Found::default())
    }

    /// Ends a head of HTTP/2, all of which is in `bytes`. A body follows if `open`, of unknown length unless a field said
    /// how long it is.
    pub(crate) fn end_fields(&mut self, bytes: &[u8], found: &Found, open: bool) -> Result<(), HeadError> {
        self.length = bytes.len();
        self.facts.finish(&self.fields, found.length, open && found.length.is_none())?;
        self.read_target(bytes, found.host)
    }

    /// Reads the fields: positions, classes, framing, all in one pass. The `Host` value, if any; `None` where more
    /// bytes are needed.
    fn read_fields(&mut self, bytes: &[u8], first_line: usize) -> Result<Option<Option<Span>>, HeadError> {
        self.fields.clear();
        let mut at = first_line;
        let mut found = Found::default();
        loop {
            match line(bytes, at) {
                Scan::Done(Line::Field { name, value, end, known }) => {
                    if end - at > LINE_MAX || self.fields.len() == FIELDS_MAX {
                        return Err(HeadError::FieldsTooLarge);
                    }
                    at = end;
                    match known {
                        Known::Other => {}
                        Known::Host if found.host.is_none() => found.host = Some(value),
                        known => self.note(known, value.get(bytes), &mut found)?,
                    }
                    self.fields.push(Field { name, value, line_end: end as u32, known });
                }
                Scan::Done(Line::End(end)) => {
                    if found.unknown_coding {
                        return Err(HeadError::UnknownCoding);
                    }
                    self.length = end;
                    self.facts.finish(&self.fields, found.length, found.chunked)?;
                    return Ok(Some(found.host));
                }
                Scan::More => return Ok(None),
                Scan::Bad(why) => return Err(HeadError::Bad(why)),
            }
        }
    }

    /// Takes out the fields in which a peer says for whom it speaks; with `chain` also `X-Forwarded-For`. From now on only
    /// [`crate::RequestView::sent`] finds them.
    #[cold]
    pub fn withdraw_forwarded(&mut self, chain: bool) {
        let withdrawn = self.fields.extract_if(.., |field| match field.known {
            Known::XForwardedOther | Known::Forwarded => true,
            Known::XForwardedFor => chain,
            _ => false,
        });
        self.withdrawn.clear();
        self.withdrawn.extend(withdrawn);
        self.facts.withdrawn = !self.withdrawn.is_empty();
    }

    pub(super) fn withdrawn(&self) -> &[Field] {
        if self.facts.withdrawn { &self.withdrawn } else { &[] }
    }

    /// Takes note of a field that the gateway acts upon, but for the first `Host`.
    #[inline(never)]
    pub(crate) fn note(&mut self, known: Known, value: &[u8], found: &mut Found) -> Result<(), HeadError> {
        match known {
            Known::FramingAlias => return Err(HeadError::Bad("framing field spelt with underscores")),
            Known::Host => return Err(HeadError::Bad("more than one Host")),
            Known::ContentLength => {
                let number = decimal(value).ok_or(HeadError::Bad("invalid Content-Length"))?;
                if found.length.replace(number).is_some() {
                    return Err(HeadError::Bad("more than one Content-Length"));
                }
            }
            Known::TransferEncoding => {
                if std::mem::replace(&mut found.chunked, true) && !found.unknown_coding {
                    return Err(HeadError::Bad("more than one Transfer-Encoding"));
                }
                // Refused at the end only: a head that is malformed further on is malformed before anything else.
                found.unknown_coding |= !value.eq_ignore_ascii_case(b"chunked");
            }
            _ => self.facts.note(known, value)?,
        }
        Ok(())
    }

    /// Splits the target into authority, path and query (RFC 9112 section 3.2).
    #[inline(always)]
    fn read_target(&mut self, bytes: &[u8], host: Option<Span>) -> Result<(), HeadError> {
        match (host, self.facts.method) {
            (Some(host), Method::Get | Method::Post | Method::Head | Method::Put | Method::Delete)
                if self.facts.plain_target =>
            {
                self.authority = host;
                self.check_authority(bytes)
            }
            _ => self.read_any_target(bytes, host),
        }
    }

    #[inline(never)]
    fn read_any_target(&mut self, bytes: &[u8], host: Option<Span>) -> Result<(), HeadError> {
        let target = self.target.get(bytes);
        match self.facts.method {
            Method::Connect | Method::Trace => return Err(HeadError::Method),
            // Upstreams that ignore the case would answer `head` without a body and lose step with the gateway. nginx
            // lets in the same bytes.
            Method::Other if !self.method_token.get(bytes).iter().all(is_method_byte) => {
                return Err(HeadError::Bad("invalid method"));
            }
            _ => {}
        }
        if host.is_none() && self.facts.http11 {
            return Err(HeadError::Bad("no Host"));
        }
        self.authority = host.unwrap_or_default();
        if self.facts.plain_target {
            return self.check_authority(bytes);
        }
        let from = self.target.start();
        if target.first() != Some(&b'/') {
            if target == b"*" && self.facts.method == Method::Options {
                self.path = self.target;
                self.query = Span::default();
                return self.check_authority(bytes);
            }
            let rest = strip_scheme(target).ok_or(HeadError::Bad("invalid request target"))?;
            let scheme = target.len() - rest.len();
            let end = memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len());
            if end == 0 {
                return Err(HeadError::Bad("request target without a host"));
            }
            // The absolute form wins over `Host`, but a `Host` that is none is refused all the same (RFC 9112 section
            // 3.2).
            self.check_authority(bytes)?;
            self.authority = Span::new(from + scheme, from + scheme + end);
            self.target = match rest.get(end) {
                Some(b'/') => Span::new(from + scheme + end, self.target.end()),
                // An empty path means `/` (RFC 9110 section 4.2.3): the last slash of the scheme stands for it.
                None => Span::new(from + scheme - 1, from + scheme),
                Some(_) => return Err(HeadError::Bad("request target with a query and no path")),
            };
        }
        let target = self.target.get(bytes);
        let end = memchr::memchr2(b'?', b'#', target).unwrap_or(target.len());
        if end < target.len() && memchr::memchr(b'#', &target[end..]).is_some() {
            return Err(HeadError::Bad("fragment in the request target"));
        }
        self.split_target(self.target.start() + end, self.target.end());
        self.check_authority(bytes)
    }

    /// Notes that the path ends at `path_end` and the query, if there is one, at `end`.
    fn split_target(&mut self, path_end: usize, end: usize) {
        self.path = Span::new(self.target.start(), path_end);
        self.query = Span::new((path_end + 1).min(end), end);
    }

    #[inline(always)]
    fn check_authority(&mut self, bytes: &[u8]) -> Result<(), HeadError> {
        let (start, end) = (self.authority.start(), self.authority.end());
        let plain = plain_host(bytes, start, end);
        self.facts.plain_host = plain.is_some();
        let length = match plain {
            Some(length) => length,
            None => host_of(self.authority.get(bytes)).ok_or(HeadError::Bad("invalid host"))?.len(),
        };
        self.host = Span::new(start, start + length);
        Ok(())
    }

    /// An incomplete head: wait for more, unless it is too long already or will be refused anyhow.
    fn partial(bytes: &[u8]) -> Result<bool, HeadError> {
        let head = &bytes[leading_line(bytes)..];
        if head.starts_with(b"\n") || head.starts_with(b"\r\n") {
            return Err(HeadError::Bad("empty line before the request line"));
        }
        match memchr::memchr(b'\n', head) {
            None if head.len() > LINE_MAX => Err(HeadError::TargetTooLong),
            Some(end) if end >= LINE_MAX => Err(HeadError::TargetTooLong),
            _ if bytes.len() >= HEAD_MAX => Err(HeadError::FieldsTooLarge),
            _ => {
                let last_line = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
                if bytes.len() - last_line > LINE_MAX { Err(HeadError::FieldsTooLarge) } else { Ok(false) }
            }
        }
    }

    /// What stands where `HTTP/1.1 CRLF` or `HTTP/1.0 CRLF` should: the start of one, a version that we don't speak,
    /// or garbage.
    fn other_version(rest: &[u8]) -> Result<Option<usize>, HeadError> {
        const FORM: &[u8] = b"HTTP/0.0\r\n";
        let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        let version = &rest[..end];
        let fits = version.len() <= FORM.len()
            && version.iter().zip(FORM).all(|(byte, form)| match form {
                b'0' => byte.is_ascii_digit(),
                _ => byte == form,
            });
        match fits {
            true if version.len() == FORM.len() => Err(HeadError::Version),
            true => Ok(None),
            false => Err(HeadError::Bad("invalid HTTP version")),
        }
    }
}

/// What the fields said about framing and host so far.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) host: Option<Span>,
    length: Option<u64>,
    chunked: bool,
    unknown_coding: bool,
}

impl RequestFacts {
    /// The version as logs and `$server_protocol` show it.
    #[must_use]
    pub fn version(&self) -> &'static [u8] {
        [&b"HTTP/1.0"[..], b"HTTP/1.1", b"HTTP/2.0"][usize::from(self.http11) + usize::from(self.http2)]
    }

    /// Takes note of a field that is about the connection.
    fn note(&mut self, known: Known, value: &[u8]) -> Result<(), HeadError> {
        match known {
            Known::Connection => self.note_connection(value),
            Known::Expect => {
                if !value.eq_ignore_ascii_case(b"100-continue") {
                    return Err(HeadError::Expectation);
                }
                self.expects_continue = true;
            }
            Known::Upgrade => self.hides |= names_http(value),
            Known::XForwardedFor | Known::XForwardedOther | Known::Forwarded => self.forwarded = true,
            Known::Te => self.te_trailers |= tokens(value).any(|t| t.eq_ignore_ascii_case(b"trailers")),
            _ => {}
        }
        Ok(())
    }

    fn note_connection(&mut self, value: &[u8]) {
        // Nearly all say just this.
        if is(value, b"keep-alive") {
            self.keep_alive = true;
            return;
        }
        for token in tokens(value) {
            if token.eq_ignore_ascii_case(b"close") {
                self.closes = true;
            } else if token.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else if token.eq_ignore_ascii_case(b"upgrade") {
                self.upgrade = true;
            } else {
                self.nominates = true;
            }
        }
    }

    /// Settles what depends on more than one field.
    fn finish(&mut self, fields: &[Field], length: Option<u64>, chunked: bool) -> Result<(), HeadError> {
        self.body = match (length, chunked) {
            (Some(_), true) => return Err(HeadError::Bad("both Content-Length and Transfer-Encoding")),
            (None, true) if !self.http11 => return Err(HeadError::Bad("Transfer-Encoding in HTTP/1.0")),
            (None, true) => BodyLength::Chunked,
            (Some(length), false) => BodyLength::exact(length),
            (None, false) => BodyLength::None,
        };
        self.expects_continue &= self.http11 && self.body != BodyLength::None;
        self.upgrade &=
            self.http11 && !self.hides && fields.iter().any(|field| field.known == Known::Upgrade);
        // `close` wins over `keep-alive`, in whatever order (RFC 9112 section 9.3).
        self.keep_alive &= !self.closes;
        Ok(())
    }
}

/// Where the method stands, which a space follows; `None` where more bytes are needed.
#[inline(never)]
fn read_method(bytes: &[u8]) -> Result<Option<(usize, usize)>, HeadError> {
    let start = leading_line(bytes);
    let end = token_end(bytes, start);
    match bytes.get(end) {
        None => Ok(None),
        Some(b' ') if end > start => Ok(Some((start, end))),
        // A lone CR at the very start may become the empty line that is skipped (RFC 9112 section 2.2), and no more.
        Some(b'\r') if bytes == b"\r" => Ok(None),
        Some(b'\r' | b'\n') if end == start => Err(HeadError::Bad("empty line before the request line")),
        Some(_) => Err(HeadError::Bad("invalid request line")),
    }
}

/// Length of the one empty line that may stand before the request line (RFC 9112 section 2.2).
#[inline]
fn leading_line(bytes: &[u8]) -> usize {
    if bytes.starts_with(b"\r\n") { 2 } else { 0 }
}

/// What nginx lets a method consist of.
fn is_method_byte(byte: &u8) -> bool {
    matches!(byte, b'A'..=b'Z' | b'-' | b'_')
}
