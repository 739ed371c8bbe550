//! How a call to etcd fails, and what that says about whether it was done.

use std::fmt;

use crate::StoreError;

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No member has the request: it may be made again elsewhere.
    Unsent(String),
    /// A member may have it, and no answer came.
    Lost(String),
    /// A member answered with an error.
    Refused {
        /// gRPC's code.
        code: u32,
        /// etcd's words.
        message: String,
    },
    /// A member belongs to another cluster, or is older than the configuration in use. It was not asked to write.
    RolledBack {
        /// Its revision.
        found: u64,
        /// The least revision expected.
        expected: u64,
    },
}

// gRPC's codes (https://grpc.github.io/grpc/core/md_doc_statuscodes.html), those that are told apart.
const INVALID_ARGUMENT: u32 = 3;
const DEADLINE_EXCEEDED: u32 = 4;
const PERMISSION_DENIED: u32 = 7;
const RESOURCE_EXHAUSTED: u32 = 8;
const OUT_OF_RANGE: u32 = 11;
const UNAVAILABLE: u32 = 14;
const UNAUTHENTICATED: u32 = 16;

impl Failure {
    /// Whether another member, or the same a moment later, may answer.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Unsent(_) | Self::Lost(_) => true,
            Self::Refused { code, .. } => matches!(*code, UNAVAILABLE | DEADLINE_EXCEEDED),
            Self::RolledBack { .. } => false,
        }
    }

    /// Whether it is certain that nothing was done.
    pub(crate) fn is_undone(&self) -> bool {
        match self {
            Self::Unsent(_) | Self::RolledBack { .. } => true,
            Self::Lost(_) => false,
            // An election that was on before the request came; a leader lost in the middle says so in other words.
            Self::Refused { code: UNAVAILABLE, message } => message.ends_with("no leader"),
            Self::Refused { code, .. } => *code != DEADLINE_EXCEEDED,
        }
    }

    /// Whether the token has run out.
    pub(crate) fn is_stale_token(&self) -> bool {
        matches!(self, Self::Refused { code, message }
            if *code == UNAUTHENTICATED || message.contains("invalid auth token") || message.contains("user name is empty"))
    }

    /// Whether the user may not do this.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, Self::Refused { code: PERMISSION_DENIED, .. })
    }

    /// Whether the revision asked for has been compacted.
    pub(crate) fn is_compacted(&self) -> bool {
        matches!(self, Self::Refused { code: OUT_OF_RANGE, message } if message.contains("compacted"))
    }

    /// Whether the revision asked for has not happened.
    pub(crate) fn is_future(&self) -> bool {
        matches!(self, Self::Refused { code: OUT_OF_RANGE, message } if message.contains("future"))
    }

    /// What a caller that only read is told.
    pub(crate) fn of_read(self) -> StoreError {
        StoreError::Unavailable(self.to_string())
    }

    /// The failure of what precedes a write: the write itself was not sent.
    pub(crate) fn before_write(self) -> Self {
        match self {
            Self::Lost(detail) => Self::Unsent(detail),
            failure => failure,
        }
    }

    /// What a caller that wrote is told.
    pub(crate) fn of_write(self) -> StoreError {
        match self {
            Self::Refused { code: INVALID_ARGUMENT, message } => {
                StoreError::Invalid(message.replace("etcdserver: ", "etcd: "))
            }
            failure @ Self::RolledBack { .. } => StoreError::Rejected(failure.to_string()),
            failure if failure.is_undone() => StoreError::Unavailable(failure.to_string()),
            failure => StoreError::Unknown(failure.to_string()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsent(detail) => write!(f, "etcd can't be reached: {detail}"),
            Self::Lost(detail) => write!(f, "etcd has not answered: {detail}"),
            Self::RolledBack { found, expected } => write!(
                f,
                "etcd belongs to another cluster or was rolled back: it is at revision {found}, the active \
                 configuration at {expected}"
            ),
            Self::Refused { code: RESOURCE_EXHAUSTED, message } if message.contains("space exceeded") => {
                write!(
                    f,
                    "etcd takes no writes ({message}): compact and defragment it, then disarm its alarm"
                )
            }
            Self::Refused { message, .. } => write!(f, "etcd refuses: {message}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_unknown_unless_it_is_certain_that_it_was_not_done() {
        let refused = |code, message: &str| Failure::Refused { code, message: message.to_owned() };
        let cases = [
            (Failure::Unsent("refused".into()), "can't be reached"),
            (Failure::Lost("reset".into()), "may or may not"),
            (refused(UNAVAILABLE, "etcdserver: no leader"), "not available"),
            (refused(UNAVAILABLE, "etcdserver: leader changed"), "may or may not"),
            (refused(UNAVAILABLE, "etcdserver: request timed out"), "may or may not"),
            (refused(RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded"), "defragment"),
            (refused(INVALID_ARGUMENT, "etcdserver: request is too large"), "etcd: request is too large"),
        ];
        for (failure, words) in cases {
            let said = failure.clone().of_write().to_string();
            assert!(said.contains(words), "{failure:?}: {said}");
        }
        assert!(refused(16, "etcdserver: invalid auth token").is_stale_token());
        assert!(
            refused(OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted").is_compacted()
        );
    }
}
