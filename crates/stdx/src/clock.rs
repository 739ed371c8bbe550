//! Monotonic milliseconds that stand on the wall clock.

use crate::Moment;
use std::time::{SystemTime, UNIX_EPOCH};

/// Turns moments into milliseconds since the Unix epoch that never go back: the wall clock is read once, when the
/// clock is made, and what has passed since comes from the monotonic one. Windows that begin at whole minutes need the
/// wall clock's phase; limits must not jump when it is set.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    base: Moment,
    base_unix_ms: u64,
}

impl Clock {
    /// A clock that agrees with the wall clock now.
    #[must_use]
    pub fn new() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // A year has 2^35 milliseconds, so 64 bits last for 500 million years.
        Self { base: Moment::now(), base_unix_ms: since_epoch.as_millis() as u64 }
    }

    /// Milliseconds since the Unix epoch at `moment`; the clock's own birth for moments before it.
    #[must_use]
    #[inline]
    pub fn unix_ms(&self, moment: Moment) -> u64 {
        self.base_unix_ms + moment.millis_since(self.base)
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
    fn moments_become_milliseconds_on_the_wall_clock() {
        let clock = Clock::new();
        let born = clock.unix_ms(clock.base);
        assert_eq!(clock.unix_ms(clock.base + Duration::from_micros(1_234_999)), born + 1234);
        let later = Clock { base: clock.base + Duration::from_millis(5), ..clock };
        assert_eq!(later.unix_ms(clock.base), born, "a moment before the clock's own");
        assert!(born > 1_600_000_000_000, "after 2020");
    }
}
