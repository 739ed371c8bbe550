//! Staying up when the centre is down: what was loaded last is kept on disk, and a watch that ends begins anew.
//!
//! Made for the one that follows a configuration. Who writes, or wants to know what is so now, asks the centre itself.

mod centre;
mod continuity;
mod decision;
mod disk;
mod facts;
mod guarded;
mod keeper;
mod rejection;
#[cfg(test)]
mod tests;
mod watch;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::watch::{Receiver, Sender};
use tokio::time::timeout;

use crate::limits::FIRST_ANSWER;
use crate::{
    BoxFuture, Clock, Entry, Listing, RevisionRecord, Store, StoreError, SystemClock, Txn, TxnLimits,
    TxnOutcome, Watch,
};
pub(crate) use centre::Centre;
pub use centre::Health;
use decision::Decision;
use disk::{Disk, Saved};
use keeper::Keeper;
use watch::Persistent;

pub use facts::{Acceptance, Accepted, Facts, Rejection};
pub use guarded::Guarded;

/// A store whose configuration outlives it.
pub struct Cached {
    centre: Arc<Centre>,
    stale: AtomicBool,
    /// Whether what the disk has was looked at.
    begun: AtomicBool,
    saving: OnceLock<()>,
}

impl Cached {
    /// Keeps what `inner` holds in the file at `path`. `source` says where it comes from: what another source left
    /// there is not used.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>, path: PathBuf, source: String) -> Self {
        let keeper = Arc::new(Keeper::new(Disk::new(path, source)));
        let health = Sender::new(Health::Starting(None));
        Self {
            centre: Arc::new(Centre {
                inner,
                keeper,
                health,
                decision: Decision::default(),
                followed: AtomicBool::new(false),
            }),
            stale: AtomicBool::new(false),
            begun: AtomicBool::new(false),
            saving: OnceLock::new(),
        }
    }

    /// How things stand, now and later.
    #[must_use]
    pub fn health(&self) -> Receiver<Health> {
        self.centre.health.subscribe()
    }

    /// Whether there is a configuration on disk to start from.
    #[must_use]
    pub fn has_saved(&self) -> bool {
        self.centre.keeper.disk().path().is_file()
    }

    /// Whether the configuration of `source` that was kept in the file at `path` has resources.
    #[must_use]
    pub fn had_resources(path: PathBuf, source: String) -> bool {
        let saved = Disk::new(path, source).load();
        matches!(saved, Ok(Some(saved)) if continuity::resources(&saved.listing.entries) > 0)
    }

    /// Writes to the disk what has not been written yet.
    pub fn flush(&self) {
        self.centre.keeper.save();
    }

    /// Takes what the rejected centre holds as the configuration; with `seen_revision`, only if it is still at that one.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] where it isn't rejected, [`StoreError::Unavailable`] where it isn't loaded in time.
    pub async fn accept(
        &self,
        actor: Option<String>,
        seen_revision: Option<u64>,
    ) -> Result<Accepted, StoreError> {
        self.centre.accept(actor, seen_revision).await
    }

    /// The centre itself, without writes while it is rejected.
    #[must_use]
    pub fn guarded(&self) -> Guarded {
        Guarded::new(Arc::clone(&self.centre))
    }

    async fn load(&self) -> Result<Listing, StoreError> {
        let centre = &*self.centre;
        let saved = self.restore().await;
        let ask = centre.inner.list("");
        // Only who has something to go on with is in a hurry.
        let answer = match &saved {
            None => ask.await,
            Some(_) => timeout(FIRST_ANSWER, ask).await.unwrap_or_else(|_| {
                Err(StoreError::Unavailable(format!("no answer in {} s", FIRST_ANSWER.as_secs())))
            }),
        };
        match answer {
            Ok(listing) => Ok(self.judged(listing).await),
            Err(error) if saved.is_some() => {
                let Facts { revision, resources, .. } = centre.keeper.facts();
                tracing::error!(revision, resources, "starting with the last configuration known: {error}");
                self.stale.store(true, Ordering::Relaxed);
                let (saved_unix_ms, reason) = (centre.keeper.unix_ms(), error.to_string());
                centre.set(Health::Stale { saved_unix_ms, revision, reason });
                Ok(centre.keeper.listing())
            }
            Err(error) => {
                centre.lost(&error);
                Err(error)
            }
        }
    }

    /// What to serve now that the centre says `found`: that, or what was served before.
    async fn judged(&self, found: Listing) -> Listing {
        let centre = &*self.centre;
        self.stale.store(false, Ordering::Relaxed);
        self.start_saving();
        // Without a cluster revisions begin with the process: those on disk mean something else.
        let comparable = found.cluster != 0 || centre.followed.load(Ordering::Relaxed);
        if comparable && let Some(fault) = centre.verdict(&found).await {
            centre.reject(&fault, &found);
            return centre.keeper.listing();
        }
        let before = centre.keeper.facts();
        if before.cluster != 0 && (before.cluster != found.cluster || found.revision < before.revision) {
            tracing::warn!(
                revision_before = before.revision,
                revision = found.revision,
                "the config source has another history now"
            );
        }
        centre.keeper.load(&found);
        centre.followed.store(true, Ordering::Relaxed);
        centre.inner.expect_at_least(found.cluster, found.revision);
        centre.decision.clear();
        centre.set(Health::Following);
        found
    }

    /// Takes the configuration on disk, at the first call; `None` where there is none.
    async fn restore(&self) -> Option<()> {
        if self.begun.swap(true, Ordering::Relaxed) {
            return None;
        }
        let disk = self.centre.keeper.disk().clone();
        match tokio::task::spawn_blocking(move || disk.load()).await {
            Ok(Ok(saved)) => {
                let Saved { listing, .. } = saved.as_ref()?;
                self.centre.inner.expect_at_least(listing.cluster, listing.revision);
                saved.map(|saved| self.centre.keeper.restore(saved))
            }
            Ok(Err(error)) => {
                tracing::error!("the last configuration known is of no use: {error}");
                None
            }
            Err(_) => None,
        }
    }

    fn start_saving(&self) {
        self.saving.get_or_init(|| drop(tokio::spawn(Arc::clone(&self.centre.keeper).run())));
    }
}

