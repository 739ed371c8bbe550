//! The default backend: one redb file beside the gateway, no service to run.
//!
//! Writes go through one thread that commits all that wait together (one pair of fsyncs for many transactions);
//! reads are redb's own snapshots, so nothing is kept in memory twice and nothing is seen before it is durable.

mod apply;
mod fault;
mod file;
mod follow;
mod presence;
mod read;
mod shared;
mod tables;
#[cfg(test)]
mod tests;
mod trial;
mod writer;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot, watch};

use crate::limits::{
    EMBEDDED_TXN_BYTES_MAX, EMBEDDED_TXN_OPS_MAX, HISTORY_BYTES, HISTORY_PAGE_MAX, HISTORY_REVISIONS,
    QUEUE_MAX, SWEEP_INTERVAL,
};
use crate::txn::check_key;
use crate::{
    BoxFuture, Clock, Entry, Health, Listing, Op, RevisionRecord, Store, StoreError, SystemClock, Txn,
    TxnLimits, TxnOutcome, Watch,
};
use apply::Retention;
use follow::Follow;
use presence::Presence;
use shared::Shared;
use writer::{Job, Work, Writer};

/// How an embedded store is opened.
#[derive(Clone)]
pub struct EmbeddedConfig {
    /// The file. Its directory is created with mode 0700 if it is missing; a `.lock` file stands beside it.
    pub path: PathBuf,
    /// Newest revisions kept (the newest one always is); [`HISTORY_REVISIONS`] by default.
    pub history_revisions: u64,
    /// Bytes of replaced values kept; [`HISTORY_BYTES`] by default.
    pub history_bytes: u64,
    /// How late an expired entry may be deleted; [`SWEEP_INTERVAL`] by default.
    pub sweep_interval: Duration,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
}

impl EmbeddedConfig {
    /// The defaults, for the file at `path`.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            history_revisions: HISTORY_REVISIONS,
            history_bytes: HISTORY_BYTES,
            sweep_interval: SWEEP_INTERVAL,
            clock: Arc::new(SystemClock),
        }
    }
}

/// The store in a file.
///
/// Dropping it finishes the writes that wait, ends the watches and closes the file.
pub struct Embedded {
    shared: Arc<Shared>,
    places: Arc<Semaphore>,
    /// `None` only while dropping: the writer ends when its last sender is gone.
    jobs: Option<Sender<Job>>,
    writer: Option<JoinHandle<()>>,
}

impl Embedded {
    /// Opens the store, and creates it if there is none. Blocks while the whole file is checked.
    ///
    /// # Errors
    /// [`StoreError::Locked`], [`StoreError::Damaged`], [`StoreError::Foreign`], [`StoreError::Newer`] or
    /// [`StoreError::Io`]; the file is then as it was.
    pub fn open(config: EmbeddedConfig) -> Result<Self, StoreError> {
        let shared = Arc::new(Shared::open(&config.path)?);
        Self::start(shared, config)
    }

    /// A store that lives as long as the process, empty at first. The path stands for it in messages.
    ///
    /// # Errors
    /// [`StoreError::Io`] where no thread can be had.
    pub fn in_memory(config: EmbeddedConfig) -> Result<Self, StoreError> {
        let shared = Arc::new(Shared::in_memory(&config.path)?);
        Self::start(shared, config)
    }

    fn start(shared: Arc<Shared>, config: EmbeddedConfig) -> Result<Self, StoreError> {
        let (jobs, queue) = mpsc::channel();
        let writer = Writer {
            shared: Arc::clone(&shared),
            jobs: queue,
            clock: config.clock,
            retention: Retention { revisions: config.history_revisions, bytes: config.history_bytes },
            sweep_interval: config.sweep_interval,
        };
        let writer = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(|error| StoreError::Io { path: config.path, detail: error.to_string() })?;
        Ok(Self {
            shared,
            places: Arc::new(Semaphore::new(QUEUE_MAX)),
            jobs: Some(jobs),
            writer: Some(writer),
        })
    }

