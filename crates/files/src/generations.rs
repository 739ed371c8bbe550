//! A bounded map that forgets what was not used for a while, without an order to keep: the young generation takes what
//! is used, and when it is full or old, it becomes the old one, and what was left in that is forgotten.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem;

/// A map of at most `max` entries. Everything that is used stays for at least half of `max` insertions, or `age_ms`.
#[derive(Debug)]
pub(crate) struct Generations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    born_ms: u64,
}

impl<K: Hash + Eq + Clone, V: Clone> Generations<K, V> {
    pub(crate) fn new() -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), born_ms: 0 }
    }

    /// The value of a key, which counts as used.
    pub(crate) fn get<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        if let Some(value) = self.young.get(key) {
            return Some(value.clone());
        }
        let (key, value) = self.old.remove_entry(key)?;
        self.young.insert(key, value.clone());
        Some(value)
    }

    /// Puts a value in.
    pub(crate) fn insert(&mut self, key: K, value: V, max: usize, now_ms: u64) {
        if self.young.len() >= max.div_ceil(2) {
            self.turn(now_ms);
        }
        if max > 0 {
            self.old.remove(&key);
            self.young.insert(key, value);
        }
    }

    /// Forgets what was not used for between one and two times `age_ms`.
    pub(crate) fn sweep(&mut self, age_ms: u64, now_ms: u64) {
        if now_ms.saturating_sub(self.born_ms) >= age_ms {
            self.turn(now_ms);
        }
    }

    /// Forgets what was not used since the last time.
    pub(crate) fn turn(&mut self, now_ms: u64) {
        self.old = mem::take(&mut self.young);
        self.born_ms = now_ms;
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_number_is_bounded() {
        let mut map = Generations::new();
        for n in 0..1000 {
            map.insert(n, n, 10, 0);
            assert!(map.len() <= 10, "{n}: {}", map.len());
            assert_eq!(map.get(&0), Some(0), "used each time");
        }
        assert_eq!(map.get(&999), Some(999));
        assert_eq!(map.get(&500), None);
        map.insert(1, 1, 0, 0);
        assert_eq!(map.get(&1), None, "a map of nothing keeps nothing");
    }

    #[test]
    fn what_is_old_goes() {
        let mut map = Generations::new();
        map.insert("a", 1, 10, 0);
        map.sweep(100, 99);
        assert_eq!(map.get("a"), Some(1));
        map.sweep(100, 100);
        map.sweep(100, 150);
        assert_eq!(map.get("a"), Some(1), "used, and young again");
        map.sweep(100, 200);
        map.sweep(100, 300);
        assert_eq!(map.get("a"), None);
    }
}
