//! Why an operation on Redis failed.

use redis::{RedisError, ServerError};
use std::fmt;

/// Why an operation on Redis failed. The text is for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There is no connection; nothing was sent.
    Unreachable(String),
    /// The connection ended before the reply: whether the command ran is unknown.
    Closed(String),
    /// A deadline passed: whether the command ran is unknown.
    Timeout(&'static str),
    /// The reply is none of Redis' protocol, or not of the expected form.
    Protocol(String),
    /// The server answered with an error.
    Refused {
        /// Its first word: `WRONGPASS`, `MOVED`.
        code: String,
        /// The rest.
        detail: String,
    },
}

impl Fault {
    /// What a connection reported.
    pub(super) fn of(error: &RedisError) -> Self {
        match error.kind() {
            redis::ErrorKind::Parse | redis::ErrorKind::UnexpectedReturnType => {
                Self::Protocol("the server's reply is not of the Redis protocol".to_owned())
            }
            _ if error.is_timeout() => Self::Timeout("timed out"),
            _ => Self::Closed(format!("the connection to Redis ended: {error}")),
        }
    }

    /// What a server replied.
    pub(super) fn refused(error: &ServerError) -> Self {
        Self::Refused {
            code: error.code().to_owned(),
            detail: error.details().unwrap_or_default().to_owned(),
        }
    }

    /// A reply that is not of the expected form.
    pub(crate) fn unexpected() -> Self {
        Self::Protocol("unexpected reply from Redis".to_owned())
    }

    /// The first word of the server's error; empty for other faults.
    pub(super) fn code(&self) -> &str {
        match self {
            Self::Refused { code, .. } => code,
            _ => "",
        }
    }

    /// Whether another server may have taken over: this one is gone, or replicates another one.
    pub(super) fn suggests_failover(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Closed(_) => true,
            Self::Refused { code, detail } => {
                matches!(code.as_str(), "READONLY" | "MASTERDOWN" | "LOADING")
                    // What a script met, as servers before Redis 7 put it.
                    || detail.contains("-READONLY")
            }
            Self::Timeout(_) | Self::Protocol(_) => false,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(text) | Self::Closed(text) | Self::Protocol(text) => f.write_str(text),
            Self::Timeout(text) => f.write_str(text),
            Self::Refused { code, detail } if detail.is_empty() => f.write_str(code),
            Self::Refused { code, detail } => write!(f, "{code} {detail}"),
        }
    }
}
