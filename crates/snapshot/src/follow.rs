//! Keeps the published snapshot equal to the store.

use crate::limits::{COALESCED_CHANGES_MAX, RETRY_PAUSE_MAX, RETRY_PAUSE_MIN, SWEEP_PAUSE};
use crate::{BuildOptions, Builder, FollowStatus, Published, Snapshot};
use plugin::Registry;
use secrets::Secrets;
use std::convert::Infallible;
use std::sync::Arc;
use store::{Batch, Store, StoreError, Watch};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;

/// An order to build everything anew: what a reload of the configuration file asks for.
#[derive(Debug)]
pub struct Rebuild {
    /// The plugins to build with.
    pub registry: Arc<Registry>,
    /// How to build.
    pub options: BuildOptions,
    /// Told when the snapshot is published.
    pub done: oneshot::Sender<()>,
}

/// Loads the configuration, publishes it, and publishes every later state, for ever. While the store fails, requests
/// are served from the last snapshot and the store is asked again. `status` says how things stand. Whatever comes over
/// `orders` is done in between, without asking the store.
///
/// Snapshots are built on the thread that polls this future, which takes up to a second for 100,000 routes at the
/// start. Give it a runtime that nobody waits for.
pub async fn follow(
    store: Arc<dyn Store>,
    builder: Builder,
    published: Arc<Published>,
    status: Arc<FollowStatus>,
    orders: mpsc::Receiver<Rebuild>,
) -> Infallible {
    let services = builder.discovery().changes();
    let mut follower = Follower { store, builder, published, status, orders, services, loaded: false };
    let mut pause = RETRY_PAUSE_MIN;
    loop {
        follower.loaded = false;
        let Err(error) = follower.follow_until_lost().await;
        follower.status.store_failed(&error);
        if follower.loaded {
            pause = RETRY_PAUSE_MIN;
        }
        tracing::error!(retry_in_ms = pause.as_millis(), "lost the store, will load from it anew: {error}");
        follower.meanwhile(sleep(pause)).await;
        pause = RETRY_PAUSE_MAX.min(pause * 2);
    }
}

struct Follower {
    store: Arc<dyn Store>,
    builder: Builder,
    published: Arc<Published>,
    status: Arc<FollowStatus>,
    orders: mpsc::Receiver<Rebuild>,
    /// Tells when nodes of services are others.
    services: watch::Receiver<()>,
    /// Whether the store has answered since it was last lost.
    loaded: bool,
}

impl Follower {
    /// Takes in the store's present state, then its changes, until the store fails.
    async fn follow_until_lost(&mut self) -> Result<Infallible, StoreError> {
        let store = Arc::clone(&self.store);
        let listing = self.meanwhile(store.list("")).await?;
        let from = listing.revision + 1;
        let snapshot = self.builder.load_after(listing.revision, &store.earlier(), &listing.entries);
        drop(listing);
        self.publish(snapshot);
        self.loaded = true;
        let mut watch = self.meanwhile(store.watch(from)).await?;
        loop {
            let first = self.first(watch.as_mut()).await?;
            let (burst, lost) = rest_of_burst(first, watch.as_mut()).await;
            let snapshot = self.builder.apply(burst.revision, &burst.changes);
            self.publish(snapshot);
            lost.map_or(Ok(()), Err)?;
        }
    }

    /// The next revision. Frees replaced snapshots while there is nothing to do.
    async fn first(&mut self, watch: &mut dyn Watch) -> Result<Batch, StoreError> {
        let mut unswept = true;
        loop {
            tokio::select! {
                batch = watch.next() => return batch,
                Some(order) = self.orders.recv() => self.rebuild(order),
                Ok(()) = self.services.changed() => self.refresh_services(),
                () = references_changed(self.builder.secrets()) => self.renew_references(),
                () = sleep(SWEEP_PAUSE), if unswept => unswept = self.published.sweep(),
            }
        }
    }

    /// Does what is ordered until `wait` is over.
    async fn meanwhile<T>(&mut self, wait: impl Future<Output = T>) -> T {
        let mut wait = std::pin::pin!(wait);
        loop {
            tokio::select! {
                biased;
                result = &mut wait => return result,
                Some(order) = self.orders.recv() => self.rebuild(order),
                Ok(()) = self.services.changed() => self.refresh_services(),
            }
        }
    }

    fn rebuild(&mut self, Rebuild { registry, options, done }: Rebuild) {
        let snapshot = self.builder.renew(self.published.current().revision, registry, options);
        // What has not been loaded is not published as an empty configuration.
        if self.status.loaded() {
            self.publish(snapshot);
        }
        // Nobody may be waiting for it.
        let _ = done.send(());
    }

    /// The snapshot stays; those who look after its nodes are told.
    fn refresh_services(&self) {
        if self.builder.refresh_services() {
            self.published.tell();
        }
    }

    /// Publishes what comes of references' new values, under the revision of the present snapshot.
    fn renew_references(&mut self) {
        if let Some(snapshot) = self.builder.renew_references(self.published.current().revision) {
            tracing::info!("secrets have changed; what refers to them is compiled again");
            self.publish(snapshot);
        }
    }

    fn publish(&self, snapshot: Arc<Snapshot>) {
        let mut problems = self.builder.problems();
        for earlier in self.store.keep_earlier(&self.builder.earlier_in_use()) {
            let named = problems.iter_mut().filter(|problem| *problem.key == *earlier.key);
            named.for_each(|problem| problem.revision_in_use = Some(earlier.mod_revision));
        }
        self.status.applied(problems);
        self.published.publish(snapshot);
    }
}

/// Waits until values behind references have changed; for ever where there are none.
async fn references_changed(secrets: Option<&Arc<Secrets>>) {
    match secrets {
        Some(secrets) => secrets.references().changed().await,
        None => std::future::pending().await,
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
