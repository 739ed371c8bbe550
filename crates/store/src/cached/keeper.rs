//! Keeps the disk in step with what is in force, without writing more often than is good for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::disk::{Disk, Saved};
use crate::limits::SAVE_PAUSE;
use crate::{Batch, Change, Clock, Entry, Listing, SystemClock};

/// The configuration in force, and the task that saves it.
#[derive(Debug)]
pub(crate) struct Keeper {
    disk: Disk,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    revision: u64,
    entries: BTreeMap<Arc<str>, Entry>,
    unsaved: bool,
}

impl Keeper {
    pub(crate) fn new(disk: Disk) -> Self {
        Self { disk, state: Mutex::default(), changed: Notify::new() }
    }

    pub(crate) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// The whole configuration is this.
    pub(crate) fn load(&self, listing: &Listing) {
        let entries = listing.entries.iter().map(|entry| (Arc::clone(&entry.key), entry.clone())).collect();
        *self.state() = State { revision: listing.revision, entries, unsaved: true };
        self.changed.notify_one();
    }

    /// It has changed so.
    pub(crate) fn apply(&self, batch: &Batch) {
        let mut state = self.state();
        for change in &batch.changes {
            match change {
                Change::Put(entry) => state.entries.insert(Arc::clone(&entry.key), entry.clone()),
                Change::Delete { key, .. } => state.entries.remove(key),
            };
        }
        state.revision = batch.revision;
        state.unsaved = true;
        drop(state);
        self.changed.notify_one();
    }

    /// Saves whenever there is something to save, with pauses in between.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            self.changed.notified().await;
            let keeper = Arc::clone(&self);
            // Whether it could be saved is in the log.
            let _ = tokio::task::spawn_blocking(move || keeper.save()).await;
            tokio::time::sleep(SAVE_PAUSE).await;
        }
    }

    /// Saves what is not saved.
    pub(crate) fn save(&self) {
        let saved = {
            let mut state = self.state();
            if !std::mem::take(&mut state.unsaved) {
                return;
            }
            let entries = state.entries.values().cloned().collect();
            let listing = Listing { revision: state.revision, entries };
            Saved { unix_ms: SystemClock.unix_ms(), listing }
        };
        if let Err(error) = self.disk.save(&saved) {
            tracing::error!(%error, "the configuration in force is not kept on disk");
            self.state().unsaved = true;
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
