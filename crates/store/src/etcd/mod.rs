//! etcd: what a fleet shares, in APISIX's layout, so that gateways of both kinds may hold it side by side.
//!
//! A client of our own for the dozen calls that are needed, on the `h2` that the gateway has anyhow: docs/decisions has
//! the reasons. Reads are linearizable. A watch ends with its connection; [`Cached`](crate::Cached) begins it anew.

mod acceptance;
mod config;
mod endpoint;
mod failure;
mod fleet;
mod grpc;
mod history;
mod keys;
mod members;
mod message;
mod read;
#[cfg(test)]
pub(crate) mod tests;
mod txn;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::txn::check_key;
use crate::{
    Acceptance, BoxFuture, Entry, Listing, RevisionRecord, Store, StoreError, Txn, TxnOutcome, Watch,
};
pub use config::EtcdConfig;
pub use endpoint::{Endpoint, EtcdTls};
use failure::Failure;
pub use fleet::{Fleet, Member};
use keys::{Keys, signed};
pub(crate) use members::random;
use members::{Members, Repeat};
use message::{CompactionRequest, Done};

/// A store in etcd.
#[derive(Clone)]
pub struct Etcd(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) members: Members,
    pub(crate) keys: Keys,
    /// Whether the account may write beside APISIX's keys.
    records: AtomicBool,
    written: AtomicU64,
}

impl Etcd {
    /// A store on the cluster. Nothing is connected yet; calls run on the caller's tokio runtime.
    #[must_use]
    pub fn new(config: EtcdConfig) -> Self {
        Self(Arc::new(Inner {
            keys: Keys::new(&config.prefix),
            members: Members::new(config),
            records: AtomicBool::new(true),
            written: AtomicU64::new(0),
        }))
    }

    pub(crate) fn keeps_records(&self) -> bool {
        self.0.records.load(Ordering::Relaxed)
    }

    pub(crate) fn keep_no_records(&self) {
        self.0.records.store(false, Ordering::Relaxed);
        tracing::warn!("etcd's account may not write below /tidegate: the history names no actors and times");
    }

    /// A record has been written; now and then the oldest go.
    pub(crate) async fn recorded(&self) {
        let written = self.0.written.fetch_add(1, Ordering::Relaxed) + 1;
        if let Err(failure) = history::prune(self, written).await {
            tracing::warn!(%failure, "old records of the history could not be deleted");
        }
    }
}

impl Store for Etcd {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        Box::pin(async move {
            check_key(key)?;
            read::get(self, key, 0).await.map_err(Failure::of_read)
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        Box::pin(read::list(self, prefix))
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome, StoreError>> {
        Box::pin(async move {
            txn.check()?;
            // On a task of its own, so that a caller that stops waiting doesn't take it back half-way.
            let etcd = self.clone();
            let run = tokio::spawn(async move { txn::run(&etcd, &txn).await });
            run.await.unwrap_or_else(|error| Err(StoreError::Unknown(error.to_string())))
        })
    }

    fn watch(&self, from: u64) -> BoxFuture<'_, Result<Box<dyn Watch>, StoreError>> {
        Box::pin(async move { Ok(Box::new(watch::Follow::start(self, from).await?) as Box<dyn Watch>) })
    }

    fn history(
        &self,
        before: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<RevisionRecord>, StoreError>> {
        Box::pin(history::page(self, before, limit))
    }

    fn value_at<'a>(
        &'a self,
        key: &'a str,
        revision: u64,
    ) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        Box::pin(async move {
            check_key(key)?;
            read::value_at(self, key, revision).await
        })
    }

    fn compact(&self, revision: u64) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let request = CompactionRequest { revision: signed(revision) };
            let done: Result<Done, Failure> =
                self.0.members.call("/etcdserverpb.KV/Compact", &request, Repeat::Freely).await;
            match done {
                Err(failure) if failure.is_future() => {
                    Err(StoreError::Future { newest: read::newest(self).await? })
                }
                Err(failure) if !failure.is_compacted() => Err(failure.of_write()),
                _ => Ok(()),
            }
        })
    }

    fn acceptance(&self) -> BoxFuture<'_, Result<Option<Acceptance>, StoreError>> {
        Box::pin(acceptance::read(self))
    }

    fn record_acceptance(&self, acceptance: Acceptance) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(acceptance::write(self, acceptance))
    }

    fn expect_at_least(&self, cluster: u64, revision: u64) {
        self.0.members.expect_at_least(cluster, revision);
    }
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Etcd").field("keys", &self.0.keys).finish_non_exhaustive()
    }
}
