//! A hash map whose copies share what they have in common: changing one entry of 100,000 copies some hundred.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

/// Parts of the map that are copied as a whole: with 100,000 entries a change copies 1,024 pointers and 100 entries,
/// which balances the two.
const SHARDS: usize = 1024;

/// A map that is cheap to clone, and cheap to change afterwards. Seeded: keys may come from clients.
pub struct PersistentMap<K, V> {
    /// Empty until something is put in.
    shards: Arc<[Arc<HashMap<K, V>>]>,
    hasher: RandomState,
    len: usize,
}

impl<K: Hash + Eq + Clone, V: Clone> PersistentMap<K, V> {
    /// The value of `key`.
    #[must_use]
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        if self.len == 0 {
            return None;
        }
        self.shards[self.shard_of(key)].get(key)
    }

    /// Puts `value` in place of what `key` has had, and gives that back.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let before = self.shard(&key).insert(key, value);
        self.len += usize::from(before.is_none());
        before
    }

    /// Takes `key` out.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.get(key)?;
        let removed = self.shard(key).remove(key);
        self.len -= usize::from(removed.is_some());
        removed
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.shards.iter().flat_map(|shard| shard.iter())
    }

    /// The part that holds `key`, a copy of its own where others share it.
    fn shard<Q: Hash + ?Sized>(&mut self, key: &Q) -> &mut HashMap<K, V> {
        if self.shards.is_empty() {
            let empty = Arc::default();
            self.shards = (0..SHARDS).map(|_| Arc::clone(&empty)).collect();
        }
        let at = self.shard_of(key);
        Arc::make_mut(&mut Arc::make_mut(&mut self.shards)[at])
    }

    fn shard_of<Q: Hash + ?Sized>(&self, key: &Q) -> usize {
        // The shards' own tables use the hash of another seed.
        self.hasher.hash_one(key) as usize % SHARDS
    }
}

impl<K, V> Clone for PersistentMap<K, V> {
    fn clone(&self) -> Self {
        Self { shards: Arc::clone(&self.shards), hasher: self.hasher.clone(), len: self.len }
    }
}

impl<K, V> Default for PersistentMap<K, V> {
    fn default() -> Self {
        Self { shards: Arc::new([]), hasher: RandomState::new(), len: 0 }
    }
}

impl<K, V> std::fmt::Debug for PersistentMap<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PersistentMap").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_does_not_see_later_changes() {
        let mut map = PersistentMap::<String, u32>::default();
        assert_eq!((map.remove("a"), map.get("a"), map.len()), (None, None, 0));
        for number in 0..5_000 {
            assert_eq!(map.insert(number.to_string(), number), None);
        }
        let before = map.clone();
        assert_eq!(map.insert("7".to_owned(), 70), Some(7));
        assert_eq!(map.remove("8"), Some(8));
        assert_eq!((map.get("7"), map.get("8"), map.len()), (Some(&70), None, 4_999));
        assert_eq!((before.get("7"), before.get("8"), before.len()), (Some(&7), Some(&8), 5_000));
        assert_eq!(before.iter().map(|(_, number)| u64::from(*number)).sum::<u64>(), 4_999 * 5_000 / 2);
        let shared = |at: usize| Arc::ptr_eq(&map.shards[at], &before.shards[at]);
        assert!((0..SHARDS).filter(|at| !shared(*at)).count() <= 2, "the others are still common property");
    }
}
