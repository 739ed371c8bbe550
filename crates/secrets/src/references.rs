//! The values behind `$secret://` references: asked of their managers on threads of their own, kept, and renewed when
//! their time is over.
//!
//! A value that can't be renewed stays in use: a manager that is away must not take the gateway's credentials with it.
//! APISIX forgets it and uses the reference's own text.

use crate::http::Client;
use crate::limits::ASKING_THREADS;
use crate::reference::ManagedRef;
use crate::source::Sources;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How long what managers say is believed (`apisix.lru.secret`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// `ttl`: a value, until it is asked for again.
    pub value: Duration,
    /// `neg_ttl`: a failure, until the next try.
    pub failure: Duration,
}

impl Default for Lifetimes {
    /// APISIX's.
    fn default() -> Self {
        Self { value: Duration::from_secs(300), failure: Duration::from_secs(60) }
    }
}

/// The values behind references. Its threads end with it.
pub struct References(Arc<Shared>);

struct Shared {
    lifetimes: Lifetimes,
    client: Client,
    managers: Sources,
    state: Mutex<State>,
    /// Something may be due.
    work: Condvar,
    /// A first answer has come.
    known: Condvar,
    /// A value is another than the one that was told.
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Sources' resources by id: `vault/1`.
    managers: HashMap<String, Arc<Value>>,
    entries: HashMap<ManagedRef, Entry>,
    /// What is to be asked, by when; what is not in it is being asked.
    schedule: BTreeSet<(Instant, ManagedRef)>,
    changed: BTreeSet<ManagedRef>,
    threads: usize,
    ended: bool,
}

#[derive(Default)]
struct Entry {
    /// The last value or, where there never was one, why not. `None` before the first answer.
    answer: Option<Result<Value, String>>,
    /// Whether somebody built on what was known, and has to hear of another value.
    told: bool,
    /// When it is in the schedule; `None` while it is asked.
    due: Option<Instant>,
    /// Asked of a manager that has changed since.
    outdated: bool,
}

impl References {
    /// No references yet, and no threads.
    #[must_use]
    pub fn new(lifetimes: Lifetimes) -> Self {
        Self(Arc::new(Shared {
            lifetimes,
            client: Client::default(),
            managers: Sources::default(),
            state: Mutex::default(),
            work: Condvar::new(),
            known: Condvar::new(),
            changed: Notify::new(),
        }))
    }

    /// Takes in a manager's resource (`id` is `vault/1`); `None` where it was deleted. What was known through it is
    /// asked again; of a deleted one it is forgotten.
    pub(crate) fn manager(&self, id: &str, config: Option<Value>) {
        let mut state = self.0.lock();
        let known = state.managers.get(id).map(|known| &**known);
        if known == config.as_ref() {
            return;
        }
        let deleted = config.is_none();
        match config {
            Some(config) => state.managers.insert(id.to_owned(), Arc::new(config)),
            None => state.managers.remove(id),
        };
        let State { entries, schedule, changed, .. } = &mut *state;
        let now = Instant::now();
        for (reference, entry) in entries {
            if reference.parts().is_none_or(|(manager, _)| manager != id) {
                continue;
            }
            if deleted || entry.answer.as_ref().is_some_and(Result::is_err) {
                entry.answer = None;
                if entry.told {
                    changed.insert(reference.clone());
                }
            }
            match entry.due {
                Some(_) => schedule_at(schedule, reference, entry, now),
                None => entry.outdated = true,
            }
        }
        drop(state);
        self.0.work.notify_all();
        self.0.changed.notify_one();
    }

