//! Entries with a time to live.

use std::time::Duration;

use super::{Stage, commit, get, next, put, text, watch};
use crate::{Change, Op};

const TTL: Duration = Duration::from_secs(2);
const LONGER_THAN_TTL: Duration = Duration::from_secs(3);

fn put_for(key: &str, ttl: Duration) -> Op {
    Op::Put { key: key.to_owned(), value: b"short".as_slice().into(), ttl: Some(ttl) }
}

pub(super) async fn expires(Stage { store, pass }: Stage) {
    let written =
        commit(&store, vec![put_for("/a", TTL), put_for("/long", TTL * 1000), put("/stays", "x")]).await;
    let mut changes = watch(&store, written.revision + 1).await;
    assert!(get(&store, "/a").await.is_some(), "not before its time");
    pass(LONGER_THAN_TTL).await;
    let batch = next(&mut changes).await;
    assert!(batch.revision > written.revision, "an expiry is a revision");
    assert_eq!(batch.changes, [Change::Delete { key: "/a".into(), revision: batch.revision }]);
    let left = store.list("").await.expect("a list succeeds").entries;
    assert_eq!(left.iter().map(|entry| &*entry.key).collect::<Vec<_>>(), ["/long", "/stays"]);
    let was = store.value_at("/a", written.revision).await.expect("it is kept");
    assert_eq!(was.as_ref().map(text), Some("short"));
}

pub(super) async fn renewed(Stage { store, pass }: Stage) {
    commit(&store, vec![put_for("/a", TTL), put_for("/b", TTL), put_for("/c", TTL)]).await;
    commit(&store, vec![put("/a", "kept")]).await;
    let last = commit(&store, vec![put_for("/b", TTL * 1000)]).await.revision;
    let mut changes = watch(&store, last + 1).await;
    pass(LONGER_THAN_TTL).await;
    let batch = next(&mut changes).await;
    assert_eq!(batch.changes, [Change::Delete { key: "/c".into(), revision: batch.revision }]);
    assert!(get(&store, "/a").await.is_some_and(|entry| entry.expires_at_ms.is_none()));
    assert!(get(&store, "/b").await.is_some());
}
