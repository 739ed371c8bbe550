//! Keeps the published snapshot equal to the store.

use crate::limits::{COALESCED_CHANGES_MAX, RETRY_PAUSE_MAX, RETRY_PAUSE_MIN, SWEEP_PAUSE};
use crate::{Builder, FollowStatus, Published, Snapshot};
use std::convert::Infallible;
use std::sync::Arc;
use store::{Batch, Store, StoreError, Watch};
use tokio::time::sleep;

/// Loads the configuration, publishes it, and publishes every later state, for ever. While the store fails, requests
/// are served from the last snapshot and the store is asked again. `status` says how things stand.
///
/// Snapshots are built on the thread that polls this future, which takes up to a second for 100,000 routes at the
/// start. Give it a runtime that nobody waits for.
pub async fn follow(
    store: Arc<dyn Store>,
    builder: Builder,
    published: Arc<Published>,
    status: Arc<FollowStatus>,
) -> Infallible {
    let mut follower = Follower { store, builder, published, status, loaded: false };
    let mut pause = RETRY_PAUSE_MIN;
    loop {
        follower.loaded = false;
        let Err(error) = follower.follow_until_lost().await;
        follower.status.store_failed(&error);
        if follower.loaded {
            pause = RETRY_PAUSE_MIN;
        }
        tracing::error!(retry_in_ms = pause.as_millis(), "lost the store, will load from it anew: {error}");
        sleep(pause).await;
        pause = RETRY_PAUSE_MAX.min(pause * 2);
    }
}

struct Follower {
    store: Arc<dyn Store>,
    builder: Builder,
    published: Arc<Published>,
    status: Arc<FollowStatus>,
    /// Whether the store has answered since it was last lost.
    loaded: bool,
}

impl Follower {
    /// Takes in the store's present state, then its changes, until the store fails.
    async fn follow_until_lost(&mut self) -> Result<Infallible, StoreError> {
        let listing = self.store.list("").await?;
        let from = listing.revision + 1;
        let snapshot = self.builder.load(listing.revision, &listing.entries);
        drop(listing);
        self.publish(snapshot);
        self.loaded = true;
        let store = Arc::clone(&self.store);
        let mut watch = store.watch(from).await?;
        loop {
            let first = self.first(watch.as_mut()).await?;
            let (burst, lost) = rest_of_burst(first, watch.as_mut()).await;
            let snapshot = self.builder.apply(burst.revision, &burst.changes);
            self.publish(snapshot);
            lost.map_or(Ok(()), Err)?;
        }
    }

    /// The next revision. Frees replaced snapshots while there is nothing to do.
    async fn first(&self, watch: &mut dyn Watch) -> Result<Batch, StoreError> {
        let mut unswept = true;
        loop {
            tokio::select! {
                batch = watch.next() => return batch,
                () = sleep(SWEEP_PAUSE), if unswept => unswept = self.published.sweep(),
            }
        }
    }

    fn publish(&self, snapshot: Arc<Snapshot>) {
        self.status.applied(self.builder.problems());
        self.published.publish(snapshot);
    }
}

/// Takes with `burst` what has come since, without waiting, and an error that ends the watch.
async fn rest_of_burst(mut burst: Batch, watch: &mut dyn Watch) -> (Batch, Option<StoreError>) {
    while burst.changes.len() < COALESCED_CHANGES_MAX {
        tokio::select! {
            biased;
            more = watch.next() => match more {
                Ok(more) => {
                    burst.revision = more.revision;
                    burst.changes.extend(more.changes);
                }
                Err(error) => return (burst, Some(error)),
            },
            () = std::future::ready(()) => break,
        }
    }
    (burst, None)
}