    /// The value behind a reference. One not heard of yet is asked for, and waited for until `until`; it is renewed from
    /// then on, until [`Self::forget`].
    ///
    /// # Errors
    /// Why there is no value, or not yet.
    pub(crate) fn value(&self, reference: &ManagedRef, until: Instant) -> Result<Value, String> {
        let mut state = self.0.lock();
        loop {
            let State { entries, schedule, .. } = &mut *state;
            let new = !entries.contains_key(reference);
            let entry = entries.entry(reference.clone()).or_default();
            if new {
                schedule_at(schedule, reference, entry, Instant::now());
                self.0.work.notify_one();
            }
            if let Some(answer) = &entry.answer {
                entry.told = true;
                return answer.clone();
            }
            let patience = until.saturating_duration_since(Instant::now());
            if patience.is_zero() {
                entry.told = true;
                self.start_threads(state)?;
                return Err(
                    "its manager has not answered yet; the value is used as soon as it comes".to_owned()
                );
            }
            self.start_threads(state)?;
            state = self.0.lock();
            if state.entries.get(reference).is_some_and(|entry| entry.answer.is_some()) {
                continue;
            }
            let patience = until.saturating_duration_since(Instant::now());
            state = self.0.known.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Nobody uses the reference any more.
    pub fn forget(&self, reference: &ManagedRef) {
        let mut state = self.0.lock();
        if let Some(due) = state.entries.remove(reference).and_then(|entry| entry.due) {
            state.schedule.remove(&(due, reference.clone()));
        }
        state.changed.remove(reference);
    }

    /// Waits until a value is another than the one that was told, or came after all.
    pub async fn changed(&self) {
        loop {
            if !self.0.lock().changed.is_empty() {
                return;
            }
            self.0.changed.notified().await;
        }
    }

    /// The references whose values are others than those that were told, and forgets that they are.
    #[must_use]
    pub fn take_changed(&self) -> BTreeSet<ManagedRef> {
        std::mem::take(&mut self.0.lock().changed)
    }

    /// Starts the threads that ask, where they aren't there yet.
    fn start_threads(&self, mut state: MutexGuard<'_, State>) -> Result<(), String> {
        while state.threads < ASKING_THREADS {
            let shared = Arc::clone(&self.0);
            let thread = std::thread::Builder::new().name("secrets".to_owned());
            match thread.spawn(move || shared.ask_until_ended()) {
                Ok(_) => state.threads += 1,
                // One thread does the work as well, only slower.
                Err(error) if state.threads == 0 => {
                    return Err(format!("no thread can be had to ask its manager: {error}"));
                }
                Err(_) => break,
            }
        }
        Ok(())
    }
}

impl Drop for References {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.work.notify_all();
    }
}

impl std::fmt::Debug for References {
    /// Without the values.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.0.lock();
        f.debug_struct("References").field("entries", &state.entries.len()).finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask_until_ended(&self) {
        let mut state = self.lock();
        while !state.ended {
            let now = Instant::now();
            let next = state.schedule.first().map(|(due, _)| *due);
            match next {
                Some(due) if due <= now => {
                    let Some((_, reference)) = state.schedule.pop_first() else { continue };
                    if let Some(entry) = state.entries.get_mut(&reference) {
                        (entry.due, entry.outdated) = (None, false);
                    }
                    let config = reference.parts().and_then(|(id, _)| state.managers.get(id)).map(Arc::clone);
                    drop(state);
                    let answer = self.ask(&reference, config.as_deref());
                    state = self.lock();
                    self.note(&mut state, reference, answer);
                }
                Some(due) => {
                    let waited = self.work.wait_timeout(state, due.saturating_duration_since(now));
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                None => state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn ask(&self, reference: &ManagedRef, config: Option<&Value>) -> Result<Value, String> {
        let (id, key) = reference.parts().ok_or("it is malformed")?;
        let config = config.ok_or_else(|| format!("no secret conf: there is no resource /secrets/{id}"))?;
        self.managers.fetch(&self.client, id, config, key)
    }

    fn note(&self, state: &mut State, reference: ManagedRef, answer: Result<Value, String>) {
        let State { entries, schedule, changed, .. } = state;
        // Forgotten while it was asked.
        let Some(entry) = entries.get_mut(&reference) else { return };
        let now = Instant::now();
        if std::mem::take(&mut entry.outdated) {
            schedule_at(schedule, &reference, entry, now);
            self.work.notify_one();
            return;
        }
        let again = now + if answer.is_ok() { self.lifetimes.value } else { self.lifetimes.failure };
        schedule_at(schedule, &reference, entry, again);
        match (&entry.answer, answer) {
            (Some(Ok(_)), Err(error)) => {
                tracing::warn!("a secret can't be renewed and stays as it was: {}: {error}", reference.0);
            }
            (before, answer) => {
                let differs = match (before, &answer) {
                    (Some(before), answer) => before.as_ref().ok() != answer.as_ref().ok(),
                    (None, answer) => answer.is_ok(),
                };
                entry.answer = Some(answer);
                if entry.told && differs {
                    changed.insert(reference);
                    self.changed.notify_one();
                }
                self.known.notify_all();
            }
        }
    }
}

/// Moves an entry to its place in the schedule.
fn schedule_at(
    schedule: &mut BTreeSet<(Instant, ManagedRef)>,
    reference: &ManagedRef,
    entry: &mut Entry,
    due: Instant,
) {
    if let Some(before) = entry.due.replace(due) {
        schedule.remove(&(before, reference.clone()));
    }
    schedule.insert((due, reference.clone()));
}
