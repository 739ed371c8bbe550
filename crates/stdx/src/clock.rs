//! Monotonic milliseconds that stand on the wall clock.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Turns instants into milliseconds since the Unix epoch that never go back: the wall clock is read once, when the
/// clock is made, and what has passed since comes from the monotonic one. Windows that begin at whole minutes need the
/// wall clock's phase; limits must not jump when it is set.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    base: Instant,
    base_unix_ms: u64,
}

impl Clock {
    /// A clock that agrees with the wall clock now.
    #[must_use]
    pub fn new() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // A year has 2^35 milliseconds, so 64 bits last for 500 million years.
        Self { base: Instant::now(), base_unix_ms: since_epoch.as_millis() as u64 }
    }

    /// Milliseconds since the Unix epoch at `instant`; the clock's own birth for instants before it.
    #[must_use]
    #[inline]
    pub fn unix_ms(&self, instant: Instant) -> u64 {
        let passed = instant.saturating_duration_since(self.base);
        self.base_unix_ms + passed.as_secs() * 1000 + u64::from(passed.subsec_millis())
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn instants_become_milliseconds_on_the_wall_clock() {
        let clock = Clock::new();
        let born = clock.unix_ms(clock.base);
        assert_eq!(clock.unix_ms(clock.base + Duration::from_micros(1_234_999)), born + 1234);
        assert_eq!(
            clock.unix_ms(clock.base.checked_sub(Duration::from_millis(1)).unwrap_or(clock.base)),
            born
        );
        assert!(born > 1_600_000_000_000, "after 2020");
    }
}
