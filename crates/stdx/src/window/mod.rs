//! Counters over windows of time, exact across all workers.
//!
//! A key's running window is one shared counter. Each worker remembers the windows it used last, so counting is a look
//! into the worker's own table and one atomic addition. Only a key seen for the first time, or a window's end, takes
//! the lock of one shard; whoever comes second there finds the window that the first one made.
//!
//! Time is passed in, in milliseconds of one clock for all callers ([`crate::Clock`]).

mod near;
mod parts;
mod shard;
mod sliding;

use crate::{PerWorker, WorkerToken, hash};
use near::Near;
use parts::{Key, Window};
use shard::Shard;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

pub use parts::Scope;
pub use sliding::Slid;

/// Keys with a window at one time, in all: at about 200 bytes each they take 200 MB. When a shard is full, a key seen
/// for the first time pushes out a window that has run out, and where the hand finds none, the one of a few that ends
/// soonest: that key begins a new window early, and the new key is limited as it should be.
pub const KEYS_MAX: usize = 1 << 20;

/// Locks that keys are spread over: enough that all workers at a window's end rarely want the same.
const SHARDS: usize = 64;

/// Windows by key. One for the process.
pub struct Windows {
    shards: Box<[Mutex<Shard>]>,
    near: PerWorker<Near>,
    /// For the workers' tables.
    seed: u64,
    /// For the shards: clients choose keys, so this is the standard library's keyed hash.
    random: RandomState,
}

/// The state of a window after an addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// All that was counted in this window, this addition included.
    pub consumed: u64,
    /// Milliseconds until the window ends; never 0.
    pub left_ms: u64,
}

impl Windows {
    /// An empty set for at most `keys_max` keys; see [`KEYS_MAX`].
    #[must_use]
    pub fn new(keys_max: usize) -> Self {
        let shard_max = keys_max.div_ceil(SHARDS);
        Self {
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::new(shard_max))).collect(),
            near: PerWorker::default(),
            seed: hash::seed(),
            random: RandomState::new(),
        }
    }

    /// The scope called `name`.
    #[must_use]
    pub fn scope(&self, name: &str) -> Scope {
        Scope { name: name.into(), hash: hash::hash(self.seed, name.as_bytes()) }
    }

    /// Counts `cost` for `key` in its running fixed window, which begins now and lasts `length_ms` if there is none.
    /// The cost is counted however much was counted before: whether it was too much is for the caller to say.
    #[inline(always)]
    pub fn count(
        &self,
        worker: &WorkerToken,
        scope: &Scope,
        key: &[u8],
        cost: u64,
        length_ms: u64,
        now_ms: u64,
    ) -> Counted {
        let hash = hash::hash(scope.hash, key);
        let near = self.near.borrow(worker);
        if let Some(window) = near.find(hash, scope, key, 0)
            && let Some(left_ms) = window.left(now_ms)
        {
            return Counted { consumed: window.add(cost), left_ms };
        }
        drop(near);
        self.count_in_shard(worker, hash, scope, key, cost, length_ms, now_ms)
    }

    /// The way through the shared map: about one request per key, worker and window comes here.
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "the caller's, handed on")]
    fn count_in_shard(
        &self,
        worker: &WorkerToken,
        hash: u64,
        scope: &Scope,
        key: &[u8],
        cost: u64,
        length_ms: u64,
        now_ms: u64,
    ) -> Counted {
        let end = now_ms.saturating_add(length_ms.max(1));
        let window = self.running(scope, key, 0, now_ms, |key, _| Window {
            key,
            end: AtomicU64::new(end),
            keep_until: end,
            consumed: AtomicU64::new(0),
            previous: 0,
        });
        let left_ms = window.left(now_ms).unwrap_or(1);
        let consumed = window.add(cost);
        self.near.with(worker, |near| near.remember(hash, window));
        Counted { consumed, left_ms }
    }

    /// The key's running window; `make` makes the next one, given the key and the window that has ended.
    fn running(
        &self,
        scope: &Scope,
        value: &[u8],
        sliding: u64,
        now_ms: u64,
        make: impl FnOnce(Arc<Key>, Option<&Window>) -> Window,
    ) -> Arc<Window> {
        let key = Key { scope: Arc::clone(&scope.name), value: value.into(), sliding };
        let at = self.random.hash_one(&key) as usize % SHARDS;
        // A shard is consistent whenever its lock is free, so a thread that died with it harms no one.
        self.shards[at].lock().unwrap_or_else(PoisonError::into_inner).running(key, now_ms, make)
    }
}

impl Default for Windows {
    fn default() -> Self {
        Self::new(KEYS_MAX)
    }
}

impl std::fmt::Debug for Windows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Windows").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
