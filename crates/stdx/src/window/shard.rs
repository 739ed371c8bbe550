//! A part of all windows, under one lock.

use super::parts::{Key, Window};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Windows that a new key looks at in passing, to forget those that have run out: two or more for each one that is
/// added, so the shard shrinks whenever half of it is dead.
const SWEEP: usize = 2;

/// Windows looked at to find the one to push out of a full shard.
const PUSH_OUT: usize = 8;

/// Windows by key, in an array that a hand goes round to find the dead.
#[derive(Debug)]
pub(super) struct Shard {
    places: HashMap<Arc<Key>, usize>,
    windows: Vec<Arc<Window>>,
    hand: usize,
    windows_max: usize,
}

impl Shard {
    pub(super) fn new(windows_max: usize) -> Self {
        Self { places: HashMap::new(), windows: Vec::new(), hand: 0, windows_max: windows_max.max(1) }
    }

    /// The key's running window, made by `make` from the one that ended where there is none.
    pub(super) fn running(
        &mut self,
        key: Key,
        now_ms: u64,
        make: impl FnOnce(Arc<Key>, Option<&Window>) -> Window,
    ) -> Arc<Window> {
        if let Some(&at) = self.places.get(&key) {
            let place = &mut self.windows[at];
            if place.left(now_ms).is_none() {
                *place = Arc::new(make(Arc::clone(&place.key), Some(place)));
            }
            return Arc::clone(place);
        }
        for _ in 0..SWEEP {
            self.sweep_one(now_ms);
        }
        if self.windows.len() >= self.windows_max {
            self.push_out();
        }
        let key = Arc::new(key);
        let window = Arc::new(make(Arc::clone(&key), None));
        self.places.insert(key, self.windows.len());
        self.windows.push(Arc::clone(&window));
        window
    }

    /// Forgets the window under the hand if it has run out, else moves the hand on.
    fn sweep_one(&mut self, now_ms: u64) {
        if self.hand >= self.windows.len() {
            self.hand = 0;
        }
        match self.windows.get(self.hand) {
            Some(window) if window.keep_until <= now_ms => self.remove(self.hand),
            _ => self.hand += 1,
        }
    }

    /// Makes room: of the next few windows the one that ends soonest goes.
    fn push_out(&mut self) {
        let count = self.windows.len();
        let next = (0..PUSH_OUT.min(count)).map(|step| (self.hand + step) % count);
        if let Some(at) = next.min_by_key(|at| self.windows[*at].keep_until) {
            // Workers that remember the window must not go on counting in it beside its successor.
            self.windows[at].end.store(0, Ordering::Relaxed);
            self.remove(at);
        }
        self.hand += PUSH_OUT;
    }

    fn remove(&mut self, at: usize) {
        let gone = self.windows.swap_remove(at);
        self.places.remove(&gone.key);
        if let Some(moved) = self.windows.get(at)
            && let Some(place) = self.places.get_mut(&moved.key)
        {
            *place = at;
        }
    }

    /// How many windows there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert_eq!(self.places.len(), self.windows.len());
        self.windows.len()
    }
}
