//! What a hook decides.

use crate::{Answer, Exchange};
use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// What happens after a hook.
pub enum Flow {
    /// The next hook runs.
    Next,
    /// The gateway answers with this; no further hook of this phase runs and no upstream is asked.
    Reply(Box<Reply>),
    /// The gateway answers with this head, and with a body that is read while it is sent: a stream of events, or the
    /// answer to a call of the plugin's own. Fields of the connection and of framing are left out.
    Answer(Box<Answer>),
    /// The hook wants the request's whole body, if that has at most so many bytes, and runs again when it is there:
    /// [`crate::Request::whole_body`] says then what came of it. Nothing is sent to the upstream before.
    Body(usize),
    /// The exchange waits for a future; its result then decides. The one place where a hook may allocate a future:
    /// hooks that need not wait don't pay for it.
    Wait(Pin<Box<dyn Future<Output = Resume>>>),
}

impl Flow {
    /// Answers with `reply`.
    #[must_use]
    pub fn reply(reply: Reply) -> Self {
        Self::Reply(Box::new(reply))
    }

    /// Answers with `status` and the gateway's own page for it.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self::reply(Reply::status(status))
    }
}

impl std::fmt::Debug for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Next => f.write_str("Next"),
            Self::Reply(reply) => f.debug_tuple("Reply").field(reply).finish(),
            Self::Answer(answer) => f.debug_tuple("Answer").field(answer).finish(),
            Self::Body(limit_bytes) => f.debug_tuple("Body").field(limit_bytes).finish(),
            Self::Wait(_) => f.write_str("Wait"),
        }
    }
}

/// What happens after a hook of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamFlow {
    /// The next hook runs.
    Next,
    /// The same hook runs again once the client has sent more; a client that sends no more is refused.
    More,
    /// The next hook runs after this time.
    Wait(Duration),
    /// The session ends, and the log says this status: a stream has no answer that all its clients would understand.
    Refuse(u16),
}

/// What a waiting hook does with the exchange when its future is done. The future itself can't hold the exchange.
pub type Resume = Box<dyn FnOnce(&mut Exchange<'_>) -> Flow>;

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
