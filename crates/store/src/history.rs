//! The bounded past of a store.

use std::sync::Arc;

/// One revision that is still kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionRecord {
    /// The revision.
    pub revision: u64,
    /// When it was written, in milliseconds since 1970; `None` where the backend doesn't record it.
    pub unix_ms: Option<u64>,
    /// Who wrote it: what the transaction named, or [`crate::RevisionRecord::EXPIRY`] for an expiry.
    pub actor: Option<String>,
    /// The keys it touched, in the order of the transaction's operations.
    pub keys: Vec<KeyChange>,
}

impl RevisionRecord {
    /// The actor of a revision in which the store itself deleted what had expired.
    pub const EXPIRY: &'static str = "expiry";
}

/// What a revision did to one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyChange {
    /// The key.
    pub key: Arc<str>,
    /// Whether the key is gone since this revision.
    pub deleted: bool,
}
