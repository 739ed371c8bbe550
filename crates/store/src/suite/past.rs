//! The kept history and its end.

use super::{Stage, commit, delete, next, put, text, watch};
use crate::{KeyChange, StoreError, Txn};

pub(super) async fn value_at(Stage { store, .. }: Stage) {
    let before = store.list("").await.expect("a list succeeds").revision;
    let one = commit(&store, vec![put("/a", "1")]).await.revision;
    let other = commit(&store, vec![put("/b", "x")]).await.revision;
    let two = commit(&store, vec![put("/a", "2")]).await.revision;
    let gone = commit(&store, vec![delete("/a")]).await.revision;
    let three = commit(&store, vec![put("/a", "3")]).await.revision;
    let cases = [
        (before, None),
        (one, Some("1")),
        (other, Some("1")),
        (two, Some("2")),
        (gone, None),
        (three, Some("3")),
    ];
    for (revision, expected) in cases {
        let entry = match store.value_at("/a", revision).await {
            // Before the first revision a backend may say that there was nothing to keep.
            Err(StoreError::Compacted { .. }) if revision == before => None,
            entry => entry.expect("it is kept"),
        };
        assert_eq!(entry.as_ref().map(text), expected, "at {revision}");
    }
    let entry = store.value_at("/a", other).await.expect("it is kept").expect("it was there");
    assert_eq!((entry.create_revision, entry.mod_revision), (one, one));
    assert_eq!(store.value_at("/a", three + 1).await, Err(StoreError::Future { newest: three }));
}

pub(super) async fn history(Stage { store, .. }: Stage) {
    let actor = Some("ada".to_owned());
    commit(&store, vec![put("/a", "1")]).await;
    store
        .txn(Txn { then: vec![put("/b", "1"), delete("/a")], actor, ..Txn::default() })
        .await
        .expect("a write");
    commit(&store, vec![put("/a", "2")]).await;
    let all = store.history(None, 100).await.expect("a history");
    assert_eq!(all.len(), 3);
    assert!(all.is_sorted_by(|a, b| a.revision > b.revision), "newest first");
    let touched = |key: &str, deleted| KeyChange { key: key.into(), deleted };
    assert_eq!(all[0].keys, [touched("/a", false)]);
    assert_eq!(all[1].keys, [touched("/b", false), touched("/a", true)]);
    // Not every backend can record who and when; one that does must not invent it.
    assert!(all[1].actor.as_deref().is_none_or(|actor| actor == "ada"));
    assert_eq!(all[0].actor, None);
    assert!(all[0].unix_ms >= all[2].unix_ms);

    assert_eq!(store.history(None, 1).await.expect("a history"), all[..1]);
    assert_eq!(store.history(Some(all[0].revision), 1).await.expect("a history"), all[1..2]);
    assert_eq!(store.history(Some(all[2].revision), 10).await.expect("a history"), []);
    assert_eq!(store.history(None, 0).await.expect("a history"), []);
}

pub(super) async fn compaction(Stage { store, .. }: Stage) {
    let one = commit(&store, vec![put("/a", "1"), put("/still", "0")]).await.revision;
    let two = commit(&store, vec![put("/a", "2")]).await.revision;
    let three = commit(&store, vec![put("/a", "3")]).await.revision;
    let four = commit(&store, vec![delete("/a")]).await.revision;
    let mut behind = watch(&store, one).await;
    store.compact(three).await.expect("it has happened");
    assert_eq!(store.compact(four + 1).await, Err(StoreError::Future { newest: four }));
    store.compact(two).await.expect("older than what is kept is no error");

    let Err(StoreError::Compacted { oldest }) = store.watch(one).await.map(|_| ()) else {
        panic!("a compacted beginning is an error");
    };
    assert!(oldest > one && oldest <= four);
    assert_eq!(next(&mut watch(&store, four).await).await.revision, four);
    assert!(matches!(store.value_at("/a", two).await, Err(StoreError::Compacted { .. })));
    let at_three = store.value_at("/a", three).await.expect("it is kept");
    assert_eq!(at_three.as_ref().map(text), Some("3"));
    let still = store.value_at("/still", three).await.expect("it is kept");
    assert_eq!(still.as_ref().map(text), Some("0"), "an old value that is still current is not history");
    assert!(store.history(None, 10).await.expect("a history").iter().all(|record| record.revision >= three));

    // A watch that was fast enough has its batches; one that was not is told. Neither skips.
    let mut expected = one;
    loop {
        match behind.next().await {
            Ok(batch) => assert!(batch.revision >= expected && batch.revision <= four),
            Err(StoreError::Compacted { oldest }) => break assert!(oldest > expected),
            Err(error) => panic!("{error}"),
        }
        expected += 1;
        if expected > four {
            break;
        }
    }
}
