//! What routes lead to, apart from where they stand, so that a new payload for a route whose conditions stay costs a
//! store and not an edit of the trees.
//!
//! Persistent like the trees: a clone shares every chunk, and a write copies the chunk it falls into, once per clone.

use std::sync::Arc;

/// Payloads of one chunk: few enough to copy for one change, enough for a change of all of 100,000 to copy 400 chunks.
const CHUNK: usize = 256;

/// A growing array in which each entry of the router has its place.
#[derive(Debug)]
pub(crate) struct Payloads<T> {
    chunks: Arc<Vec<Arc<[Option<T>; CHUNK]>>>,
    /// Places that were given back.
    free: Arc<Vec<usize>>,
    /// Places ever taken.
    len: usize,
}

impl<T> Payloads<T> {
    #[inline]
    pub(crate) fn get(&self, place: usize) -> Option<&T> {
        self.chunks.get(place / CHUNK)?[place % CHUNK].as_ref()
    }
}

impl<T: Clone> Payloads<T> {
    /// Puts `payload` into a place of its own.
    pub(crate) fn add(&mut self, payload: T) -> usize {
        let place = match Arc::make_mut(&mut self.free).pop() {
            Some(place) => place,
            None => {
                self.len += 1;
                self.len - 1
            }
        };
        let chunks = Arc::make_mut(&mut self.chunks);
        if place / CHUNK == chunks.len() {
            chunks.push(Arc::new([const { None }; CHUNK]));
        }
        self.set(place, payload);
        place
    }

    /// Replaces what is in a place that [`Self::add`] gave.
    pub(crate) fn set(&mut self, place: usize, payload: T) {
        if let Some(chunk) = Arc::make_mut(&mut self.chunks).get_mut(place / CHUNK) {
            Arc::make_mut(chunk)[place % CHUNK] = Some(payload);
        }
    }

    /// Gives a place back; what was in it.
    pub(crate) fn take(&mut self, place: usize) -> Option<T> {
        let chunk = Arc::make_mut(&mut self.chunks).get_mut(place / CHUNK)?;
        let payload = Arc::make_mut(chunk)[place % CHUNK].take()?;
        Arc::make_mut(&mut self.free).push(place);
        Some(payload)
    }
}

impl<T> Clone for Payloads<T> {
    fn clone(&self) -> Self {
        Self { chunks: Arc::clone(&self.chunks), free: Arc::clone(&self.free), len: self.len }
    }
}

impl<T> Default for Payloads<T> {
    fn default() -> Self {
        Self { chunks: Arc::default(), free: Arc::default(), len: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn behaves_as_a_map_and_a_clone_stays_as_it_was(edits in prop::collection::vec((0..3u8, any::<prop::sample::Index>()), 0..900)) {
            let (mut payloads, mut map) = (Payloads::default(), BTreeMap::new());
            let mut earlier = None;
            for (step, (edit, at)) in edits.iter().enumerate() {
                let taken: Vec<usize> = map.keys().copied().collect();
                match edit {
                    1 if !taken.is_empty() => {
                        payloads.set(taken[at.index(taken.len())], step);
                        map.insert(taken[at.index(taken.len())], step);
                    }
                    2 if !taken.is_empty() => {
                        let place = taken[at.index(taken.len())];
                        prop_assert_eq!(payloads.take(place), map.remove(&place));
                    }
                    _ => {
                        let place = payloads.add(step);
                        prop_assert_eq!(map.insert(place, step), None);
                    }
                }
                if step == edits.len() / 2 {
                    earlier = Some((payloads.clone(), map.clone()));
                }
            }
            for (payloads, map) in earlier.into_iter().chain([(payloads, map)]) {
                for place in 0..1000 {
                    prop_assert_eq!(payloads.get(place), map.get(&place));
                }
            }
        }
    }
}
