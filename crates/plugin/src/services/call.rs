//! An HTTP request that a plugin makes, and the answer to it.

use crate::HeaderEdits;
use bytes::Bytes;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

/// How long each step of a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallTimeouts {
    /// Name resolution, connection and TLS handshake.
    pub connect: Duration,
    /// Between two successive writes.
    pub send: Duration,
    /// Between two successive reads.
    pub read: Duration,
}

impl CallTimeouts {
    /// The same time for each step.
    #[must_use]
    pub fn all(time: Duration) -> Self {
        Self { connect: time, send: time, read: time }
    }
}

/// A part of a call that HTTP does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadCall(pub &'static str);

impl fmt::Display for BadCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for BadCall {}

/// An HTTP request to be sent by [`crate::Services::call`].
#[derive(Debug)]
pub struct Call {
    method: String,
    authority: Vec<u8>,
    target: Vec<u8>,
    /// Its fields, besides `Host`, `Content-Length` and `Transfer-Encoding`, which follow from the rest.
    pub headers: HeaderEdits,
    /// Its body.
    pub body: CallBody,
    /// How long each step may take.
    pub timeouts: CallTimeouts,
    /// Whether the request may be sent again though its method doesn't say so: a POST that only asks.
    pub repeatable: bool,
}

impl Call {
    /// A request without fields and body. `target` is path and query, percent-encoded.
    ///
    /// # Errors
    /// A method that is no token, a target or authority with a byte that it must not hold.
    pub fn new(
        method: &str,
        authority: impl Into<Vec<u8>>,
        target: impl Into<Vec<u8>>,
        timeouts: CallTimeouts,
    ) -> Result<Self, BadCall> {
        let (authority, target) = (authority.into(), target.into());
        if method.is_empty()
            || !method.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        {
            return Err(BadCall("the method is no token"));
        }
        if !is_target(&target) {
            return Err(BadCall("the request target holds a space or a control character"));
        }
        if !is_authority(&authority) {
            return Err(BadCall("the host holds a character that no host may have"));
        }
        let (method, body) = (method.to_owned(), CallBody::Empty);
        let headers = HeaderEdits::default();
        Ok(Self { method, authority, target, headers, body, timeouts, repeatable: false })
    }

    /// The method's token.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The value of `Host`.
    #[must_use]
    pub fn authority(&self) -> &[u8] {
        &self.authority
    }

    /// Path and query.
    #[must_use]
    pub fn target(&self) -> &[u8] {
        &self.target
    }

    /// Whether the request may be sent again where nothing of an answer came (RFC 9110 section 9.2.2).
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        (self.repeatable || wire::Method::from_token(self.method.as_bytes()).is_idempotent())
            && !matches!(self.body, CallBody::Stream(_))
    }
}

/// Whether `target` may stand in a request line: visible ASCII, and bytes of UTF-8 that servers accept.
pub(crate) fn is_target(target: &[u8]) -> bool {
    target.first() == Some(&b'/') && target.iter().all(|byte| *byte > b' ' && *byte != 0x7f)
}

/// Whether `authority` may be the value of `Host` (RFC 3986 section 3.2.2): a name or an address, and a port.
pub(crate) fn is_authority(authority: &[u8]) -> bool {
    !authority.is_empty()
        && authority.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]%".contains(byte))
}

/// The body of a call.
#[derive(Default)]
pub enum CallBody {
    /// None.
    #[default]
    Empty,
    /// Bytes that are there.
    Bytes(Bytes),
    /// Pieces that come one after the other, sent with chunked framing.
    Stream(Box<dyn BodySource>),
}

impl fmt::Debug for CallBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("Empty"),
            Self::Bytes(bytes) => f.debug_tuple("Bytes").field(&bytes.len()).finish(),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// A body that is read piece by piece. One that has no next piece for five minutes is broken off: a stream of events that
/// may be silent for longer sends comments.
pub trait BodySource {
    /// Returns the next piece, which is not empty; `None` at the end. After an error or the end it is not polled
    /// again.
    ///
    /// # Errors
    /// What kept the body from being complete.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>>;
}

