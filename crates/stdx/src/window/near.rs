//! The windows that one worker used last.

use super::parts::{Scope, Window};
use crate::hash;
use std::sync::Arc;

/// Entries of a worker's table, a power of two: 32 KB of pointers. A key whose place another one holds takes the shard's
/// lock, about 400 instructions; results don't depend on it.
const PLACES: usize = 4096;

/// A table by hash, one window a place; empty until the worker counts for the first time.
#[derive(Debug, Default)]
pub(super) struct Near {
    places: Vec<Option<Arc<Window>>>,
}

impl Near {
    /// The window remembered for the key with this hash; it may have ended.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64, scope: &Scope, value: &[u8], sliding: u64) -> Option<&Window> {
        let window = self.places.get(hash as usize % PLACES)?.as_ref()?;
        let key = &window.key;
        let same_scope = Arc::ptr_eq(&key.scope, &scope.name) || key.scope == scope.name;
        (same_scope && hash::same(&key.value, value) && key.sliding == sliding).then_some(window)
    }

    /// Remembers a window in place of whatever stood there.
    pub(super) fn remember(&mut self, hash: u64, window: Arc<Window>) {
        if self.places.is_empty() {
            self.places.resize(PLACES, None);
        }
        self.places[hash as usize % PLACES] = Some(window);
    }
}
