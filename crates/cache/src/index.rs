//! Values by key, within a weight; the least recently used go first.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Values by key.
#[derive(Debug)]
pub(crate) struct Index<V> {
    slots: HashMap<Arc<[u8]>, Slot<V>>,
    /// Keys by when they were used last.
    order: BTreeMap<u64, Arc<[u8]>>,
    uses: u64,
    weight: u64,
    weight_max: u64,
    count_max: usize,
}

#[derive(Debug)]
struct Slot<V> {
    value: V,
    weight: u64,
    used: u64,
}

impl<V> Index<V> {
    /// An empty one, for at most `count_max` values of `weight_max` in all.
    pub(crate) fn new(weight_max: u64, count_max: usize) -> Self {
        Self {
            slots: HashMap::new(),
            order: BTreeMap::new(),
            uses: 0,
            weight: 0,
            weight_max,
            count_max: count_max.max(1),
        }
    }

    /// The value of `key`, which counts as used.
    pub(crate) fn get(&mut self, key: &[u8]) -> Option<&V> {
        let slot = self.slots.get_mut(key)?;
        self.uses += 1;
        if let Some(own) = self.order.remove(&slot.used) {
            self.order.insert(self.uses, own);
        }
        slot.used = self.uses;
        Some(&slot.value)
    }

    /// Puts a value in place of the key's, if it has one; what has to go for it is given back. A value that is too heavy
    /// by itself is given back, too.
    pub(crate) fn put(&mut self, key: &[u8], value: V, weight: u64) -> Vec<V> {
        let mut gone: Vec<V> = Vec::new();
        if weight > self.weight_max {
            gone.extend(self.remove(key));
            gone.push(value);
            return gone;
        }
        self.remove(key);
        while self.weight + weight > self.weight_max || self.slots.len() >= self.count_max {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            gone.extend(self.take(&oldest));
        }
        self.uses += 1;
        let key: Arc<[u8]> = key.into();
        self.order.insert(self.uses, Arc::clone(&key));
        self.slots.insert(key, Slot { value, weight, used: self.uses });
        self.weight += weight;
        gone
    }

    /// Takes the value of `key` out.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<V> {
        let used = self.slots.get(key)?.used;
        self.order.remove(&used);
        self.take(key)
    }

    fn take(&mut self, key: &[u8]) -> Option<V> {
        let slot = self.slots.remove(key)?;
        self.weight -= slot.weight;
        Some(slot.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_go_first() {
        let mut index = Index::new(10, 3);
        assert!(index.put(b"a", 1, 4).is_empty() && index.put(b"b", 2, 4).is_empty());
        assert_eq!(index.get(b"a"), Some(&1));
        assert_eq!(index.put(b"c", 3, 4), [2]);
        assert_eq!(index.get(b"b"), None);
        assert_eq!(index.get(b"c"), Some(&3));
        assert!(index.put(b"a", 4, 1).is_empty(), "in place of the old one");
        assert!(index.put(b"d", 5, 1).is_empty());
        assert_eq!(index.put(b"e", 6, 1), [3], "three at most");
        assert_eq!(index.put(b"f", 7, 11), [7], "too heavy");
        assert_eq!((index.remove(b"a"), index.remove(b"a")), (Some(4), None));
        assert_eq!(index.weight, 2);
    }
}
