//! Transactions: preconditions, operations, and what became of them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::limits::{ACTOR_BYTES_MAX, KEY_BYTES_MAX, TTL_MAX, TXN_BYTES_MAX, TXN_OPS_MAX, VALUE_BYTES_MAX};
use crate::{Entry, StoreError};

/// A transaction: if every precondition holds, all operations happen in one revision; else none does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Txn {
    /// What must hold.
    pub when: Vec<Precondition>,
    /// What happens then. A key stands in it at most once, as in etcd.
    pub then: Vec<Op>,
    /// Who asks, for the history.
    pub actor: Option<String>,
}

/// A condition on the present state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Precondition {
    /// The key was last written by this revision.
    ModRevision {
        /// The key.
        key: String,
        /// Its `mod_revision`; 0 for "there is no such key".
        equals: u64,
    },
}

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Writes a value, and forgets the time to live of the value before.
    Put {
        /// The key.
        key: String,
        /// The value.
        value: Arc<[u8]>,
        /// After which time the entry deletes itself; backends round up to whole seconds where they must.
        ttl: Option<Duration>,
    },
    /// Removes a key; without effect, and without a revision, where there is none.
    Delete {
        /// The key.
        key: String,
    },
}

/// What became of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TxnOutcome {
    /// All of it is stored for good.
    Committed(Committed),
    /// A precondition failed, and nothing was changed.
    Refused {
        /// The first precondition that failed.
        index: usize,
        /// What its key holds.
        current: Option<Entry>,
    },
}

/// A transaction that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// Its revision; the newest one if nothing changed (only absent keys were deleted).
    pub revision: u64,
    /// What each operation did, in their order.
    pub applied: Vec<Applied>,
}

/// What one operation did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The entry before; `None` if there was none.
    pub previous: Option<Entry>,
    /// The entry after; `None` after a delete.
    pub entry: Option<Entry>,
}

impl Op {
    /// The key it writes.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }
}

/// How large a transaction may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxnLimits {
    /// Most operations, and most preconditions.
    pub operations: usize,
    /// Most bytes of keys and values that are written.
    pub bytes: usize,
}

impl TxnLimits {
    /// What every backend can hold: [`TXN_OPS_MAX`] and [`TXN_BYTES_MAX`].
    pub const COMMON: Self = Self { operations: TXN_OPS_MAX, bytes: TXN_BYTES_MAX };
}

impl Txn {
    /// Refuses what breaks one of the limits common to all backends or names a key twice. Every backend calls this
    /// first, or [`Self::check_within`] where it holds more.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] with the first mistake.
    pub fn check(&self) -> Result<(), StoreError> {
        self.check_within(TxnLimits::COMMON)
    }

    /// The same with the limits of one backend.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] with the first mistake.
    pub fn check_within(&self, limits: TxnLimits) -> Result<(), StoreError> {
        let TxnLimits { operations, bytes: bytes_max } = limits;
        if self.then.len() > operations || self.when.len() > operations {
            return invalid(format!("a transaction has at most {operations} operations and preconditions"));
        }
        if self.actor.as_ref().is_some_and(|actor| actor.len() > ACTOR_BYTES_MAX) {
            return invalid(format!("an actor's name has at most {ACTOR_BYTES_MAX} bytes"));
        }
        for Precondition::ModRevision { key, .. } in &self.when {
            check_key(key)?;
        }
        let mut seen = HashSet::with_capacity(self.then.len());
        let mut bytes = 0;
        for op in &self.then {
            check_key(op.key())?;
            if !seen.insert(op.key()) {
                return invalid(format!("key {} stands twice in one transaction", op.key()));
            }
            bytes += op.key().len() + check_value(op)?;
        }
        if bytes > bytes_max {
            return invalid(format!("a transaction writes at most {bytes_max} bytes, this one {bytes}"));
        }
        Ok(())
    }
}

/// Refuses keys that etcd or the file's reader could take for something else.
pub(crate) fn check_key(key: &str) -> Result<(), StoreError> {
    if key.len() > KEY_BYTES_MAX {
        return invalid(format!("a key has at most {KEY_BYTES_MAX} bytes, this one {}", key.len()));
    }
    if !key.starts_with('/') || key.len() < 2 || key.chars().any(char::is_control) {
        return invalid(format!("key {key:?} must start with a slash and hold no control character"));
    }
    Ok(())
}

/// The length of the operation's value.
fn check_value(op: &Op) -> Result<usize, StoreError> {
    let Op::Put { key, value, ttl } = op else { return Ok(0) };
    if value.len() > VALUE_BYTES_MAX {
        return invalid(format!("the value of {key} has {} bytes, at most {VALUE_BYTES_MAX}", value.len()));
    }
    if ttl.is_some_and(|ttl| ttl.is_zero() || ttl > TTL_MAX) {
        return invalid(format!("the ttl of {key} must be between 1 and {} seconds", TTL_MAX.as_secs()));
    }
    Ok(value.len())
}

fn invalid<T>(message: String) -> Result<T, StoreError> {
    Err(StoreError::Invalid(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, bytes: usize) -> Op {
        Op::Put { key: key.to_owned(), value: vec![b'x'; bytes].into(), ttl: None }
    }

    #[test]
    fn limits_are_checked_before_anything_is_tried() {
        let long = format!("/{}", "k".repeat(KEY_BYTES_MAX));
        let cases: Vec<(Vec<Op>, Option<&str>)> = vec![
            (vec![], None),
            (vec![put("/routes/1", VALUE_BYTES_MAX)], None),
            (vec![put("/routes/1", VALUE_BYTES_MAX + 1)], Some("at most 1572864")),
            (vec![put("/a", 1_500_000), put("/b", 1_500_000), put("/c", 1_500_000)], Some("writes at most")),
            (vec![put("routes/1", 1)], Some("start with a slash")),
            (vec![put("/", 1)], Some("start with a slash")),
            (vec![put("/a\0b", 1)], Some("control character")),
            (vec![put(&long, 1)], Some("at most 512 bytes")),
            (vec![put("/a", 1), Op::Delete { key: "/a".into() }], Some("twice")),
            ((0..=TXN_OPS_MAX).map(|n| put(&format!("/r/{n}"), 1)).collect(), Some("at most 128")),
            (vec![Op::Put { key: "/a".into(), value: [].into(), ttl: Some(Duration::ZERO) }], Some("ttl")),
        ];
        for (then, expected) in cases {
            let result = Txn { then, ..Txn::default() }.check();
            match expected {
                None => assert_eq!(result, Ok(())),
                Some(words) => {
                    let message = result.unwrap_err().to_string();
                    assert!(message.contains(words), "{message:?} should say {words:?}");
                }
            }
        }
        let actor = Some("a".repeat(ACTOR_BYTES_MAX + 1));
        assert!(Txn { actor, ..Txn::default() }.check().is_err());
    }
}
