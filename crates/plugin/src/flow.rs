//! What a hook decides.

use crate::{Answer, Exchange, Reply};
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
