//! Creation, permissions, the lock, and what survives closing.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use super::{Embedded, EmbeddedConfig, HandClock, config, open, place};
use crate::{Change, Op, Store, StoreError, Txn};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_new_store_is_its_owners_alone() {
    let (_directory, path) = place();
    let store = open(&path);
    assert_eq!(store.path(), path);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    let mut names: Vec<_> =
        fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    assert_eq!(names, [path.clone(), path.with_added_extension("lock")], "no draft is left");
    assert!(names.iter().all(|name| mode(name) == 0o600));
    drop(store);

    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    drop(open(&path));
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn a_crash_while_creating_leaves_nothing_to_repair() {
    let (_directory, path) = place();
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::write(path.with_added_extension("new"), b"half a file").unwrap();
    drop(open(&path));
}

#[test]
fn a_second_opener_is_told_who_has_it() {
    let (_directory, path) = place();
    let store = open(&path);
    let error = Embedded::open(config(&path)).unwrap_err();
    assert_eq!(error, StoreError::Locked { path: path.clone(), holder: Some(std::process::id()) });
    assert!(error.to_string().contains(&format!("in use by process {}", std::process::id())));
    drop(store);
    drop(open(&path));
}

#[test]
fn unusable_places_are_named() {
    let (directory, _) = place();
    let file = directory.path().join("file");
    fs::write(&file, b"").unwrap();
    let error = Embedded::open(config(&file.join("store.redb"))).unwrap_err();
    assert!(matches!(&error, StoreError::Io { path, .. } if *path == file), "{error}");
}

#[tokio::test]
async fn everything_is_there_after_closing() {
    let (_directory, path) = place();
    let store = open(&path);
    let mut watch = store.watch(1).await.unwrap();
    let first = store.put("/a", b"1".as_slice().into(), Some("ada")).await.unwrap().revision;
    store.put("/a", b"2".as_slice().into(), None).await.unwrap();
    let (listing, history) = (store.list("").await.unwrap(), store.history(None, 10).await.unwrap());
    drop(store);
    assert!(watch.next().await.is_err(), "a watch doesn't outlive its store, nor keep it open");

    let store = open(&path);
    assert_eq!(store.list("").await.unwrap(), listing);
    assert_eq!(store.history(None, 10).await.unwrap(), history);
    assert_eq!(history[1].actor.as_deref(), Some("ada"));
    assert_eq!(&*store.value_at("/a", first).await.unwrap().unwrap().value, b"1");
}

#[tokio::test]
async fn what_expired_while_closed_is_deleted_at_the_start() {
    let (_directory, path) = place();
    let clock = std::sync::Arc::new(HandClock::default());
    let config = EmbeddedConfig { clock: clock.clone(), ..config(&path) };
    let store = Embedded::open(config.clone()).unwrap();
    // More than one revision may delete.
    for group in 0..3 {
        let put = |n| Op::Put {
            key: format!("/{group}/{n}"),
            value: b"x".as_slice().into(),
            ttl: Some(Duration::from_secs(1)),
        };
        store.txn(Txn { then: (0..100).map(put).collect(), ..Txn::default() }).await.unwrap();
    }
    let revision = store.list("").await.unwrap().revision;
    drop(store);
    clock.advance(Duration::from_secs(2));
    let store = Embedded::open(config).unwrap();
    let mut watch = store.watch(revision + 1).await.unwrap();
    let mut deleted = 0;
    while deleted < 300 {
        let batch = watch.next().await.unwrap();
        assert!(batch.changes.iter().all(|change| matches!(change, Change::Delete { .. })));
        deleted += batch.changes.len();
    }
    assert!(store.list("").await.unwrap().entries.is_empty());
    assert_eq!(store.history(None, 1).await.unwrap()[0].actor.as_deref(), Some("expiry"));
}

/// Nothing empty takes the place of a file that has gone, and what is open is not closed.
#[tokio::test]
async fn a_lost_file_is_not_replaced_by_an_empty_one() {
    let (_directory, path) = place();
    let store = open(&path);
    store.put("/a", b"1".as_slice().into(), None).await.unwrap();
    let moved = path.with_added_extension("moved");
    fs::rename(&path, &moved).unwrap();
    assert!(matches!(store.shared.reopen(), Err(StoreError::Unavailable(_))));
    assert!(store.get("/a").await.unwrap().is_some());
    assert!(store.put("/a", b"2".as_slice().into(), None).await.is_err());
    assert!(!path.exists());
    fs::rename(&moved, &path).unwrap();
    store.put("/a", b"3".as_slice().into(), None).await.unwrap();
    assert_eq!(store.list("").await.unwrap().revision, 2);
}
