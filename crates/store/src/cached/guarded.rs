//! A config source for those who ask what is so now, and write: without writes while it is rejected.

use std::sync::Arc;

use super::{Centre, Health};
use crate::{
    BoxFuture, Entry, Listing, RevisionRecord, Store, StoreError, Txn, TxnLimits, TxnOutcome, Watch,
};

/// A store behind [`Cached`](crate::Cached), as the Admin API sees it.
#[derive(Clone)]
pub struct Guarded(Arc<Centre>);

impl Guarded {
    pub(crate) fn new(centre: Arc<Centre>) -> Self {
        Self(centre)
    }

    /// A write on top of a store that was emptied would make it look like one that is in use.
    fn writable(&self) -> Result<(), StoreError> {
        match &*self.0.health.borrow() {
            Health::Rejected(rejection) => Err(StoreError::Rejected(rejection.reason.clone())),
            _ => Ok(()),
        }
    }
}

impl Store for Guarded {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        self.0.inner.get(key)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        self.0.inner.list(prefix)
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome, StoreError>> {
        match self.writable() {
            Ok(()) => self.0.inner.txn(txn),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn txn_limits(&self) -> TxnLimits {
        self.0.inner.txn_limits()
    }

    fn watch(&self, from: u64) -> BoxFuture<'_, Result<Box<dyn Watch>, StoreError>> {
        self.0.inner.watch(from)
    }

    fn history(
        &self,
        before: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<RevisionRecord>, StoreError>> {
        self.0.inner.history(before, limit)
    }

    fn value_at<'a>(
        &'a self,
        key: &'a str,
        revision: u64,
    ) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        self.0.inner.value_at(key, revision)
    }

    fn compact(&self, revision: u64) -> BoxFuture<'_, Result<(), StoreError>> {
        match self.writable() {
            Ok(()) => self.0.inner.compact(revision),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

impl std::fmt::Debug for Guarded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guarded").finish_non_exhaustive()
    }
}