/// A body of one piece.
impl BodySource for Option<Bytes> {
    fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        Poll::Ready(self.take().filter(|bytes| !bytes.is_empty()).map(Ok))
    }
}

/// Header fields as received, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(pub Vec<(String, Vec<u8>)>);

impl Fields {
    /// The value of the first field called `name` (any case).
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.all(name).next()
    }

    /// The values of all fields called `name` (any case).
    pub fn all<'f>(&'f self, name: &str) -> impl Iterator<Item = &'f [u8]> {
        self.0.iter().filter(move |(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| &value[..])
    }
}

/// The answer to a call: its head, and its body yet to be read. Dropping it closes the connection, unless the body was
/// read to its end.
pub struct Answer {
    /// The status code, 200 to 599.
    pub status: u16,
    /// The fields, without those of the connection (RFC 9110 section 7.6.1).
    pub fields: Fields,
    /// The body.
    pub body: Box<dyn BodySource>,
}

impl Answer {
    /// Returns the next piece of the body; `None` at its end.
    ///
    /// # Errors
    /// A body that broke off, or a read that timed out.
    pub async fn next(&mut self) -> Option<io::Result<Bytes>> {
        poll_fn(|cx| self.body.poll_next(cx)).await
    }

    /// Reads the whole body.
    ///
    /// # Errors
    /// As [`Self::next`], and a body of more than `limit_bytes`.
    pub async fn collect(mut self, limit_bytes: usize) -> Result<(u16, Fields, Vec<u8>), CallError> {
        let mut whole = Vec::new();
        while let Some(piece) = self.next().await {
            let piece = piece.map_err(|error| CallError::body(&error))?;
            if whole.len() + piece.len() > limit_bytes {
                return Err(CallError {
                    kind: CallErrorKind::TooLarge,
                    reason: "the response body is too large",
                });
            }
            whole.extend_from_slice(&piece);
        }
        Ok((self.status, self.fields, whole))
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("status", &self.status)
            .field("fields", &self.fields)
            .finish_non_exhaustive()
    }
}

/// Why a call or a connection failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallError {
    /// What kind of failure it is.
    pub kind: CallErrorKind,
    /// The cause, for the log.
    pub reason: &'static str,
}

/// Kinds of [`CallError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallErrorKind {
    /// A timeout passed.
    Timeout,
    /// The connection could not be made, or ended early.
    Connection,
    /// The answer is no valid HTTP.
    Protocol,
    /// The body is larger than the limit.
    TooLarge,
    /// The upstream has no usable node, or its name cannot be resolved.
    NoNode,
    /// The worker ends, or has as many calls under way as it allows.
    Unavailable,
}

impl CallError {
    /// The error of a body that broke off.
    #[must_use]
    pub fn body(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut => {
                Self { kind: CallErrorKind::Timeout, reason: "timed out in the response body" }
            }
            io::ErrorKind::InvalidData => {
                Self { kind: CallErrorKind::Protocol, reason: "the response body is malformed" }
            }
            _ => Self { kind: CallErrorKind::Connection, reason: "the response body broke off" },
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason)
    }
}

impl std::error::Error for CallError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_cannot_hold_what_would_end_its_request_line() {
        let call = |method, host: &str, target: &str| {
            Call::new(method, host, target, CallTimeouts::all(Duration::from_secs(1))).is_ok()
        };
        assert!(call("GET", "a.com:80", "/a?b=%20"));
        assert!(call("M-SEARCH", "[::1]:80", "/\u{e9}"));
        for (method, host, target) in [
            ("GE T", "a", "/"),
            ("", "a", "/"),
            ("GET\r\n", "a", "/"),
            ("GET", "", "/"),
            ("GET", "a\r\nx: y", "/"),
            ("GET", "a b", "/"),
            ("GET", "a/b", "/"),
            ("GET", "a", ""),
            ("GET", "a", "a"),
            ("GET", "a", "/ HTTP/1.1\r\nx: y"),
            ("GET", "a", "/\0"),
            ("GET", "a", "/\x7f"),
        ] {
            assert!(!call(method, host, target), "{method:?} {host:?} {target:?}");
        }
    }
}
