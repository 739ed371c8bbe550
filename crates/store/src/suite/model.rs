//! Any sequence of transactions against the simplest store there is: a map for each revision.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Stage, delete, next, put, text, watch};
use crate::{Change, Precondition, Store, StoreError, Txn, TxnOutcome};

/// One step: a transaction on a handful of keys, or a compaction.
#[derive(Debug, Clone)]
pub enum Step {
    /// A transaction.
    Txn {
        /// A key and whether the precondition on it is true.
        when: Option<(u8, bool)>,
        /// Keys with their new values; `None` deletes.
        then: BTreeMap<u8, Option<u8>>,
    },
    /// Compacts up to so many revisions before the newest.
    Compact(u8),
}

/// A key's value and the revisions that created and changed it.
type Known = (String, u64, u64);

/// What a store must hold.
#[derive(Default)]
struct Model {
    now: BTreeMap<String, Known>,
    /// The state after each revision.
    then: BTreeMap<u64, BTreeMap<String, Known>>,
    compacted: u64,
}

/// Runs `steps` on the store and on the model, and panics where they differ: outcomes, listings, values at every
/// revision, and a watch's replay of what is kept.
pub async fn agrees(Stage { store, .. }: Stage, steps: Vec<Step>) {
    let start = store.list("").await.expect("a list succeeds").revision;
    let mut model = Model { compacted: start, ..Model::default() };
    model.then.insert(start, BTreeMap::new());
    for step in steps {
        match step {
            Step::Txn { when, then } => model.transact(&store, when, then).await,
            Step::Compact(back) => {
                let kept: Vec<u64> = model.then.keys().rev().copied().collect();
                let to = kept[usize::from(back).min(kept.len() - 1)];
                store.compact(to).await.expect("it has happened");
                model.compacted = model.compacted.max(to);
            }
        }
        assert_eq!(listing(&store).await, model.now);
    }
    model.check_past(&store).await;
    model.check_replay(&store).await;
}

impl Model {
    async fn transact(
        &mut self,
        store: &Arc<dyn Store>,
        when: Option<(u8, bool)>,
        then: BTreeMap<u8, Option<u8>>,
    ) {
        let precondition = when.map(|(key, honest)| {
            let key = name(key);
            let known = self.now.get(&key).map_or(0, |known| known.2);
            Precondition::ModRevision { key, equals: if honest { known } else { known + 1 } }
        });
        let ops = then.iter().map(|(key, value)| match value {
            Some(value) => put(&name(*key), &value.to_string()),
            None => delete(&name(*key)),
        });
        let txn = Txn { when: precondition.into_iter().collect(), then: ops.collect(), actor: None };
        match store.txn(txn).await.expect("a valid transaction is decided") {
            TxnOutcome::Refused { .. } => assert!(when.is_some_and(|(_, honest)| !honest)),
            TxnOutcome::Committed(committed) => {
                assert!(when.is_none_or(|(_, honest)| honest));
                self.commit(then, committed.revision);
            }
        }
    }

    fn commit(&mut self, then: BTreeMap<u8, Option<u8>>, revision: u64) {
        let mut changed = false;
        for (key, value) in then {
            let key = name(key);
            let previous = self.now.remove(&key);
            changed |= previous.is_some() || value.is_some();
            if let Some(value) = value {
                let created = previous.map_or(revision, |known| known.1);
                self.now.insert(key, (value.to_string(), created, revision));
            }
        }
        let newest = *self.then.keys().next_back().expect("the start is there");
        assert_eq!(changed, revision > newest, "a revision for each change, and for nothing else");
        self.then.insert(revision, self.now.clone());
    }

    async fn check_past(&self, store: &Arc<dyn Store>) {
        for (&revision, state) in &self.then {
            for key in (0..KEYS).map(name) {
                match store.value_at(&key, revision).await {
                    Ok(entry) => {
                        let known = entry.map(|entry| {
                            (text(&entry).to_owned(), entry.create_revision, entry.mod_revision)
                        });
                        assert_eq!(known.as_ref(), state.get(&key), "{key} at {revision}");
                    }
                    Err(StoreError::Compacted { .. }) => assert!(revision < self.compacted),
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    async fn check_replay(&self, store: &Arc<dyn Store>) {
        let mut changes = watch(store, self.compacted + 1).await;
        let mut state = self.then[&self.compacted].clone();
        for (&revision, expected) in self.then.range(self.compacted + 1..) {
            let batch = next(&mut changes).await;
            assert_eq!(batch.revision, revision);
            for change in batch.changes {
                match change {
                    Change::Put(entry) => {
                        let known = (text(&entry).to_owned(), entry.create_revision, entry.mod_revision);
                        state.insert(entry.key.to_string(), known)
                    }
                    Change::Delete { key, .. } => state.remove(&*key),
                };
            }
            assert_eq!(&state, expected);
        }
    }
}

/// How many keys the steps should draw from: few, so that they meet.
pub const KEYS: u8 = 6;

fn name(key: u8) -> String {
    // One key is another's prefix, on purpose.
    format!("/k/{}", "x".repeat(usize::from(key) + 1))
}

async fn listing(store: &Arc<dyn Store>) -> BTreeMap<String, Known> {
    let listing = store.list("/k/").await.expect("a list succeeds");
    let known = listing.entries.iter().map(|entry| {
        (entry.key.to_string(), (text(entry).to_owned(), entry.create_revision, entry.mod_revision))
    });
    known.collect()
}
