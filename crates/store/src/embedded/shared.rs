//! What readers, watches and the writer have in common: the open file and the newest revision.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use redb::{Database, ReadTransaction, ReadableDatabase};
use tokio::sync::watch;

use super::fault::{Fault, damaged_by_panic};
use super::file::{self, Lock};
use super::presence::Presence;
use super::read;
use crate::StoreError;

/// The open store.
pub(crate) struct Shared {
    path: PathBuf,
    /// Dropped before the lock. `None` while a failed file could not be opened again.
    database: RwLock<Option<Database>>,
    newest: watch::Sender<u64>,
    /// `None` for a store in memory.
    file: Option<Held>,
}

/// The right to use the store's file, and whether it is still where it was.
struct Held {
    presence: Presence,
    _lock: Lock,
}

impl Shared {
    /// Locks and opens the store at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let lock = Lock::take(path)?;
        let database = file::open_or_create(path)?;
        let shared = Self {
            path: path.to_owned(),
            database: RwLock::new(Some(database)),
            newest: watch::Sender::new(0),
            file: Some(Held { presence: Presence::new(path)?, _lock: lock }),
        };
        let revision = shared.read(|txn| read::newest(&txn)).map_err(|fault| fault.at(path))?;
        shared.announce(revision);
        Ok(shared)
    }

    /// Makes an empty store in memory. `name` stands for it in messages.
    pub(crate) fn in_memory(name: &Path) -> Result<Self, StoreError> {
        let database = RwLock::new(Some(file::in_memory(name)?));
        Ok(Self { path: name.to_owned(), database, newest: watch::Sender::new(0), file: None })
    }

    /// The store's file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the store's file is; `None` for a store in memory.
    pub(crate) fn presence(&self) -> Option<&Presence> {
        self.file.as_ref().map(|file| &file.presence)
    }

    /// The newest committed revision, now and later.
    pub(crate) fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Wakes the watches.
    pub(crate) fn announce(&self, revision: u64) {
        self.newest.send_if_modified(|newest| std::mem::replace(newest, revision) != revision);
    }

    /// Runs `work` on the open database.
    pub(crate) fn with_database<T>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        match &*database {
            Some(database) => work(database),
            None => Err(StoreError::Unavailable(format!("{} is not open", self.path.display())).into()),
        }
    }

    /// Runs `work` on the state as of the newest commit.
    pub(crate) fn read<T>(&self, work: impl FnOnce(ReadTransaction) -> Result<T, Fault>) -> Result<T, Fault> {
        work(self.with_database(|database| Ok(database.begin_read()?))?)
    }

    /// As [`read`](Self::read), off the runtime's thread: a listing of 100,000 entries takes some 0.3 s.
    pub(crate) async fn read_aside<T: Send + 'static>(
        self: Arc<Self>,
        work: impl FnOnce(ReadTransaction) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = Arc::clone(&self);
        let joined = tokio::task::spawn_blocking(move || shared.read(work)).await;
        match joined {
            Ok(result) => result.map_err(|fault| fault.at(&self.path)),
            Err(error) => Err(match error.try_into_panic() {
                Ok(panic) => damaged_by_panic(&self.path, &*panic),
                Err(_) => StoreError::Unavailable("the runtime is shutting down".to_owned()),
            }),
        }
    }

    /// Whether the file is open; it isn't after a failure from which [`reopen`](Self::reopen) did not recover.
    pub(crate) fn is_open(&self) -> bool {
        self.database.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Closes the file and opens it anew; it never creates one, which would hide that it has gone, and never takes another
    /// one, whose history isn't the one that watches have followed.
    pub(crate) fn reopen(&self) -> Result<(), StoreError> {
        let Some(presence) = self.presence() else {
            return Err(StoreError::Unavailable(format!("{} has failed", self.path.display())));
        };
        presence.check()?;
        let mut slot = self.database.write().unwrap_or_else(PoisonError::into_inner);
        // First closed, then opened: redb's own lock allows the file once.
        *slot = None;
        *slot = Some(file::open(&self.path)?);
        presence.reopened()?;
        drop(slot);
        // The failed commit may have reached the disk after all.
        let revision = self.read(|txn| read::newest(&txn)).map_err(|fault| fault.at(&self.path))?;
        self.announce(revision);
        Ok(())
    }
}
