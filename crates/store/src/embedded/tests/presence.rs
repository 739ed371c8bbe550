//! A file that is removed, replaced or truncated under the open store.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;

use super::{open, place};
use crate::embedded::presence::Presence;
use crate::{Embedded, Health, Store, StoreError};

async fn put(store: &Embedded, key: &str) -> Result<(), StoreError> {
    store.put(key, b"{}".as_slice().into(), None).await.map(drop)
}

/// Waits until an idle store has noticed; what it says then.
async fn noticed(store: &Embedded) -> String {
    let mut health = store.health().unwrap();
    let detached = health.wait_for(|health| matches!(health, Health::Detached { .. }));
    match &*timeout(Duration::from_secs(20), detached).await.unwrap().unwrap() {
        Health::Detached { reason, .. } => reason.clone(),
        other => panic!("{other:?}"),
    }
}

async fn refused(store: &Embedded, words: &str) {
    let message = put(store, "/routes/refused").await.unwrap_err().to_string();
    assert!(message.contains(words) && message.contains("refuses writes"), "{message}");
}

#[tokio::test]
async fn a_removed_file_is_noticed_and_comes_back() {
    let (directory, path) = place();
    let store = open(&path);
    put(&store, "/routes/1").await.unwrap();
    assert_eq!(*store.health().unwrap().borrow(), Health::Following);
    let aside = directory.path().join("aside");
    fs::rename(&path, &aside).unwrap();
    let reason = noticed(&store).await;
    assert!(reason.contains("was removed") && reason.contains(path.to_str().unwrap()), "{reason}");
    refused(&store, "was removed").await;
    assert_eq!(store.list("").await.unwrap().entries.len(), 1, "what was loaded can be read");
    assert!(!path.exists(), "no new one is made");
    fs::rename(&aside, &path).unwrap();
    put(&store, "/routes/2").await.unwrap();
    assert_eq!(*store.health().unwrap().borrow(), Health::Following);
    drop(store);
    assert_eq!(open(&path).list("").await.unwrap().entries.len(), 2);
}

#[tokio::test]
async fn a_write_right_after_the_file_was_replaced_is_refused() {
    let (directory, path) = place();
    let other = directory.path().join("other.redb");
    put(&open(&other), "/routes/other").await.unwrap();
    let store = open(&path);
    put(&store, "/routes/1").await.unwrap();
    fs::rename(&other, &path).unwrap();
    refused(&store, "was replaced by another one").await;
    let keys = |listing: crate::Listing| listing.entries.into_iter().map(|entry| entry.key.to_string());
    assert_eq!(keys(store.list("").await.unwrap()).collect::<Vec<_>>(), ["/routes/1"]);
    drop(store);
    assert_eq!(keys(open(&path).list("").await.unwrap()).collect::<Vec<_>>(), ["/routes/other"]);
}

#[tokio::test]
async fn what_was_truncated_stays_so_at_any_size() {
    let (_directory, path) = place();
    let store = open(&path);
    put(&store, "/routes/1").await.unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let bytes = file.metadata().unwrap().len();
    file.set_len(bytes / 2).unwrap();
    assert!(noticed(&store).await.contains("was truncated"));
    file.set_len(bytes).unwrap();
    refused(&store, "was truncated").await;
}

#[test]
fn a_file_that_goes_during_a_commit_takes_the_acknowledgement_with_it() {
    let (_directory, path) = place();
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::write(&path, "1234").unwrap();
    let presence = Presence::new(&path).unwrap();
    fs::write(&path, "12345678").unwrap();
    assert_eq!((presence.committed(), presence.check()), (Ok(()), Ok(())), "a commit makes it longer");
    fs::remove_file(&path).unwrap();
    assert!(presence.committed().is_err());
    assert!(Presence::new(Path::new("/nonexistent/store")).is_err());
}
