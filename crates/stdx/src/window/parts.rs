//! One window, and where it belongs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What keys belong to: the configuration that counts. Equal names share their windows.
#[derive(Debug, Clone)]
pub struct Scope {
    pub(super) name: Arc<str>,
    pub(super) hash: u64,
}

/// Where a window belongs.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) scope: Arc<str>,
    pub(super) value: Box<[u8]>,
    /// Of a sliding window, in milliseconds: another length is another counter. 0 for fixed windows, whose length is
    /// settled when they begin.
    pub(super) sliding: u64,
}

/// One window of one key.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) key: Arc<Key>,
    /// First millisecond after the window; 0 when pushed out to make room.
    pub(super) end: AtomicU64,
    /// From when on the shard may forget it.
    pub(super) keep_until: u64,
    pub(super) consumed: AtomicU64,
    /// What the window before it had counted; sliding windows only.
    pub(super) previous: u64,
}

impl Scope {
    /// The name it was made with.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Window {
    /// Milliseconds until the end, unless it has come.
    #[inline]
    pub(super) fn left(&self, now_ms: u64) -> Option<u64> {
        let end = self.end.load(Ordering::Relaxed);
        (now_ms < end).then(|| end - now_ms)
    }

    /// What is counted once `cost` is added. Relaxed: nothing else is published by this number.
    #[inline]
    pub(super) fn add(&self, cost: u64) -> u64 {
        self.consumed.fetch_add(cost, Ordering::Relaxed).saturating_add(cost)
    }
}
