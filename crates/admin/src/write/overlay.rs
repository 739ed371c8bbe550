//! A store as it will be: another one with writes laid over it, which are not done yet.
//!
//! The checks of a write read the store. Reading this one instead, they see what a transaction leaves behind.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::{
    BoxFuture, Entry, Listing, RevisionRecord, Store, StoreError, Txn, TxnLimits, TxnOutcome, Watch,
};

/// Reads through to `base`, except for what was laid over it.
pub(crate) struct Overlay {
    /// `None` is an empty store.
    base: Option<Arc<dyn Store>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By key what stands there instead; `None` where it is gone.
    over: BTreeMap<String, Option<Entry>>,
    /// By prefix what `base` has, read once: every operation of a transaction asks for the same few.
    listed: HashMap<String, Arc<Listing>>,
}

impl Overlay {
    /// Nothing laid over `base` yet.
    pub(crate) fn new(base: Option<Arc<dyn Store>>) -> Self {
        Self { base, state: Mutex::default() }
    }

    /// Lays the writing of `value`, or with `None` a deletion, over a key, whose entry before is `previous`.
    pub(crate) fn lay(&self, key: &str, value: Option<Arc<[u8]>>, previous: Option<&Entry>) {
        let entry = value.map(|value| Entry {
            key: key.into(),
            value,
            create_revision: previous.map_or(0, |entry| entry.create_revision),
            mod_revision: 0,
            expires_at_ms: None,
        });
        self.state().over.insert(key.to_owned(), entry);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn base_listing(&self, prefix: &str) -> Result<Arc<Listing>, StoreError> {
        let known = self.state().listed.get(prefix).cloned();
        if let Some(listing) = known {
            return Ok(listing);
        }
        let listing = match &self.base {
            Some(base) => Arc::new(base.list(prefix).await?),
            None => Arc::new(Listing { revision: 0, entries: Vec::new(), cluster: 0 }),
        };
        self.state().listed.insert(prefix.to_owned(), Arc::clone(&listing));
        Ok(listing)
    }

    fn merged(&self, listing: &Listing, prefix: &str) -> Listing {
        let state = self.state();
        let below = || state.over.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
        let kept = listing.entries.iter().filter(|entry| !state.over.contains_key(&*entry.key)).cloned();
        let mut entries: Vec<Entry> = kept.chain(below().filter_map(|(_, entry)| entry.clone())).collect();
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        Listing { revision: listing.revision, entries, cluster: listing.cluster }
    }
}

fn refused<T>() -> Result<T, StoreError> {
    Err(StoreError::Unavailable("this is a view of what is to be, which is only read".to_owned()))
}

impl Store for Overlay {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        let over = self.state().over.get(key).cloned();
        Box::pin(async move {
            match (over, &self.base) {
                (Some(entry), _) => Ok(entry),
                (None, Some(base)) => base.get(key).await,
                (None, None) => Ok(None),
            }
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        Box::pin(async move {
            let listing = self.base_listing(prefix).await?;
            Ok(self.merged(&listing, prefix))
        })
    }

    fn txn_limits(&self) -> TxnLimits {
        self.base.as_ref().map_or(TxnLimits::COMMON, |base| base.txn_limits())
    }

    fn txn(&self, _txn: Txn) -> BoxFuture<'_, Result<TxnOutcome, StoreError>> {
        Box::pin(async { refused() })
    }

    fn watch(&self, _from: u64) -> BoxFuture<'_, Result<Box<dyn Watch>, StoreError>> {
        Box::pin(async { refused() })
    }

    fn history(
        &self,
        _before: Option<u64>,
        _limit: usize,
    ) -> BoxFuture<'_, Result<Vec<RevisionRecord>, StoreError>> {
        Box::pin(async { refused() })
    }

    fn value_at<'a>(
        &'a self,
        _key: &'a str,
        _revision: u64,
    ) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        Box::pin(async { refused() })
    }

    fn compact(&self, _revision: u64) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { refused() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_laid_over_is_what_is_read() {
        let below = Overlay::new(None);
        below.lay("/routes/1", Some(b"1".as_slice().into()), None);
        below.lay("/routes/2", Some(b"2".as_slice().into()), None);
        let above = Overlay::new(Some(Arc::new(below)));
        let keys = async || {
            let listing = above.list("/routes/").await.unwrap();
            listing.entries.into_iter().map(|entry| entry.key.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(keys().await, ["/routes/1", "/routes/2"]);
        above.lay("/routes/1", None, None);
        above.lay("/routes/3", Some(b"3".as_slice().into()), None);
        above.lay("/services/1", Some(b"s".as_slice().into()), None);
        assert_eq!(keys().await, ["/routes/2", "/routes/3"]);
        assert_eq!(above.get("/routes/1").await.unwrap(), None);
        assert!(above.get("/routes/2").await.unwrap().is_some());
        assert!(above.txn(Txn::default()).await.is_err());
    }
}
