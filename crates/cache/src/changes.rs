//! Which URIs were changed by requests that this cache passed on, and when.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// How many classes URIs fall into. A change makes the entries of its class invalid: with a thousand changes a second to as
/// many URIs an entry is lost for nothing every half minute. 256 KiB of memory, and less where few are used.
const CLASSES: usize = 1 << 15;

/// Changes in the order in which they came. It needs neither a clock nor a lock, and no more memory for more URIs.
pub(crate) struct Changes {
    /// Number of the last change.
    last: AtomicU64,
    /// Number of each class's last change.
    classes: Box<[AtomicU64]>,
    /// Seeded, so that nobody can choose a URI that falls into the class of another.
    hasher: RandomState,
}

impl Changes {
    pub(crate) fn new() -> Self {
        Self {
            last: AtomicU64::new(0),
            classes: (0..CLASSES).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
        }
    }

    /// How many changes there were.
    pub(crate) fn generation(&self) -> u64 {
        self.last.load(Ordering::SeqCst)
    }

    /// Notes a change of `uri`.
    pub(crate) fn note(&self, uri: &[u8]) {
        let number = self.last.fetch_add(1, Ordering::SeqCst) + 1;
        self.class(uri).fetch_max(number, Ordering::SeqCst);
    }

    /// Whether `uri` was changed after `generation`.
    pub(crate) fn since(&self, uri: &[u8], generation: u64) -> bool {
        self.class(uri).load(Ordering::SeqCst) > generation
    }

    fn class(&self, uri: &[u8]) -> &AtomicU64 {
        // The remainder is below the number of classes.
        &self.classes[(self.hasher.hash_one(uri) % CLASSES as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_counts_for_what_was_fetched_before_it() {
        let changes = Changes::new();
        let before = changes.generation();
        assert!(!changes.since(b"/a", before));
        changes.note(b"/a");
        assert!(changes.since(b"/a", before));
        assert!(!changes.since(b"/a", changes.generation()));
    }
}
