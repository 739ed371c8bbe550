//! The radix tree that serves hosts, URIs and ids alike: patterns in, those that fit a key out, best first.
//!
//! Persistent: a clone shares every node, and an edit copies only the nodes between the root and the place of the
//! edit, so a running snapshot never sees the next one being built.

use crate::window::Window;
use std::sync::Arc;

/// How many prefixes of one key a walk remembers. More lie on a key's path only where prefixes nest deeper than this;
/// then the tree is walked again for the shorter ones, which costs time but no memory.
const RECENT: usize = 8;

/// Patterns of type exact or prefix, each with a value.
#[derive(Debug)]
pub(crate) struct Tree<V> {
    root: Arc<Node<V>>,
}

/// What stands at one key.
#[derive(Debug, Clone)]
pub(crate) struct Slot<V> {
    /// For the key itself.
    pub(crate) exact: Option<V>,
    /// For the key and all that begins with it.
    pub(crate) prefix: Option<V>,
}

/// What is looked up: bytes, read in one of the two directions.
pub(crate) trait Key: Copy {
    /// Byte number `at` in reading order.
    fn byte(self, at: usize) -> Option<u8>;
    /// Whether `label` stands at `at`.
    fn continues(self, at: usize, label: &[u8]) -> bool;
}

/// A key read from its beginning: URIs.
#[derive(Clone, Copy)]
pub(crate) struct Forward<'k>(pub(crate) &'k [u8]);

/// A key read from its end, so that a common suffix is a common way through the tree: hosts. Reading backwards in
/// place spares a reversed copy per request.
#[derive(Clone, Copy)]
pub(crate) struct Backward<'k>(pub(crate) &'k [u8]);

#[derive(Debug, Clone)]
struct Node<V> {
    /// The bytes after the one that leads here; the root's is empty.
    label: Box<[u8]>,
    /// Boxed, so that a node with its counters fills one 64-byte cache line.
    slot: Option<Box<Slot<V>>>,
    children: Window<Arc<Node<V>>>,
}

struct Walk<'t, V> {
    exact: Option<&'t V>,
    /// A ring of the last prefixes met, the longest last.
    recent: [Option<&'t V>; RECENT],
    met: usize,
}

impl<V> Clone for Tree<V> {
    fn clone(&self) -> Self {
        Self { root: Arc::clone(&self.root) }
    }
}

impl<V> Default for Tree<V> {
    fn default() -> Self {
        Self { root: Arc::default() }
    }
}

impl<V> Default for Slot<V> {
    fn default() -> Self {
        Self { exact: None, prefix: None }
    }
}

impl<V> Default for Node<V> {
    fn default() -> Self {
        Self { label: Box::default(), slot: None, children: Window::default() }
    }
}

impl Key for Forward<'_> {
    #[inline]
    fn byte(self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    #[inline]
    fn continues(self, at: usize, label: &[u8]) -> bool {
        label.is_empty() || self.0.get(at..).is_some_and(|rest| rest.starts_with(label))
    }
}

impl Key for Backward<'_> {
    #[inline]
    fn byte(self, at: usize) -> Option<u8> {
        let from_start = self.0.len().checked_sub(at + 1)?;
        self.0.get(from_start).copied()
    }

    #[inline]
    fn continues(self, at: usize, label: &[u8]) -> bool {
        let rest = &self.0[..self.0.len().saturating_sub(at)];
        rest.len() >= label.len() && rest.iter().rev().zip(label).all(|(a, b)| a == b)
    }
}

