//! The children of a tree node: a window over the range of bytes between its lowest and highest child.
//!
//! A lookup is one subtraction and one load, however many children there are; that is what keeps a match among
//! 100,000 routes as cheap as among ten. Sorted pairs with a search cost several times the instructions on each
//! level; a full 256-entry table would cost 2 KiB for the two or three children that most nodes have.

/// Children by byte.
#[derive(Debug, Clone)]
pub(crate) struct Window<V> {
    first: u8,
    /// From the lowest child to the highest, so both ends are taken; never longer than `256 - first`.
    slots: Box<[Option<V>]>,
}

impl<V> Default for Window<V> {
    fn default() -> Self {
        Self { first: 0, slots: Box::default() }
    }
}

impl<V> Window<V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The child at `byte`. A byte below the window wraps around to an index beyond it.
    #[inline]
    pub(crate) fn get(&self, byte: u8) -> Option<&V> {
        self.slots.get(usize::from(byte.wrapping_sub(self.first)))?.as_ref()
    }

    /// The children, by their bytes.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.slots.iter().flatten()
    }

    pub(crate) fn get_mut(&mut self, byte: u8) -> Option<&mut V> {
        self.slots.get_mut(usize::from(byte.wrapping_sub(self.first)))?.as_mut()
    }

    /// The child at `byte`, made by `new` where there is none.
    pub(crate) fn get_or_insert_with(&mut self, byte: u8, new: impl FnOnce() -> V) -> &mut V {
        self.cover(byte);
        self.slots[usize::from(byte - self.first)].get_or_insert_with(new)
    }

    /// Takes the child at `byte` out and shrinks the window to those that remain.
    pub(crate) fn remove(&mut self, byte: u8) {
        if let Some(slot) = self.slots.get_mut(usize::from(byte.wrapping_sub(self.first))) {
            *slot = None;
            self.trim();
        }
    }

    /// The only child with its byte, taken out; `None`, and nothing done, where there are more or none.
    pub(crate) fn take_only(&mut self) -> Option<(u8, V)> {
        let [slot] = &mut *self.slots else { return None };
        let only = slot.take()?;
        self.slots = Box::default();
        Some((self.first, only))
    }

    fn cover(&mut self, byte: u8) {
        if self.slots.is_empty() {
            self.first = byte;
        }
        let mut slots = std::mem::take(&mut self.slots).into_vec();
        if byte < self.first {
            let below = usize::from(self.first - byte);
            slots.splice(0..0, std::iter::repeat_with(|| None).take(below));
            self.first = byte;
        }
        let needed = usize::from(byte - self.first) + 1;
        if slots.len() < needed {
            slots.resize_with(needed, || None);
        }
        self.slots = slots.into_boxed_slice();
    }

    fn trim(&mut self) {
        let mut slots = std::mem::take(&mut self.slots).into_vec();
        while slots.pop_if(|slot| slot.is_none()).is_some() {}
        let mut below: u8 = 0;
        while slots.get(usize::from(below)).is_some_and(Option::is_none) {
            below += 1; // ends before the last slot, which is taken: at most 255
        }
        slots.drain(..usize::from(below));
        self.first = self.first.wrapping_add(below);
        self.slots = slots.into_boxed_slice();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn behaves_as_a_map_and_stays_tight(edits in prop::collection::vec((any::<u8>(), any::<bool>()), 0..60)) {
            let (mut window, mut map) = (Window::default(), BTreeMap::new());
            for (step, (byte, insert)) in edits.into_iter().enumerate() {
                if insert {
                    *window.get_or_insert_with(byte, || 0) = step;
                    map.insert(byte, step);
                } else {
                    window.remove(byte);
                    map.remove(&byte);
                }
                for byte in 0..=u8::MAX {
                    prop_assert_eq!(window.get(byte), map.get(&byte));
                }
                prop_assert_eq!(window.is_empty(), map.is_empty());
                let span = match (map.keys().next(), map.keys().last()) {
                    (Some(low), Some(high)) => usize::from(high - low) + 1,
                    _ => 0,
                };
                prop_assert_eq!(window.slots.len(), span);
            }
            let only = (map.len() == 1).then(|| map.pop_first()).flatten();
            prop_assert_eq!(window.take_only(), only);
        }
    }
}
