//! A centre that comes and goes: real etcd.

mod properties;
mod rejected;
mod source;

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use super::{Cached, Health};
use crate::etcd::tests::{Server, store};
use crate::{Change, Etcd, Store, StoreError};

fn cached(etcd: &Etcd, directory: &TempDir) -> Cached {
    Cached::new(Arc::new(etcd.clone()), directory.path().join("kept"), "test".to_owned())
}

async fn put(etcd: &Etcd, key: &str) {
    while etcd.put(key, b"{}".as_slice().into(), None).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn until(cached: &Cached, what: fn(&Health) -> bool) {
    let mut health = cached.health();
    let reached = tokio::time::timeout(Duration::from_secs(20), health.wait_for(what)).await;
    assert!(reached.is_ok(), "{:?}", cached.health().borrow());
}

#[tokio::test]
async fn a_watch_goes_on_after_a_crash_without_a_gap() {
    let (mut server, directory) = (Server::start(), tempfile::tempdir().unwrap());
    let etcd = store(&[server.endpoint()], "/apisix");
    put(&etcd, "/routes/1").await;
    let cached = cached(&etcd, &directory);
    let from = cached.list("").await.unwrap().revision + 1;
    let mut watch = cached.watch(from).await.unwrap();
    put(&etcd, "/routes/2").await;
    assert_eq!(&**watch.next().await.unwrap().changes[0].key(), "/routes/2");
    server.kill();
    let lost = tokio::time::timeout(Duration::from_millis(300), watch.next()).await;
    assert!(lost.is_err(), "nothing to tell, and no error: {lost:?}");
    until(&cached, |health| matches!(health, Health::Lost { .. })).await;
    server.restart();
    put(&etcd, "/routes/3").await;
    let batch = watch.next().await.unwrap();
    assert_eq!(&**batch.changes[0].key(), "/routes/3");
    until(&cached, |health| *health == Health::Following).await;
}

#[tokio::test]
async fn a_start_without_the_centre_serves_what_was_in_force_and_then_catches_up() {
    let (mut server, directory) = (Server::start(), tempfile::tempdir().unwrap());
    let etcd = store(&[server.endpoint()], "/apisix");
    put(&etcd, "/routes/1").await;
    let first = cached(&etcd, &directory);
    assert!(!first.has_saved());
    let before = first.list("").await.unwrap();
    first.flush();
    assert!(first.has_saved());
    drop(first);

    server.kill();
    let second = cached(&etcd, &directory);
    let listing = second.list("").await.unwrap();
    assert_eq!(listing, before);
    assert!(matches!(&*second.health().borrow(), Health::Stale { .. }));
    let mut watch = second.watch(listing.revision + 1).await.unwrap();
    let waits = tokio::time::timeout(Duration::from_millis(300), watch.next()).await;
    assert!(waits.is_err(), "{waits:?}");
    server.restart();
    put(&etcd, "/routes/2").await;
    // There is no telling what happened: everything is to be loaded.
    assert!(matches!(watch.next().await, Err(StoreError::Compacted { .. })));
    assert_eq!(second.list("").await.unwrap().entries.len(), 2);
    assert_eq!(*second.health().borrow(), Health::Following);
}

#[tokio::test]
async fn without_a_configuration_on_disk_a_start_says_why_it_waits() {
    let directory = tempfile::tempdir().unwrap();
    let etcd = store(&["http://127.0.0.1:1".to_owned()], "/apisix");
    let cached = cached(&etcd, &directory);
    assert!(matches!(cached.list("").await, Err(StoreError::Unavailable(_))));
    let health = cached.health().borrow().clone();
    assert!(
        matches!(&health, Health::Starting(Some(reason)) if reason.contains("127.0.0.1:1")),
        "{health:?}"
    );
}

#[tokio::test]
async fn a_watch_that_fell_behind_a_compaction_is_told() {
    let (mut server, directory) = (Server::start(), tempfile::tempdir().unwrap());
    let etcd = store(&[server.endpoint()], "/apisix");
    put(&etcd, "/routes/1").await;
    let cached = cached(&etcd, &directory);
    let from = cached.list("").await.unwrap().revision + 1;
    let mut watch = cached.watch(from).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(200), watch.next()).await.is_err());
    server.kill();
    assert!(tokio::time::timeout(Duration::from_millis(50), watch.next()).await.is_err());
    server.restart();
    put(&etcd, "/routes/2").await;
    put(&etcd, "/routes/1").await;
    let newest = etcd.list("").await.unwrap().revision;
    etcd.compact(newest).await.unwrap();
    assert!(matches!(watch.next().await, Err(StoreError::Compacted { .. })));
    let listing = cached.list("").await.unwrap();
    let mut watch = cached.watch(listing.revision + 1).await.unwrap();
    etcd.delete("/routes/1", None).await.unwrap();
    assert!(matches!(&watch.next().await.unwrap().changes[..], [Change::Delete { .. }]));
}
