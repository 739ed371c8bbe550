//! The current snapshot: published by the control plane, read by the workers.

use crate::Snapshot;
use arc_swap::{ArcSwap, Cache};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// The current snapshot.
#[derive(Debug)]
pub struct Published {
    current: Arc<ArcSwap<Snapshot>>,
    /// Replaced snapshots that a reader may still hold. One more reference here keeps the last one from being dropped,
    /// with all its routes, on a worker. No more of them than readers and the requests in flight.
    graveyard: Mutex<Vec<Arc<Snapshot>>>,
    applied: watch::Sender<u64>,
}

/// One worker's sight of the current snapshot.
#[derive(Debug, Clone)]
pub struct Reader(Cache<Arc<ArcSwap<Snapshot>>, Arc<Snapshot>>);

impl Published {
    /// Publishes a first snapshot.
    #[must_use]
    pub fn new(first: Arc<Snapshot>) -> Self {
        let applied = watch::Sender::new(first.revision);
        Self { current: Arc::new(ArcSwap::new(first)), graveyard: Mutex::default(), applied }
    }

    /// Replaces the current snapshot. Workers see it with their next request; requests in flight end under the one
    /// they began with.
    pub fn publish(&self, snapshot: Arc<Snapshot>) {
        let revision = snapshot.revision;
        let replaced = self.current.swap(snapshot);
        self.graveyard.lock().unwrap_or_else(PoisonError::into_inner).push(replaced);
        self.sweep();
        self.applied.send_replace(revision);
    }

    /// Tells those who follow [`Self::applied`] that nodes of the current snapshot's services are others.
    pub(crate) fn tell(&self) {
        self.applied.send_modify(|_| {});
    }

    /// The current snapshot, for readers that ask seldom.
    #[must_use]
    pub fn current(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// A reader for one worker.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader(Cache::new(Arc::clone(&self.current)))
    }

    /// The store revision of the current snapshot. Tells of every snapshot, also of one with the revision before.
    #[must_use]
    pub fn applied(&self) -> watch::Receiver<u64> {
        self.applied.subscribe()
    }

    /// Frees replaced snapshots that nobody reads any more, on the caller's thread; whether others are left.
    pub fn sweep(&self) -> bool {
        let mut graveyard = self.graveyard.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody can come to hold one again: readers clone the current snapshot alone.
        let (held, free) = graveyard.drain(..).partition(|snapshot| Arc::strong_count(snapshot) > 1);
        *graveyard = held;
        let left = !graveyard.is_empty();
        drop(graveyard);
        drop::<Vec<_>>(free);
        left
    }
}

impl Reader {
    /// The current snapshot: one atomic load and a comparison as long as it is the same as the last time. Whoever keeps
    /// it beyond a request clones it.
    #[inline]
    pub fn current(&mut self) -> &Arc<Snapshot> {
        self.0.load()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(revision: u64) -> Arc<Snapshot> {
        Arc::new(Snapshot { revision, ..Snapshot::default() })
    }

    #[test]
    fn readers_see_what_was_published_last_and_others_hear_of_it() {
        let published = Published::new(snapshot(1));
        let (mut reader, mut applied) = (published.reader(), published.applied());
        assert_eq!(reader.current().revision, 1);
        published.publish(snapshot(2));
        assert_eq!((reader.current().revision, published.current().revision), (2, 2));
        assert!(applied.has_changed().expect("not closed"));
        assert_eq!(*applied.borrow_and_update(), 2);
    }

    #[test]
    fn a_replaced_snapshot_is_freed_by_the_publisher_once_no_reader_holds_it() {
        let first = snapshot(1);
        let weak = Arc::downgrade(&first);
        let published = Published::new(first);
        let mut reader = published.reader();
        let in_flight = Arc::clone(reader.current());

        published.publish(snapshot(2));
        assert!(published.sweep(), "a reader holds it");
        reader.current();
        drop(in_flight);
        assert!(weak.upgrade().is_some(), "not freed by readers");
        assert!(!published.sweep());
        assert!(weak.upgrade().is_none());
    }

    #[test]
    fn what_nobody_reads_is_freed_at_once() {
        let first = snapshot(1);
        let weak = Arc::downgrade(&first);
        let published = Published::new(first);
        published.publish(snapshot(2));
        assert!(weak.upgrade().is_none());
    }
}
