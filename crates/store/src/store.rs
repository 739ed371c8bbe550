//! The contract of every backend.

use std::pin::Pin;
use std::sync::Arc;

use crate::{
    Acceptance, Batch, Committed, Entry, Listing, Op, RevisionRecord, StoreError, Txn, TxnLimits, TxnOutcome,
};

/// A future behind a pointer, so that `dyn Store` works.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A store of configuration. Futures run on a tokio runtime.
pub trait Store: Send + Sync + 'static {
    /// One entry as of now.
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>>;

    /// All entries whose key starts with `prefix` (empty for all), as of one revision.
    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>>;

    /// Runs a transaction. Once it says `Committed`, the change survives the process and the machine's power.
    ///
    /// A caller that stops waiting doesn't take the transaction back.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] if it breaks [`Self::txn_limits`] or is contradictory; [`StoreError::Unknown`] if the medium failed half-way.
    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome, StoreError>>;

    /// How large a transaction of this backend may be; at least [`TxnLimits::COMMON`].
    fn txn_limits(&self) -> TxnLimits {
        TxnLimits::COMMON
    }

    /// Follows all changes of revision `from` and later, in order, without a gap. `from` may lie in the future.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] if `from` is no longer kept: list anew and watch from there.
    fn watch(&self, from: u64) -> BoxFuture<'_, Result<Box<dyn Watch>, StoreError>>;

    /// The newest revisions that are kept, newest first: those below `before` (`None` for all), at most `limit`, and
    /// at most [`crate::limits::HISTORY_PAGE_MAX`].
    fn history(
        &self,
        before: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<RevisionRecord>, StoreError>>;

    /// One entry as it was right after `revision`.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] and [`StoreError::Future`] outside the kept history.
    fn value_at<'a>(
        &'a self,
        key: &'a str,
        revision: u64,
    ) -> BoxFuture<'a, Result<Option<Entry>, StoreError>>;

    /// Forgets the history before `revision`: `value_at` still answers for it, a watch for what comes after it.
    ///
    /// # Errors
    /// [`StoreError::Future`] if it has not happened; older than what is kept is no error.
    fn compact(&self, revision: u64) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Earlier versions of listed entries whose present values may be unusable. A follower compiles them before it
    /// compiles the entries of [`Self::list`].
    fn earlier(&self) -> Vec<Entry> {
        Vec::new()
    }

    /// Records which earlier values are active because the present ones of their keys are unusable. A backend that saves
    /// its configuration saves these versions too, drops all others, and returns them.
    fn keep_earlier(&self, _active: &[(Arc<str>, Arc<[u8]>)]) -> Vec<Entry> {
        Vec::new()
    }

    /// The newest operator's acceptance of this store's contents; `None` where there is none.
    fn acceptance(&self) -> BoxFuture<'_, Result<Option<Acceptance>, StoreError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Leaves an acceptance for the other nodes that follow this store.
    fn record_acceptance(&self, _acceptance: Acceptance) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Refuses writes from now on if the store belongs to another cluster than `cluster` (0 for any) or is older than
    /// `revision`: such a store has lost what the gateway serves.
    fn expect_at_least(&self, _cluster: u64, _revision: u64) {}

    /// Writes one value unconditionally.
    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Arc<[u8]>,
        actor: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Committed, StoreError>> {
        Box::pin(unconditional(self, Op::Put { key: key.to_owned(), value, ttl: None }, actor))
    }

    /// Deletes one key. `applied[0].previous` says whether there was one.
    fn delete<'a>(
        &'a self,
        key: &'a str,
        actor: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Committed, StoreError>> {
        Box::pin(unconditional(self, Op::Delete { key: key.to_owned() }, actor))
    }
}

/// A place in the sequence of changes.
pub trait Watch: Send {
    /// The next revision's changes; waits for it. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] if this watch fell behind the kept history; [`StoreError::Unavailable`] once the
    /// store is closed.
    fn next(&mut self) -> BoxFuture<'_, Result<Batch, StoreError>>;

    /// The id of the cluster that is watched; 0 where the backend has none.
    fn cluster(&self) -> u64 {
        0
    }
}

async fn unconditional<S: Store + ?Sized>(
    store: &S,
    op: Op,
    actor: Option<&str>,
) -> Result<Committed, StoreError> {
    let txn = Txn { when: Vec::new(), then: vec![op], actor: actor.map(str::to_owned) };
    match store.txn(txn).await? {
        TxnOutcome::Committed(committed) => Ok(committed),
        TxnOutcome::Refused { .. } => {
            Err(StoreError::Unavailable("a backend refused a transaction without preconditions".to_owned()))
        }
    }
}