impl<V> Tree<V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.root.slot.is_none() && self.root.children.is_empty()
    }

    /// The first answer that `test` gives for a pattern that fits `key`: the exact one, then the prefixes from the
    /// longest to the shortest.
    #[inline]
    pub(crate) fn find_map<'t, R>(
        &'t self,
        key: impl Key,
        mut test: impl FnMut(&'t V) -> Option<R>,
    ) -> Option<R> {
        let mut walk = self.walk(key, usize::MAX);
        if let Some(found) = walk.exact.and_then(&mut test) {
            return Some(found);
        }
        loop {
            if let Some(found) = walk.longest_first().find_map(&mut test) {
                return Some(found);
            }
            let shorter = walk.met.saturating_sub(RECENT);
            if shorter == 0 {
                return None;
            }
            walk = self.walk(key, shorter);
        }
    }

    /// Shows `visit` all that stands anywhere, in the order of keys.
    pub(crate) fn for_each<'t>(&'t self, mut visit: impl FnMut(&'t V)) {
        let mut pending = vec![&*self.root];
        while let Some(node) = pending.pop() {
            if let Some(slot) = &node.slot {
                slot.exact.iter().chain(&slot.prefix).for_each(&mut visit);
            }
            pending.extend(node.children.iter().rev().map(|child| &**child));
        }
    }

    /// What stands at exactly `key`.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Slot<V>> {
        let (mut node, mut rest) = (&*self.root, key);
        loop {
            rest = rest.strip_prefix(&*node.label)?;
            let Some((&byte, tail)) = rest.split_first() else { return node.slot.as_deref() };
            (node, rest) = (node.children.get(byte)?, tail);
        }
    }

    /// Goes down along `key` and remembers what it meets, but no more than the `limit` shortest prefixes.
    #[inline]
    fn walk<'t>(&'t self, key: impl Key, limit: usize) -> Walk<'t, V> {
        let mut walk = Walk { exact: None, recent: [None; RECENT], met: 0 };
        let (mut node, mut at) = (&*self.root, 0);
        while walk.met < limit && key.continues(at, &node.label) {
            at += node.label.len();
            let byte = key.byte(at);
            if let Some(slot) = &node.slot {
                if let Some(prefix) = &slot.prefix {
                    walk.recent[walk.met % RECENT] = Some(prefix);
                    walk.met += 1;
                }
                if byte.is_none() {
                    walk.exact = slot.exact.as_ref();
                }
            }
            let Some(child) = byte.and_then(|byte| node.children.get(byte)) else { break };
            node = child;
            at += 1;
        }
        walk
    }
}

impl<V: Clone> Tree<V> {
    /// What stands at `key`, for writing; made where there is nothing.
    pub(crate) fn slot_mut(&mut self, key: &[u8]) -> &mut Slot<V> {
        let (mut node, mut rest) = (Arc::make_mut(&mut self.root), key);
        loop {
            let shared = node.label.iter().zip(rest).take_while(|(a, b)| a == b).count();
            if shared < node.label.len() {
                node.split(shared);
            }
            let Some((&byte, tail)) = rest[shared..].split_first() else {
                return node.slot.get_or_insert_default();
            };
            let child = node.children.get_or_insert_with(byte, || Arc::new(Node::new(tail)));
            (node, rest) = (Arc::make_mut(child), tail);
        }
    }

    /// Lets `edit` change what stands at `key`, if anything, and takes away what it leaves empty.
    pub(crate) fn edit(&mut self, key: &[u8], edit: impl FnOnce(&mut Slot<V>)) {
        if self.get(key).is_some() {
            Arc::make_mut(&mut self.root).edit(key, edit);
        }
    }
}

impl<V> Node<V> {
    fn new(label: &[u8]) -> Self {
        Self { label: label.into(), slot: None, children: Window::default() }
    }

    /// Cuts the label after `at` bytes (`at` less than its length): this node keeps the first part, and a new child
    /// has the rest and all that was here.
    fn split(&mut self, at: usize) {
        let child = Self {
            label: self.label[at + 1..].into(),
            slot: self.slot.take(),
            children: std::mem::take(&mut self.children),
        };
        self.children.get_or_insert_with(self.label[at], || Arc::new(child));
        self.label = self.label[..at].into();
    }
}

impl<V: Clone> Node<V> {
    /// Recursion is as deep as patterns nest, which the schema bounds at 4096 bytes of URI.
    fn edit(&mut self, key: &[u8], edit: impl FnOnce(&mut Slot<V>)) {
        let Some(rest) = key.strip_prefix(&*self.label) else { return };
        let Some((&byte, tail)) = rest.split_first() else {
            self.slot.as_deref_mut().map(edit);
            self.slot.take_if(|slot| slot.exact.is_none() && slot.prefix.is_none());
            return;
        };
        let Some(child) = self.children.get_mut(byte) else { return };
        let child = Arc::make_mut(child);
        child.edit(tail, edit);
        if child.slot.is_none() {
            if child.children.is_empty() {
                self.children.remove(byte);
            } else {
                child.join_only_child();
            }
        }
    }

