//! A config source in memory that can be lost, emptied, rolled back and replaced, and a node that follows it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::super::{Acceptance, Cached, Health};
use crate::{
    Batch, BoxFuture, Change, Entry, Listing, RevisionRecord, Store, StoreError, Txn, TxnOutcome, Watch,
};

/// Longer than every pause after which a node looks at its source again; tests' time is not the clock's.
const SETTLED: Duration = Duration::from_secs(15);

pub(crate) type Contents = BTreeMap<String, Entry>;

/// What a backup has.
#[derive(Clone, Default)]
pub(crate) struct Data {
    pub(crate) cluster: u64,
    pub(crate) revision: u64,
    /// The contents after each revision, as far as they are kept.
    states: BTreeMap<u64, Contents>,
    acceptance: Option<Acceptance>,
}

struct State {
    data: Data,
    up: bool,
    /// How often connections were cut.
    cuts: u64,
    written: u64,
}

#[derive(Clone)]
pub(crate) struct Source {
    state: Arc<Mutex<State>>,
    moved: Arc<watch::Sender<()>>,
}

impl Source {
    pub(crate) fn new(cluster: u64) -> Self {
        let state = State { data: Data::empty(cluster), up: true, cuts: 0, written: 0 };
        Self { state: Arc::new(Mutex::new(state)), moved: Arc::new(watch::Sender::new(())) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// One revision in which these keys are written (with values never written before) or deleted.
    pub(crate) fn change(&self, puts: &[&str], deletes: &[&str]) {
        let mut state = self.state();
        state.written += 1;
        let (written, revision) = (state.written, state.data.revision + 1);
        let mut contents = state.data.contents();
        for key in puts {
            let create_revision = contents.get(*key).map_or(revision, |entry| entry.create_revision);
            let value = format!("{{\"n\":{written}}}").into_bytes().into();
            let entry = Entry {
                key: (*key).into(),
                value,
                create_revision,
                mod_revision: revision,
                expires_at_ms: None,
            };
            contents.insert((*key).to_owned(), entry);
        }
        deletes.iter().for_each(|key| drop(contents.remove(*key)));
        state.data.states.insert(revision, contents);
        state.data.revision = revision;
        drop(state);
        self.moved.send_replace(());
    }

    pub(crate) fn delete_all(&self) {
        let keys: Vec<String> = self.contents().into_keys().collect();
        self.change(&[], &keys.iter().map(String::as_str).collect::<Vec<_>>());
    }

    pub(crate) fn contents(&self) -> Contents {
        self.state().data.contents()
    }

    pub(crate) fn data(&self) -> Data {
        self.state().data.clone()
    }

    /// Cuts every connection, and answers none from now on.
    pub(crate) fn stop(&self) {
        let mut state = self.state();
        state.up = false;
        state.cuts += 1;
        drop(state);
        self.moved.send_replace(());
    }

    pub(crate) fn start(&self) {
        self.state().up = true;
    }

    /// Stops, and comes back with this.
    pub(crate) fn replace(&self, data: Data) {
        self.stop();
        self.state().data = data;
        self.start();
    }

    /// What `rm -rf` of the data directory does: the cluster's id is made of its flags, and stays.
    pub(crate) fn wipe(&self) {
        let cluster = self.data().cluster;
        self.replace(Data::empty(cluster));
    }

    pub(crate) fn compact(&self) {
        let mut state = self.state();
        let revision = state.data.revision;
        state.data.states.retain(|kept, _| *kept >= revision);
    }

    fn answer<T>(&self, answer: impl FnOnce(&mut State) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut state = self.state();
        if state.up {
            answer(&mut state)
        } else {
            Err(StoreError::Unavailable("the source is away".to_owned()))
        }
    }
}

impl Data {
    pub(crate) fn empty(cluster: u64) -> Self {
        Self { cluster, revision: 1, states: [(1, Contents::new())].into(), acceptance: None }
    }

    fn contents(&self) -> Contents {
        self.states.get(&self.revision).cloned().unwrap_or_default()
    }

    /// The same as of an earlier revision.
    pub(crate) fn rolled_back_to(mut self, revision: u64) -> Self {
        self.states.retain(|kept, _| *kept <= revision);
        self.revision = revision;
        self
    }

    /// What `etcdctl snapshot restore` makes of it.
    pub(crate) fn restored_as(self, cluster: u64) -> Self {
        Self { cluster, ..self }
    }

    pub(crate) fn keeps(&self, revision: u64) -> bool {
        self.states.contains_key(&revision)
    }
}

struct Tape {
    source: Source,
    from: u64,
    cuts: u64,
    cluster: u64,
    moved: watch::Receiver<()>,
}

impl Tape {
    fn take(&mut self) -> Result<Option<Batch>, StoreError> {
        let (cuts, from) = (self.cuts, self.from);
        self.source.clone().answer(|state| {
            if state.cuts != cuts {
                return Err(StoreError::Unavailable("the connection was cut".to_owned()));
            }
            let (Some(before), Some(after)) =
                (state.data.states.get(&(from - 1)), state.data.states.get(&from))
            else {
                return if from > state.data.revision { Ok(None) } else { Err(compacted(state)) };
            };
            let puts = after.values().filter(|entry| entry.mod_revision == from).cloned().map(Change::Put);
            let gone = before.values().filter(|entry| !after.contains_key(&*entry.key));
            let gone = gone.map(|entry| Change::Delete { key: entry.key.clone(), revision: from });
            self.from += 1;
            Ok(Some(Batch { revision: from, changes: puts.chain(gone).collect() }))
        })
    }
}

fn compacted(state: &State) -> StoreError {
    StoreError::Compacted { oldest: state.data.states.keys().next().map_or(0, |oldest| oldest + 1) }
}

impl Watch for Tape {
    fn next(&mut self) -> BoxFuture<'_, Result<Batch, StoreError>> {
        Box::pin(async move {
            loop {
                self.moved.mark_unchanged();
                if let Some(batch) = self.take()? {
                    return Ok(batch);
                }
                self.moved.changed().await.unwrap();
            }
        })
    }

    fn cluster(&self) -> u64 {
        self.cluster
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
    Box::pin(std::future::ready(value))
}

impl Store for Source {
    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        ready(self.answer(|state| {
            let entries =
                state.data.contents().into_values().filter(|entry| entry.key.starts_with(prefix)).collect();
            Ok(Listing { revision: state.data.revision, entries, cluster: state.data.cluster })
        }))
    }

    fn watch(&self, from: u64) -> BoxFuture<'_, Result<Box<dyn Watch>, StoreError>> {
        let (source, moved) = (self.clone(), self.moved.subscribe());
        ready(self.answer(|state| {
            if from <= state.data.revision && !state.data.keeps(from - 1) {
                return Err(compacted(state));
            }
            let (cuts, cluster) = (state.cuts, state.data.cluster);
            Ok(Box::new(Tape { source, from, cuts, cluster, moved }) as Box<dyn Watch>)
        }))
    }

