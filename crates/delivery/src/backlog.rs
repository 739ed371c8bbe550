//! How much waits to be sent, and what was dropped because too much did.

use crate::limits::{DROPS_TOLD_EVERY, PENDING_BYTES_MAX};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// The entries of one kind of logger that are not sent yet, those of all its configurations together.
#[derive(Debug, Default)]
pub struct Backlog {
    entries: AtomicUsize,
    bytes: AtomicUsize,
    dropped: AtomicU64,
    /// When drops were told last, and how many there had been by then.
    told: Mutex<Option<(Instant, u64)>>,
}

impl Backlog {
    /// Entries dropped since the start: for lack of room, or because no try to send them succeeded.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Makes room for an entry; `false` where there is none.
    pub(crate) fn take(&self, bytes: usize, entries_max: usize) -> bool {
        let entries = self.entries.fetch_add(1, Relaxed) + 1;
        let pending = self.bytes.fetch_add(bytes, Relaxed) + bytes;
        let fits = entries <= entries_max && pending <= PENDING_BYTES_MAX;
        if !fits {
            self.release(1, bytes);
        }
        fits
    }

    /// Entries are sent, or given up.
    pub(crate) fn release(&self, entries: usize, bytes: usize) {
        self.entries.fetch_sub(entries, Relaxed);
        self.bytes.fetch_sub(bytes, Relaxed);
    }

    /// Counts entries that are given up, and tells so now and then.
    pub(crate) fn drop_entries(&self, name: &str, count: usize) {
        let dropped = self.dropped.fetch_add(count as u64, Relaxed) + count as u64;
        // Who finds the lock taken leaves the telling to the one who has it.
        let Ok(mut told) = self.told.try_lock() else { return };
        let (now, before) = (Instant::now(), told.map_or(0, |(_, count)| count));
        if told.is_none_or(|(at, _)| now.duration_since(at) >= DROPS_TOLD_EVERY) {
            *told = Some((now, dropped));
            let (count, pending) = (dropped.saturating_sub(before), self.entries.load(Relaxed));
            tracing::error!(pending, "{name}: {count} log entries dropped, {dropped} since the start");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_their_bytes_are_bounded() {
        let backlog = Backlog::default();
        assert!(backlog.take(1, 2) && backlog.take(1, 2) && !backlog.take(1, 2));
        backlog.release(1, 1);
        assert!(!backlog.take(PENDING_BYTES_MAX, 2), "one byte waits already");
        assert!(backlog.take(PENDING_BYTES_MAX - 1, 2));
        backlog.drop_entries("a", 3);
        backlog.drop_entries("a", 1);
        assert_eq!(backlog.dropped(), 4);
    }
}
