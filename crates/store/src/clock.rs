//! The time of day, passed in so that expiry is testable.

use std::time::{SystemTime, UNIX_EPOCH};

/// A source of the time of day.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since 1970-01-01 UTC.
    fn unix_ms(&self) -> u64;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn unix_ms(&self) -> u64 {
        // A clock before 1970 reads as 1970: expiry then waits, which is the harmless side.
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}
