//! Preconditions, atomicity, and writers that race.

use std::sync::Arc;

use super::{Stage, commit, delete, get, put, text};
use crate::{Op, Precondition, Store, StoreError, Txn, TxnOutcome};

fn expects(key: &str, equals: u64) -> Precondition {
    Precondition::ModRevision { key: key.to_owned(), equals }
}

async fn try_txn(store: &Arc<dyn Store>, when: Vec<Precondition>, then: Vec<Op>) -> TxnOutcome {
    store.txn(Txn { when, then, actor: None }).await.expect("a valid transaction is decided")
}

pub(super) async fn preconditions(Stage { store, .. }: Stage) {
    let first = match try_txn(&store, vec![expects("/a", 0)], vec![put("/a", "1")]).await {
        TxnOutcome::Committed(committed) => committed.revision,
        refused => panic!("nothing was there: {refused:?}"),
    };
    let current = get(&store, "/a").await;
    let cases = [
        (vec![expects("/a", 0)], 0, current.clone()),
        (vec![expects("/a", first + 1)], 0, current.clone()),
        (vec![expects("/a", first), expects("/b", first)], 1, None),
        (vec![expects("/b", 0), expects("/a", 0), expects("/b", 7)], 1, current.clone()),
    ];
    for (when, index, current) in cases {
        let outcome = try_txn(&store, when, vec![put("/a", "2"), put("/c", "2")]).await;
        assert_eq!(outcome, TxnOutcome::Refused { index, current });
    }
    assert_eq!(get(&store, "/c").await, None);
    assert_eq!(store.list("").await.expect("a list succeeds").revision, first, "a refusal is no revision");

    let when = vec![expects("/a", first), expects("/b", 0)];
    assert!(matches!(try_txn(&store, when, vec![delete("/a")]).await, TxnOutcome::Committed(_)));
    assert!(matches!(try_txn(&store, vec![expects("/a", first)], vec![]).await, TxnOutcome::Refused { .. }));
}

pub(super) async fn atomic(Stage { store, .. }: Stage) {
    commit(&store, vec![put("/old", "0")]).await;
    let done = commit(&store, vec![put("/a", "1"), delete("/old"), delete("/none"), put("/b", "2")]).await;
    let listing = store.list("").await.expect("a list succeeds");
    assert_eq!(listing.revision, done.revision);
    let found: Vec<_> =
        listing.entries.iter().map(|entry| (&*entry.key, text(entry), entry.mod_revision)).collect();
    assert_eq!(found, [("/a", "1", done.revision), ("/b", "2", done.revision)]);
    let had: Vec<bool> = done.applied.iter().map(|applied| applied.previous.is_some()).collect();
    assert_eq!(had, [false, true, false, false]);

    let twice = Txn { then: vec![put("/c", "1"), put("/d", "1"), delete("/c")], ..Txn::default() };
    assert!(matches!(store.txn(twice).await, Err(StoreError::Invalid(_))));
    assert_eq!(store.list("").await.expect("a list succeeds"), listing);
}

/// Eight writers raise one counter by compare-and-swap and each its own key; nothing may be lost.
pub(super) async fn concurrent(Stage { store, .. }: Stage) {
    const WRITERS: usize = 8;
    const ROUNDS: usize = 12;
    let writers: Vec<_> = (0..WRITERS).map(|n| tokio::spawn(raise(Arc::clone(&store), n, ROUNDS))).collect();
    let mut revisions = Vec::new();
    for writer in writers {
        revisions.extend(writer.await.expect("no writer panics"));
    }
    let counter = get(&store, "/counter").await.expect("it was raised");
    assert_eq!(text(&counter), (WRITERS * ROUNDS).to_string());
    revisions.sort_unstable();
    revisions.dedup();
    assert_eq!(revisions.len(), WRITERS * ROUNDS, "each transaction has a revision of its own");
}

async fn raise(store: Arc<dyn Store>, writer: usize, rounds: usize) -> Vec<u64> {
    let mut revisions = Vec::new();
    while revisions.len() < rounds {
        let current = get(&store, "/counter").await;
        let count: usize = current.as_ref().map_or(0, |entry| text(entry).parse().expect("a number"));
        let when = vec![expects("/counter", current.map_or(0, |entry| entry.mod_revision))];
        let then = vec![put("/counter", &(count + 1).to_string()), put(&format!("/writer/{writer}"), "x")];
        if let TxnOutcome::Committed(committed) = try_txn(&store, when, then).await {
            revisions.push(committed.revision);
        }
    }
    revisions
}
