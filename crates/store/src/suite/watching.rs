//! Watches: complete, in order, from any kept revision.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Stage, commit, delete, get, next, put, text, watch};
use crate::{Change, Store};

pub(super) async fn continues(Stage { store, .. }: Stage) {
    commit(&store, vec![put("/before", "0")]).await;
    let listed = store.list("").await.expect("a list succeeds").revision;
    // Written before the watch begins, and not to be missed by it.
    let first = commit(&store, vec![put("/b", "1"), put("/a", "1"), delete("/none")]).await;
    let mut changes = watch(&store, listed + 1).await;
    let second = commit(&store, vec![delete("/b")]).await;

    let batch = next(&mut changes).await;
    assert_eq!(batch.revision, first.revision);
    let expected: Vec<Change> =
        first.applied.into_iter().filter_map(|applied| applied.entry).map(Change::Put).collect();
    assert_eq!(batch.changes, expected, "in the order of the operations, and only what changed");

    let batch = next(&mut changes).await;
    assert_eq!(batch.revision, second.revision);
    assert_eq!(batch.changes, [Change::Delete { key: "/b".into(), revision: second.revision }]);

    // From the middle, and with values as they were then.
    commit(&store, vec![put("/a", "2")]).await;
    let mut late = watch(&store, first.revision).await;
    let batch = next(&mut late).await;
    assert_eq!(batch.revision, first.revision);
    assert_eq!(batch.changes, expected);
    let mut last = watch(&store, second.revision + 1).await;
    let Change::Put(entry) = &next(&mut last).await.changes[0] else { panic!("it was put") };
    assert_eq!((&*entry.key, text(entry)), ("/a", "2"));
    assert_eq!(Some(entry.clone()), get(&store, "/a").await);
}

pub(super) async fn cancelled(Stage { store, .. }: Stage) {
    let start = store.list("").await.expect("a list succeeds").revision;
    let mut changes = watch(&store, start + 1).await;
    for round in 0..20 {
        // Asked and dropped before there is an answer, at whatever await it stands.
        tokio::select! {
            biased;
            batch = changes.next() => panic!("nothing has changed: {batch:?}"),
            () = tokio::task::yield_now() => {}
        }
        let written = commit(&store, vec![put("/a", &round.to_string())]).await;
        assert_eq!(next(&mut changes).await.revision, written.revision);
    }
}

/// Two watches follow writers that run beside them; both see every revision once, in order, and end at the listing.
pub(super) async fn under_load(Stage { store, .. }: Stage) {
    let start = store.list("").await.expect("a list succeeds").revision;
    let watches: Vec<_> =
        (0..2).map(|_| tokio::spawn(follow_until_end(Arc::clone(&store), start + 1))).collect();
    let writers: Vec<_> = (0..4).map(|n| tokio::spawn(write(Arc::clone(&store), n))).collect();
    for writer in writers {
        writer.await.expect("no writer panics");
    }
    commit(&store, vec![put("/end", "")]).await;
    let listing = store.list("").await.expect("a list succeeds");
    let expected: BTreeMap<String, String> =
        listing.entries.iter().map(|entry| (entry.key.to_string(), text(entry).to_owned())).collect();
    for watch in watches {
        let (state, revisions) = watch.await.expect("no watch panics");
        assert_eq!(state, expected);
        assert!(revisions.is_sorted_by(|a, b| a < b), "each revision once, in order");
        assert_eq!(revisions.len(), 4 * 25 + 1);
    }
}

async fn write(store: Arc<dyn Store>, writer: usize) {
    for round in 0..25 {
        let key = format!("/w/{writer}/{}", round % 3);
        let op =
            if round % 5 == 4 { delete(&format!("/w/{writer}/0")) } else { put(&key, &round.to_string()) };
        // A delete must change something to be counted.
        commit(&store, vec![op, put(&format!("/tick/{writer}"), &round.to_string())]).await;
    }
}

async fn follow_until_end(store: Arc<dyn Store>, from: u64) -> (BTreeMap<String, String>, Vec<u64>) {
    let mut changes = watch(&store, from).await;
    let (mut state, mut revisions) = (BTreeMap::new(), Vec::new());
    loop {
        let batch = next(&mut changes).await;
        revisions.push(batch.revision);
        for change in batch.changes {
            match change {
                Change::Put(entry) => state.insert(entry.key.to_string(), text(&entry).to_owned()),
                Change::Delete { key, .. } => state.remove(&*key),
            };
        }
        if state.contains_key("/end") {
            return (state, revisions);
        }
    }
}
