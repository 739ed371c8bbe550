//! Numbers under which the workers keep what they know.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that nothing else of this process has had.
pub(crate) fn next_uid() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