    fn value_at<'a>(&'a self, key: &'a str, at: u64) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        ready(self.answer(|state| match state.data.states.get(&at) {
            _ if at > state.data.revision => Err(StoreError::Future { newest: state.data.revision }),
            None => Err(compacted(state)),
            Some(contents) => Ok(contents.get(key).cloned()),
        }))
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        ready(self.answer(|state| Ok(state.data.contents().get(key).cloned())))
    }

    fn txn(&self, _: Txn) -> BoxFuture<'_, Result<TxnOutcome, StoreError>> {
        let committed = crate::Committed { revision: 0, applied: Vec::new() };
        ready(self.answer(|_| Ok(TxnOutcome::Committed(committed))))
    }

    fn history(&self, _: Option<u64>, _: usize) -> BoxFuture<'_, Result<Vec<RevisionRecord>, StoreError>> {
        ready(Ok(Vec::new()))
    }

    fn compact(&self, _: u64) -> BoxFuture<'_, Result<(), StoreError>> {
        ready(Ok(()))
    }

    fn acceptance(&self) -> BoxFuture<'_, Result<Option<Acceptance>, StoreError>> {
        ready(self.answer(|state| Ok(state.data.acceptance.clone())))
    }

    fn record_acceptance(&self, acceptance: Acceptance) -> BoxFuture<'_, Result<(), StoreError>> {
        ready(self.answer(|state| {
            state.data.acceptance = Some(acceptance);
            Ok(())
        }))
    }
}

/// A gateway's builder: it loads, follows, and loads again when the watch ends.
pub(crate) struct Node {
    pub(crate) cached: Arc<Cached>,
    /// What it serves.
    pub(crate) active: BTreeMap<String, Arc<[u8]>>,
    pub(crate) revision: u64,
    watch: Option<Box<dyn Watch>>,
}

impl Node {
    pub(crate) fn start(source: &Source, directory: &std::path::Path) -> Self {
        let cached = Cached::new(Arc::new(source.clone()), directory.join("kept"), "test".to_owned());
        Self { cached: Arc::new(cached), active: BTreeMap::new(), revision: 0, watch: None }
    }

    /// Follows until nothing more happens.
    pub(crate) async fn settle(&mut self) {
        loop {
            let Some(watch) = &mut self.watch else {
                let Ok(listing) = self.cached.list("").await else { return };
                self.revision = listing.revision;
                self.active =
                    listing.entries.into_iter().map(|entry| (entry.key.to_string(), entry.value)).collect();
                self.watch = Some(self.cached.watch(listing.revision + 1).await.unwrap());
                continue;
            };
            match timeout(SETTLED, watch.next()).await {
                Err(_) => return,
                Ok(Err(_)) => self.watch = None,
                Ok(Ok(batch)) => {
                    self.revision = batch.revision;
                    for change in batch.changes {
                        match change {
                            Change::Put(entry) => {
                                drop(self.active.insert(entry.key.to_string(), entry.value));
                            }
                            Change::Delete { key, .. } => drop(self.active.remove(&*key)),
                        }
                    }
                    self.cached.keep_earlier(&[]);
                }
            }
        }
    }

    /// Ends as a crash would after the last save.
    pub(crate) fn restart(self, source: &Source, directory: &std::path::Path) -> Self {
        self.cached.flush();
        drop(self);
        Self::start(source, directory)
    }

    pub(crate) fn serves(&self, contents: &Contents) -> bool {
        self.active.len() == contents.len()
            && contents.iter().all(|(key, entry)| self.active.get(key) == Some(&entry.value))
    }

    pub(crate) fn rejection(&self) -> Option<String> {
        match &*self.cached.health().borrow() {
            Health::Rejected(rejection) => Some(rejection.reason.clone()),
            _ => None,
        }
    }

    /// Accepts, while the follower goes on.
    pub(crate) async fn accept(&mut self) -> Result<super::super::Accepted, StoreError> {
        let cached = Arc::clone(&self.cached);
        let accepting = tokio::spawn(async move { cached.accept(Some("ann".to_owned()), None).await });
        self.settle().await;
        accepting.await.unwrap()
    }
}