    /// Undoes [`Node::split`] where what made it necessary is gone.
    fn join_only_child(&mut self) {
        if let Some((byte, child)) = self.children.take_only() {
            let child = Arc::unwrap_or_clone(child);
            self.label = [&*self.label, &[byte], &*child.label].concat().into();
            self.slot = child.slot;
            self.children = child.children;
        }
    }
}

impl<'t, V> Walk<'t, V> {
    #[inline]
    fn longest_first(&self) -> impl Iterator<Item = &'t V> {
        let oldest = self.met.saturating_sub(RECENT);
        (oldest..self.met).rev().filter_map(|met| self.recent[met % RECENT])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn found(tree: &Tree<usize>, key: &[u8]) -> Vec<usize> {
        let mut all = Vec::new();
        tree.find_map(Forward(key), |&value| {
            all.push(value);
            None::<()>
        });
        all
    }

    #[test]
    fn prefixes_nested_deeper_than_the_ring_come_longest_first() {
        let mut tree = Tree::default();
        let key = [b'a'; 100];
        for len in 0..100 {
            tree.slot_mut(&key[..len]).prefix = Some(len);
        }
        assert_eq!(found(&tree, &key), (0..100).rev().collect::<Vec<_>>());
    }

    #[test]
    fn the_deepest_nesting_the_schema_allows_needs_no_deep_stack() {
        let key = [b'a'; 4096];
        let mut tree = Tree::default();
        for len in 0..=key.len() {
            tree.slot_mut(&key[..len]).prefix = Some(len);
        }
        tree.edit(&key, |slot| slot.prefix = None);
        assert_eq!(found(&tree, &key).len(), 4096);
    }

    #[test]
    fn a_key_is_read_in_both_directions() {
        let mut tree = Tree::default();
        tree.slot_mut(b"moc.oof.").prefix = Some(1);
        tree.slot_mut(b"moc.oof.a").exact = Some(2);
        for (host, expected) in [
            ("a.foo.com", Some(2)),
            ("b.foo.com", Some(1)),
            (".foo.com", Some(1)),
            ("foo.com", None),
            ("", None),
        ] {
            assert_eq!(tree.find_map(Backward(host.as_bytes()), |&v| Some(v)), expected, "{host}");
        }
    }

    proptest! {
        #[test]
        fn behaves_as_a_map_of_patterns(
            edits in prop::collection::vec(("[ab/]{0,6}", any::<bool>(), any::<bool>()), 0..60),
            keys in prop::collection::vec("[ab/]{0,8}", 1..10),
        ) {
            let mut tree = Tree::default();
            let mut map = BTreeMap::new();
            for (step, (key, exact, insert)) in edits.into_iter().enumerate() {
                let write = |slot: &mut Slot<usize>| {
                    let value = insert.then_some(step);
                    if exact { slot.exact = value } else { slot.prefix = value }
                };
                if insert {
                    write(tree.slot_mut(key.as_bytes()));
                    map.insert((key, exact), step);
                } else {
                    tree.edit(key.as_bytes(), write);
                    map.remove(&(key, exact));
                }
                prop_assert_eq!(tree.is_empty(), map.is_empty());
            }
            for key in keys {
                let mut expected: Vec<_> = map
                    .iter()
                    .filter(|((pattern, exact), _)| if *exact { *pattern == key } else { key.starts_with(pattern) })
                    .map(|((pattern, exact), value)| ((*exact, pattern.len()), *value))
                    .collect();
                expected.sort_unstable_by(|a, b| b.cmp(a));
                let expected: Vec<_> = expected.into_iter().map(|(_, value)| value).collect();
                prop_assert_eq!(found(&tree, key.as_bytes()), expected);
            }
        }
    }
}
