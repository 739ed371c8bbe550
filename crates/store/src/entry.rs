//! What a store holds and how it says that it changed.

use std::sync::Arc;

/// One key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key, such as `/routes/1`.
    pub key: Arc<str>,
    /// The value as it was written: JSON, but the store doesn't look inside.
    pub value: Arc<[u8]>,
    /// The revision since which the key exists without interruption.
    pub create_revision: u64,
    /// The revision that wrote this value.
    pub mod_revision: u64,
    /// When the entry deletes itself, in milliseconds since 1970; `None` if it stays, or if the backend keeps the
    /// time to itself.
    pub expires_at_ms: Option<u64>,
}

/// One key's change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The key now has this value.
    Put(Entry),
    /// The key is gone: deleted, or expired.
    Delete {
        /// The key.
        key: Arc<str>,
        /// The revision that deleted it.
        revision: u64,
    },
}

impl Change {
    /// The key that changed.
    #[must_use]
    pub fn key(&self) -> &Arc<str> {
        match self {
            Self::Put(entry) => &entry.key,
            Self::Delete { key, .. } => key,
        }
    }
}

/// All changes of one revision, in the order of the transaction's operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The revision.
    pub revision: u64,
    /// Its changes; at most one for each key.
    pub changes: Vec<Change>,
}

/// The entries under a prefix, all as of one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The store's newest revision at the moment of the listing. A watch from `revision + 1` continues it.
    pub revision: u64,
    /// The entries in the byte order of their keys.
    pub entries: Vec<Entry>,
    /// The id of the cluster that answered; 0 where the backend has none, and its revisions don't outlive the process.
    pub cluster: u64,
}