impl Centre {
    fn set(&self, health: Health) {
        self.health.send_if_modified(|current| {
            match (&health, &*current) {
                (Health::Following, Health::Lost { .. } | Health::Stale { .. }) => {
                    tracing::warn!("the configuration centre is back; every change is taken in again");
                }
                (Health::Following, Health::Rejected(_)) => {
                    tracing::warn!("the config source is no longer rejected; every change is taken in again");
                }
                _ => {}
            }
            let changed = *current != health;
            *current = health;
            changed
        });
    }

    /// Notes that the centre is away; the first time it is said aloud.
    fn lost(&self, error: &StoreError) {
        let reason = error.to_string();
        let next = match &*self.health.borrow() {
            Health::Starting(_) => Health::Starting(Some(reason)),
            Health::Following => {
                tracing::error!("lost the configuration centre, going on with what was loaded: {reason}");
                Health::Lost { since_unix_ms: SystemClock.unix_ms(), reason }
            }
            Health::Lost { since_unix_ms, .. } => Health::Lost { since_unix_ms: *since_unix_ms, reason },
            Health::Stale { saved_unix_ms, revision, .. } => {
                Health::Stale { saved_unix_ms: *saved_unix_ms, revision: *revision, reason }
            }
            Health::Rejected(rejection) => {
                Health::Rejected(Rejection { reachable: false, ..rejection.clone() })
            }
            // A state of stores that are never away.
            detached @ Health::Detached { .. } => detached.clone(),
        };
        self.set(next);
    }
}

impl Store for Cached {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        self.centre.inner.get(key)
    }

    /// The whole configuration, from the disk if need be; a part of it from the centre alone.
    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        if prefix.is_empty() { Box::pin(self.load()) } else { self.centre.inner.list(prefix) }
    }

    fn txn_limits(&self) -> TxnLimits {
        self.centre.inner.txn_limits()
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome, StoreError>> {
        self.centre.inner.txn(txn)
    }

    fn earlier(&self) -> Vec<Entry> {
        self.centre.keeper.earlier()
    }

    fn keep_earlier(&self, active: &[(Arc<str>, Arc<[u8]>)]) -> Vec<Entry> {
        self.centre.keeper.keep_earlier(active)
    }

    /// A watch that waits for the centre as long as it takes.
    fn watch(&self, from: u64) -> BoxFuture<'_, Result<Box<dyn Watch>, StoreError>> {
        let stale = self.stale.load(Ordering::Relaxed);
        let watch = Persistent::new(Arc::clone(&self.centre), from, stale);
        Box::pin(std::future::ready(Ok(Box::new(watch) as Box<dyn Watch>)))
    }

    fn history(
        &self,
        before: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<RevisionRecord>, StoreError>> {
        self.centre.inner.history(before, limit)
    }

    fn value_at<'a>(
        &'a self,
        key: &'a str,
        revision: u64,
    ) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        self.centre.inner.value_at(key, revision)
    }

    fn compact(&self, revision: u64) -> BoxFuture<'_, Result<(), StoreError>> {
        self.centre.inner.compact(revision)
    }
}

impl fmt::Debug for Cached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cached").field("health", &*self.centre.health.borrow()).finish_non_exhaustive()
    }
}
