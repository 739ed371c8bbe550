//! Get, list, put, delete and the counting of revisions.

use super::{Stage, commit, delete, get, put, text};
use crate::StoreError;
use crate::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

pub(super) async fn read_back(Stage { store, .. }: Stage) {
    assert_eq!(get(&store, "/routes/1").await, None);
    let created = store.put("/routes/1", b"{}".as_slice().into(), None).await.expect("a put succeeds");
    let entry = get(&store, "/routes/1").await.expect("it was put");
    assert_eq!((&*entry.key, text(&entry)), ("/routes/1", "{}"));
    assert_eq!((entry.create_revision, entry.mod_revision), (created.revision, created.revision));
    assert_eq!(created.applied[0].previous, None);
    assert_eq!(created.applied[0].entry, Some(entry.clone()));

    let changed = store.put("/routes/1", b"{\"a\":1}".as_slice().into(), None).await.expect("a put succeeds");
    let newer = get(&store, "/routes/1").await.expect("it was put");
    assert_eq!((newer.create_revision, newer.mod_revision), (created.revision, changed.revision));
    assert_eq!(changed.applied[0].previous, Some(entry));

    let deleted = store.delete("/routes/1", None).await.expect("a delete succeeds");
    assert_eq!(deleted.applied[0].previous, Some(newer));
    assert_eq!(get(&store, "/routes/1").await, None);

    let again = commit(&store, vec![put("/routes/1", "new")]).await;
    let entry = get(&store, "/routes/1").await.expect("it was put");
    assert_eq!(entry.create_revision, again.revision, "a deleted key starts a new life");

    // Bytes are bytes, and empty is a value.
    for value in [&b""[..], &[0, 255, 10, 13], &vec![7; VALUE_BYTES_MAX - 4096]] {
        store.put("/bytes", value.into(), None).await.expect("a put succeeds");
        assert_eq!(&*get(&store, "/bytes").await.expect("it was put").value, value);
    }
}

pub(super) async fn listing(Stage { store, .. }: Stage) {
    assert!(store.list("").await.expect("an empty store lists").entries.is_empty());
    let keys = ["/routes/2", "/routes/10", "/routes/1", "/routes", "/routes2/1", "/upstreams/1", "/routes/ü"];
    for key in keys {
        commit(&store, vec![put(key, key)]).await;
    }
    let cases: &[(&str, &[&str])] = &[
        ("/routes/", &["/routes/1", "/routes/10", "/routes/2", "/routes/ü"]),
        ("/routes/1", &["/routes/1", "/routes/10"]),
        ("/services/", &[]),
        ("", &["/routes", "/routes/1", "/routes/10", "/routes/2", "/routes/ü", "/routes2/1", "/upstreams/1"]),
    ];
    for (prefix, expected) in cases {
        let listing = store.list(prefix).await.expect("a list succeeds");
        let found: Vec<&str> = listing.entries.iter().map(|entry| &*entry.key).collect();
        assert_eq!(&found, expected, "under {prefix:?}");
        assert!(listing.entries.iter().all(|entry| text(entry) == &*entry.key));
    }
}

pub(super) async fn revisions(Stage { store, .. }: Stage) {
    let start = store.list("").await.expect("a list succeeds").revision;
    let first = commit(&store, vec![put("/a", "1")]).await.revision;
    assert!(first > start && first > 0, "0 means absent");
    let same = commit(&store, vec![put("/a", "1")]).await.revision;
    assert!(same > first, "a put of the same value is a change");
    let absent = commit(&store, vec![delete("/none")]).await;
    assert_eq!((absent.revision, &absent.applied[0].previous), (same, &None), "deleting nothing is none");
    assert_eq!(commit(&store, vec![]).await.revision, same);
    assert_eq!(store.list("").await.expect("a list succeeds").revision, same);
    let gone = commit(&store, vec![delete("/a")]).await.revision;
    assert!(gone > same);
    assert_eq!(store.list("").await.expect("a list succeeds").revision, gone);
}

pub(super) async fn limits(Stage { store, .. }: Stage) {
    let before = commit(&store, vec![put("/kept", "1")]).await.revision;
    let long = format!("/{}", "k".repeat(KEY_BYTES_MAX));
    let large = vec![b'x'; VALUE_BYTES_MAX + 1];
    for (key, value) in [(long.as_str(), &b"1"[..]), ("", b"1"), ("routes/1", b"1"), ("/a", &large)] {
        let refused = store.put(key, value.into(), None).await;
        assert!(matches!(refused, Err(StoreError::Invalid(_))), "{refused:?}");
    }
    assert_eq!(store.list("").await.expect("a list succeeds").revision, before);
}
