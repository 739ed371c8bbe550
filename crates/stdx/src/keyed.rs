//! Small states by key, shared by all workers: for limits of which each request needs the latest state, not a sum.
//!
//! One lock per shard, held for a look into a table. That is some 20 ns, against a window of requests that would get
//! through if each worker had a state of its own; nothing waits and nothing is allocated under it but for a new key.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

/// Locks that keys are spread over.
const SHARDS: usize = 64;

/// States of keys that are kept at one time, in all: at about 150 bytes each they take 150 MB.
pub const KEYS_MAX: usize = 1 << 20;

/// Below this a shard is not looked through for idle states.
const SWEEP_MIN: usize = 128;

/// States by key.
pub struct Keyed<S> {
    shards: Box<[Mutex<Shard<S>>]>,
    shard_max: usize,
    /// Clients choose keys, so this is the standard library's keyed hash.
    random: RandomState,
}

struct Shard<S> {
    states: HashMap<Box<[u8]>, S>,
    /// How many states there are when it is next looked through: twice as many as were left the last time, so that a
    /// new key costs a constant share of that.
    sweep_at: usize,
}

impl<S: Default> Keyed<S> {
    /// An empty set for at most `keys_max` keys; see [`KEYS_MAX`].
    #[must_use]
    pub fn new(keys_max: usize) -> Self {
        let shard = || Mutex::new(Shard { states: HashMap::new(), sweep_at: SWEEP_MIN });
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            shard_max: keys_max.div_ceil(SHARDS).max(1),
            random: RandomState::new(),
        }
    }

    /// Runs `change` on the key's state; a new key begins with the default. Where room is needed states go that `idle`
    /// says so of, and where there is none, any.
    pub fn with<R>(&self, key: &[u8], idle: impl Fn(&S) -> bool, change: impl FnOnce(&mut S) -> R) -> R {
        self.locked(key, |shard| {
            if let Some(state) = shard.states.get_mut(key) {
                return change(state);
            }
            shard.make_room(self.shard_max, idle);
            change(shard.states.entry(key.into()).or_default())
        })
    }

    /// Runs `change` on the key's state, if there is one, and forgets it where `change` says so.
    pub fn release(&self, key: &[u8], change: impl FnOnce(&mut S) -> bool) {
        self.locked(key, |shard| {
            if shard.states.get_mut(key).is_some_and(change) {
                shard.states.remove(key);
            }
        });
    }

    /// How many keys have a state.
    #[must_use]
    pub fn len(&self) -> usize {
        let len = |shard: &Mutex<Shard<S>>| shard.lock().unwrap_or_else(PoisonError::into_inner).states.len();
        self.shards.iter().map(len).sum()
    }

    /// Whether no key has a state.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn locked<R>(&self, key: &[u8], f: impl FnOnce(&mut Shard<S>) -> R) -> R {
        let at = self.random.hash_one(key) as usize % SHARDS;
        // A shard is consistent whenever its lock is free, so a thread that died with it harms no one.
        f(&mut self.shards[at].lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S> Shard<S> {
    fn make_room(&mut self, most: usize, idle: impl Fn(&S) -> bool) {
        if self.states.len() < self.sweep_at.min(most) {
            return;
        }
        self.states.retain(|_, state| !idle(state));
        if self.states.len() >= most
            && let Some(any) = self.states.keys().next().cloned()
        {
            self.states.remove(&any);
        }
        self.sweep_at = (self.states.len() * 2).max(SWEEP_MIN);
    }
}

impl<S: Default> Default for Keyed<S> {
    fn default() -> Self {
        Self::new(KEYS_MAX)
    }
}

impl<S> std::fmt::Debug for Keyed<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyed").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_kept_released_and_bounded() {
        let keyed = Keyed::<u64>::new(64 * 4);
        let add = |key: &[u8]| {
            keyed.with(
                key,
                |state| *state == 0,
                |state| {
                    *state += 1;
                    *state
                },
            )
        };
        assert_eq!([add(b"a"), add(b"a"), add(b"b")], [1, 2, 1]);
        let leave = |key: &[u8]| {
            keyed.release(key, |state| {
                *state -= 1;
                *state == 0
            });
        };
        leave(b"b");
        leave(b"none");
        assert_eq!((keyed.len(), keyed.is_empty(), add(b"a")), (1, false, 3));
        for key in 0..10_000u32 {
            add(&key.to_le_bytes());
        }
        assert!(keyed.len() <= 64 * 4, "{}", keyed.len());
    }

    #[test]
    fn idle_states_make_room() {
        let keyed = Keyed::<u64>::default();
        for key in 0..100_000u32 {
            keyed.with(&key.to_le_bytes(), |_| true, |_| ());
        }
        assert!(keyed.len() <= 64 * SWEEP_MIN, "{}", keyed.len());
    }
}