    /// [`Health::Following`], or [`Health::Detached`] while the store's file was removed, replaced or truncated; `None`
    /// for a store in memory.
    #[must_use]
    pub fn health(&self) -> Option<watch::Receiver<Health>> {
        self.shared.presence().map(Presence::health)
    }

    /// The store's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.shared.path()
    }

    /// Makes `entries` all that the store holds, in one revision however many there are; without one where they are
    /// what it holds. Answers the revision that has them.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a key or value that no store takes, and those of a transaction.
    pub async fn replace(
        &self,
        entries: BTreeMap<String, Arc<[u8]>>,
        actor: Option<&str>,
    ) -> Result<u64, StoreError> {
        let held = self.list("").await?;
        let mut then = Vec::new();
        for entry in &held.entries {
            if !entries.contains_key(&*entry.key) {
                then.push(Op::Delete { key: entry.key.to_string() });
            }
        }
        let held: HashMap<&str, &Arc<[u8]>> =
            held.entries.iter().map(|entry| (&*entry.key, &entry.value)).collect();
        for (key, value) in entries {
            if held.get(key.as_str()) == Some(&&value) {
                continue;
            }
            let op = Op::Put { key, value, ttl: None };
            // Each by itself: the limits of a transaction are etcd's, and this one is none of a client.
            Txn { then: vec![op.clone()], ..Txn::default() }.check()?;
            then.push(op);
        }
        let txn = Txn { when: Vec::new(), then, actor: actor.map(str::to_owned) };
        match self.submit(Work::Txn(txn)).await? {
            TxnOutcome::Committed(committed) => Ok(committed.revision),
            TxnOutcome::Refused { .. } => {
                Err(StoreError::Unavailable("a transaction without preconditions was refused".to_owned()))
            }
        }
    }

    async fn submit(&self, work: Work) -> Result<TxnOutcome, StoreError> {
        let gone = || StoreError::Unavailable("its writer has ended".to_owned());
        // The channel has no bound of its own; the places are the bound, and waiting for one doesn't block a thread.
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| gone())?;
        let (reply, answer) = oneshot::channel();
        let jobs = self.jobs.as_ref().ok_or_else(gone)?;
        jobs.send(Job { work, reply, _place: place }).map_err(|_| gone())?;
        answer.await.map_err(|_| StoreError::Unknown("its writer has ended".to_owned()))?
    }
}

impl Store for Embedded {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        Box::pin(async move {
            check_key(key)?;
            let key = key.to_owned();
            Arc::clone(&self.shared).read_aside(move |txn| read::get(&txn, &key)).await
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        let prefix = prefix.to_owned();
        Box::pin(Arc::clone(&self.shared).read_aside(move |txn| read::list(&txn, &prefix)))
    }

    fn txn_limits(&self) -> TxnLimits {
        TxnLimits { operations: EMBEDDED_TXN_OPS_MAX, bytes: EMBEDDED_TXN_BYTES_MAX }
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome, StoreError>> {
        Box::pin(async move {
            txn.check_within(self.txn_limits())?;
            self.submit(Work::Txn(txn)).await
        })
    }

    fn watch(&self, from: u64) -> BoxFuture<'_, Result<Box<dyn Watch>, StoreError>> {
        Box::pin(async move {
            let follow = Follow::start(&self.shared, from).await?;
            Ok(Box::new(follow) as Box<dyn Watch>)
        })
    }

    fn history(
        &self,
        before: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<RevisionRecord>, StoreError>> {
        let limit = limit.min(HISTORY_PAGE_MAX);
        Box::pin(Arc::clone(&self.shared).read_aside(move |txn| read::history(&txn, before, limit)))
    }

    fn value_at<'a>(
        &'a self,
        key: &'a str,
        revision: u64,
    ) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        Box::pin(async move {
            check_key(key)?;
            let key = key.to_owned();
            Arc::clone(&self.shared).read_aside(move |txn| read::value_at(&txn, &key, revision)).await
        })
    }

    fn compact(&self, revision: u64) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move { self.submit(Work::Compact(revision)).await.map(|_| ()) })
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!(path = %self.shared.path().display(), "the store's writer panicked");
        }
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").field("path", &self.shared.path()).finish_non_exhaustive()
    }
}
