//! Keeps the disk in step with what is in force, without writing more often than is good for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::continuity::{Continuity, Fault, judge, resources};
use super::disk::{Disk, Saved};
use super::facts::Facts;
use crate::limits::SAVE_PAUSE;
use crate::{Batch, Change, Clock, Entry, Listing, SystemClock};

/// The configuration in force, and the task that saves it.
#[derive(Debug)]
pub(crate) struct Keeper {
    disk: Disk,
    state: Mutex<State>,
    changed: Notify,
    /// Held while the file is replaced: of two saves at once, the older must not be the last.
    saving: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    cluster: u64,
    revision: u64,
    entries: BTreeMap<Arc<str>, Entry>,
    /// Versions before those in `entries`, oldest first, of keys whose newest value is unusable or not yet known to be
    /// usable. The follower says after each burst which of them are active.
    earlier: BTreeMap<Arc<str>, Vec<Entry>>,
    /// When the store was last known to hold this.
    unix_ms: u64,
    unsaved: bool,
}

/// What a reconnect checks before it trusts a store to continue.
#[derive(Debug, Clone)]
pub(crate) struct Anchor {
    pub(crate) cluster: u64,
    pub(crate) revision: u64,
    /// The entry that was written last.
    pub(crate) newest: Option<Entry>,
}

impl Keeper {
    pub(crate) fn new(disk: Disk) -> Self {
        Self { disk, state: Mutex::default(), changed: Notify::new(), saving: Mutex::default() }
    }

    pub(crate) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// What was saved is in force, until the store says otherwise.
    pub(crate) fn restore(&self, saved: Saved) {
        let Saved { unix_ms, listing: Listing { revision, entries, cluster }, earlier } = saved;
        let entries = entries.into_iter().map(|entry| (Arc::clone(&entry.key), entry)).collect();
        let mut state = State { cluster, revision, entries, unix_ms, ..State::default() };
        for entry in earlier {
            state.earlier.entry(Arc::clone(&entry.key)).or_default().push(entry);
        }
        *self.state() = state;
    }

    /// The whole configuration is this.
    pub(crate) fn load(&self, listing: &Listing) {
        let mut state = self.state();
        let mut earlier = BTreeMap::new();
        for entry in &listing.entries {
            let mut before = state.earlier.remove(&entry.key).unwrap_or_default();
            before.extend(state.entries.get(&entry.key).filter(|held| held.value != entry.value).cloned());
            if !before.is_empty() {
                earlier.insert(Arc::clone(&entry.key), before);
            }
        }
        let entries = listing.entries.iter().map(|entry| (Arc::clone(&entry.key), entry.clone())).collect();
        let (cluster, revision) = (listing.cluster, listing.revision);
        *state = State { cluster, revision, entries, earlier, unix_ms: SystemClock.unix_ms(), unsaved: true };
        drop(state);
        self.changed.notify_one();
    }

    /// It has changed so. A second watch may be behind the first one.
    pub(crate) fn apply(&self, batch: &Batch) {
        let mut state = self.state();
        if batch.revision <= state.revision {
            return;
        }
        for change in &batch.changes {
            match change {
                Change::Put(entry) => {
                    // Until the follower has compiled the new value, the old one may be the last usable one.
                    if let Some(before) = state.entries.insert(Arc::clone(&entry.key), entry.clone()) {
                        state.earlier.entry(Arc::clone(&entry.key)).or_default().push(before);
                    }
                }
                Change::Delete { key, .. } => {
                    state.entries.remove(key);
                    state.earlier.remove(key);
                }
            }
        }
        state.revision = batch.revision;
        state.unix_ms = SystemClock.unix_ms();
        state.unsaved = true;
        drop(state);
        self.changed.notify_one();
    }

    /// Of the earlier versions only these are active: returns those that are known, and drops the others.
    pub(crate) fn keep_earlier(&self, active: &[(Arc<str>, Arc<[u8]>)]) -> Vec<Entry> {
        let mut state = self.state();
        if active.is_empty() && state.earlier.is_empty() {
            return Vec::new();
        }
        let known = |(key, value): &(Arc<str>, Arc<[u8]>)| {
            let versions = state.earlier.get(key).into_iter().flatten();
            versions.rev().find(|entry| entry.value == *value).cloned()
        };
        let kept: Vec<Entry> = active.iter().filter_map(known).collect();
        let next = kept.iter().map(|entry| (Arc::clone(&entry.key), vec![entry.clone()])).collect();
        state.unsaved |= state.earlier != next;
        state.earlier = next;
        drop(state);
        self.changed.notify_one();
        kept
    }

    /// The earlier versions that may be active, oldest first.
    pub(crate) fn earlier(&self) -> Vec<Entry> {
        self.state().earlier.values().flatten().cloned().collect()
    }

    /// The configuration in force.
    pub(crate) fn listing(&self) -> Listing {
        let state = self.state();
        let entries = state.entries.values().cloned().collect();
        Listing { revision: state.revision, entries, cluster: state.cluster }
    }

    /// How much of it there is.
    pub(crate) fn facts(&self) -> Facts {
        let state = self.state();
        let resources = resources(state.entries.values());
        Facts { cluster: state.cluster, revision: state.revision, resources }
    }

    /// When the store was last known to hold it, in milliseconds since 1970.
    pub(crate) fn unix_ms(&self) -> u64 {
        self.state().unix_ms
    }

    /// How `found` continues it.
    ///
    /// # Errors
    /// Why it can't be what became of it.
    pub(crate) fn judge(&self, found: &Listing) -> Result<Continuity, Fault> {
        let state = self.state();
        judge(state.cluster, state.revision, &state.entries, found)
    }

    /// Where a watch would continue it.
    pub(crate) fn anchor(&self) -> Anchor {
        let state = self.state();
        let newest = state.entries.values().max_by_key(|entry| entry.mod_revision).cloned();
        Anchor { cluster: state.cluster, revision: state.revision, newest }
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
        let _alone = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let saved = {
            let mut state = self.state();
            if !std::mem::take(&mut state.unsaved) {
                return;
            }
            let entries = state.entries.values().cloned().collect();
            let listing = Listing { revision: state.revision, entries, cluster: state.cluster };
            Saved {
                unix_ms: state.unix_ms,
                listing,
                earlier: state.earlier.values().flatten().cloned().collect(),
            }
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
