//! The store behind, and how things stand with it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::watch::Sender;

use super::decision::Decision;
use super::facts::Rejection;
use super::keeper::Keeper;
use crate::Store;

/// How things stand with the centre.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// Nothing has been loaded; why, where it was tried.
    Starting(Option<String>),
    /// Every change is taken in as it happens.
    Following,
    /// The centre is away; what was loaded from it is in force.
    Lost {
        /// Since when, in milliseconds since 1970.
        since_unix_ms: u64,
        /// Why.
        reason: String,
    },
    /// The centre has not been reached since the start; what was in force before is in force again.
    Stale {
        /// When it was saved, in milliseconds since 1970.
        saved_unix_ms: u64,
        /// Its revision.
        revision: u64,
        /// Why the centre isn't reached.
        reason: String,
    },
    /// The centre holds something that can't have come from the configuration in force by ordinary changes: it was
    /// emptied, restored from a backup, or replaced. The configuration in force stays.
    Rejected(Rejection),
    /// The embedded store's file was removed, replaced or truncated under the running gateway, which serves what it has
    /// loaded and refuses writes.
    Detached {
        /// Since when, in milliseconds since 1970.
        since_unix_ms: u64,
        /// What happened, and what to do.
        reason: String,
    },
}

/// The store behind, and what is known of it.
pub(crate) struct Centre {
    pub(super) inner: Arc<dyn Store>,
    pub(super) keeper: Arc<Keeper>,
    pub(super) health: Sender<Health>,
    pub(super) decision: Decision,
    /// Whether the centre has been listed and followed since the start.
    pub(super) followed: AtomicBool,
}
