//! The published snapshot follows the store, through bursts and failures.

use super::fixture::{Gateway, entry, put};
use crate::{Builder, FollowStatus, Published, follow};
use serde_json::json;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use store::{Batch, BoxFuture, Entry, Listing, RevisionRecord, Store, StoreError, Txn, TxnOutcome, Watch};

/// A store that answers as it was told, in this order. Where it has been told nothing more, it waits for ever.
#[derive(Default)]
struct Script {
    lists: Mutex<VecDeque<Result<Listing, StoreError>>>,
    watches: Mutex<VecDeque<Vec<Result<Batch, StoreError>>>>,
    watched_from: Mutex<Vec<u64>>,
}

struct Tape(VecDeque<Result<Batch, StoreError>>);

impl Watch for Tape {
    fn next(&mut self) -> BoxFuture<'_, Result<Batch, StoreError>> {
        match self.0.pop_front() {
            Some(next) => Box::pin(std::future::ready(next)),
            None => Box::pin(std::future::pending()),
        }
    }
}

impl Store for Script {
    fn list<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        match self.lists.lock().expect("no panic").pop_front() {
            Some(listing) => Box::pin(std::future::ready(listing)),
            None => Box::pin(std::future::pending()),
        }
    }

    fn watch(&self, from: u64) -> BoxFuture<'_, Result<Box<dyn Watch>, StoreError>> {
        self.watched_from.lock().expect("no panic").push(from);
        let tape = self.watches.lock().expect("no panic").pop_front().unwrap_or_default();
        Box::pin(std::future::ready(Ok(Box::new(Tape(tape.into())) as Box<dyn Watch>)))
    }

    fn get<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        unavailable()
    }

    fn txn(&self, _: Txn) -> BoxFuture<'_, Result<TxnOutcome, StoreError>> {
        unavailable()
    }

    fn history(&self, _: Option<u64>, _: usize) -> BoxFuture<'_, Result<Vec<RevisionRecord>, StoreError>> {
        unavailable()
    }

    fn value_at<'a>(&'a self, _: &'a str, _: u64) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        unavailable()
    }

    fn compact(&self, _: u64) -> BoxFuture<'_, Result<(), StoreError>> {
        unavailable()
    }
}

fn unavailable<'a, T: Send + 'a>() -> BoxFuture<'a, Result<T, StoreError>> {
    Box::pin(std::future::ready(Err(lost())))
}

fn lost() -> StoreError {
    StoreError::Unavailable("the cable is out".to_owned())
}

fn listing(revision: u64, keys: &[&str]) -> Result<Listing, StoreError> {
    let entries = keys.iter().map(|key| entry(key, r#"{"uri": "/"}"#)).collect();
    Ok(Listing { revision, entries, cluster: 0 })
}

fn batch(revision: u64, key: &str) -> Result<Batch, StoreError> {
    Ok(Batch { revision, changes: vec![put(key, &json!({"uri": "/"}))] })
}

/// Follows `script` until `revision` is applied: the revisions published on the way, and the state reached.
async fn run(script: Arc<Script>, revision: u64) -> (Vec<u64>, Arc<Published>, Arc<FollowStatus>) {
    let gateway = Gateway::new();
    let builder: Builder = gateway.builder;
    let published = Arc::new(Published::new(gateway.snapshot));
    let status = Arc::new(FollowStatus::default());
    let mut applied = published.applied();
    let mut seen = Vec::new();
    let (_no_orders, orders) = tokio::sync::mpsc::channel(1);
    let following = follow(script, builder, Arc::clone(&published), Arc::clone(&status), orders);
    let following: BoxFuture<'_, Infallible> = Box::pin(following);
    tokio::pin!(following);
    while seen.last() != Some(&revision) {
        tokio::select! {
            biased;
            changed = applied.changed() => {
                changed.expect("not closed");
                seen.push(*applied.borrow_and_update());
            }
            never = &mut following => match never {},
        }
    }
    (seen, published, status)
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_published_once() {
    let script = Script::default();
    script.lists.lock().expect("no panic").push_back(listing(7, &["/routes/1"]));
    let burst = (8..12).map(|revision| batch(revision, &format!("/routes/{revision}"))).collect();
    script.watches.lock().expect("no panic").push_back(burst);
    let script = Arc::new(script);
    let (seen, published, status) = run(Arc::clone(&script), 11).await;
    // The first poll may reach the watch before anyone hears of the listing.
    assert!(seen == [7, 11] || seen == [11], "{seen:?}");
    assert_eq!(published.current().router.len(), 5);
    assert_eq!(*script.watched_from.lock().expect("no panic"), [8]);
    assert!(status.loaded() && status.store_error().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_gap_is_closed_by_a_new_listing() {
    let script = Script::default();
    let compacted = Err(StoreError::Compacted { oldest: 20 });
    script.lists.lock().expect("no panic").extend([listing(7, &["/routes/1"]), listing(30, &["/routes/2"])]);
    script.watches.lock().expect("no panic").push_back(vec![batch(8, "/routes/3"), compacted]);
    let script = Arc::new(script);
    let (_, published, _) = run(Arc::clone(&script), 30).await;
    let snapshot = published.current();
    assert!(snapshot.router.len() == 1 && snapshot.router.get("2").is_some());
    assert_eq!(script.watched_from.lock().expect("no panic")[0], 8);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_is_asked_again_and_the_last_snapshot_stays() {
    let script = Script::default();
    script.lists.lock().expect("no panic").extend([
        Err(lost()),
        listing(7, &["/routes/1"]),
        Err(lost()),
        Err(lost()),
        listing(9, &["/routes/1", "/routes/2"]),
    ]);
    script.watches.lock().expect("no panic").push_back(vec![Err(lost())]);
    let script = Arc::new(script);
    let began = tokio::time::Instant::now();
    let (seen, published, status) = run(script, 9).await;
    assert_eq!(seen, [7, 9]);
    assert_eq!((published.current().router.len(), status.store_error()), (2, None));
    // 100 ms before the first listing, then 100 ms, 200 ms and 400 ms.
    assert_eq!(began.elapsed().as_millis() / 100, 8);
}

#[tokio::test(start_paused = true)]
async fn problems_are_shown_before_the_snapshot_is() {
    let script = Script::default();
    let bad = Listing { revision: 3, entries: vec![entry("/routes/1", "{")], cluster: 0 };
    script.lists.lock().expect("no panic").push_back(Ok(bad));
    let (_, _, status) = run(Arc::new(script), 3).await;
    assert_eq!(
        status.problems().iter().map(|problem| problem.key.as_str()).collect::<Vec<_>>(),
        ["/routes/1"]
    );
}
