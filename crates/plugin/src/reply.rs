//! Answers of the gateway, and responses as the hooks of the response phase see them.

use crate::HeaderEdits;
use std::borrow::Cow;
use wire::ResponseHead;

/// An answer made by the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reply {
    /// The status code, 200 to 599.
    pub status: u16,
    /// Header fields besides `Date`, `Server`, `Content-Length` and `Connection`, which the engine writes.
    pub headers: Vec<(Cow<'static, str>, Vec<u8>)>,
    /// The body; `None` asks for the gateway's own page for this status.
    pub body: Option<Vec<u8>>,
}

impl Reply {
    /// `status` with the gateway's own page for it.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    /// `status` with a body, as `text/plain; charset=utf-8` unless a header says otherwise: APISIX's default.
    #[must_use]
    pub fn text(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: Some(body.into()) }
    }

    /// `status` with `{"error_msg":"..."}` and a newline, APISIX's form of an error.
    #[must_use]
    pub fn error(status: u16, message: &str) -> Self {
        let message = serde_json::Value::from(message);
        Self::text(status, format!("{{\"error_msg\":{message}}}\n"))
    }

    /// `status` with `{"message":"..."}` and a newline, the form that APISIX's plugins use.
    #[must_use]
    pub fn message(status: u16, message: &str) -> Self {
        let message = serde_json::Value::from(message);
        Self::text(status, format!("{{\"message\":{message}}}\n"))
    }

    /// The value of the first field called `name` (any case); the type of the body, where no field says it.
    #[must_use]
    pub fn header(&self, name: &[u8]) -> Option<&[u8]> {
        let found = self.headers.iter().find(|(other, _)| other.as_bytes().eq_ignore_ascii_case(name));
        let default_type =
            || name.eq_ignore_ascii_case(b"content-type").then(|| self.default_type().as_bytes());
        found.map(|(_, value)| value.as_slice()).or_else(default_type)
    }

    /// The type of the body where no field says it: plain text, but for the gateway's own pages.
    #[must_use]
    pub fn default_type(&self) -> &'static str {
        if self.body.is_none() { "text/html; charset=utf-8" } else { "text/plain; charset=utf-8" }
    }

    /// The same answer with one more header field.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}

/// The response as its origin made it.
#[derive(Debug, Clone, Copy, Default)]
pub struct UpstreamResponse<'b> {
    /// The head and its bytes; `None` where the gateway itself answers.
    pub head: Option<(&'b ResponseHead, &'b [u8])>,
    /// The gateway's own answer, where that is it.
    pub reply: Option<&'b Reply>,
}

impl<'b> UpstreamResponse<'b> {
    /// The value of the first field called `name` (any case) as its origin gave it, unless `edits` speak of it.
    #[must_use]
    pub fn header<'e>(&self, name: &[u8], edits: &'e HeaderEdits) -> Option<&'e [u8]>
    where
        'b: 'e,
    {
        match edits.get(name) {
            Some(edited) => edited,
            None => match self.reply {
                Some(reply) => reply.header(name),
                None => self.head.and_then(|(head, bytes)| head.header(bytes, name)),
            },
        }
    }

    /// The length of the body in bytes, where the origin says it.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        match self.reply {
            Some(reply) => reply.body.as_ref().map(|body| body.len() as u64),
            None => self.head.and_then(|(head, _)| head.content_length),
        }
    }
}
