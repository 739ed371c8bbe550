//! What a provider publishes, kept for a while.

use std::sync::{Arc, Mutex, PoisonError};

/// A value and until when it is good, in seconds since 1970.
pub(crate) struct Cached<T>(Mutex<Option<(Arc<T>, u64)>>);

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Cached<T> {
    /// The value, if it is still good.
    pub(crate) fn find(&self, now_s: u64) -> Option<Arc<T>> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_ref().filter(|(_, until_s)| now_s < *until_s).map(|(value, _)| Arc::clone(value))
    }

    /// Keeps `value` until `until_s`.
    pub(crate) fn keep(&self, value: T, until_s: u64) -> Arc<T> {
        let value = Arc::new(value);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Arc::clone(&value), until_s));
        value
    }

    /// Forgets the value.
    pub(crate) fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_good_until_its_time() {
        let cached = Cached::default();
        assert_eq!(cached.find(0), None);
        cached.keep(1, 10);
        assert_eq!((cached.find(9).as_deref(), cached.find(10)), (Some(&1), None));
        cached.clear();
        assert_eq!(cached.find(9), None);
    }
}
