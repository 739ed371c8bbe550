//! A point on the monotonic clock in one number: taking it and subtracting it are a few instructions, where
//! `std::time::Instant` has seconds and nanoseconds apart and checks their difference.

use rustix::time::{ClockId, clock_gettime};
use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time, in nanoseconds of `CLOCK_MONOTONIC`: good for 584 years of uptime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// Now.
    #[must_use]
    #[inline]
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::Monotonic);
        // Neither part is ever negative on this clock.
        Self((time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64))
    }

    /// What has passed since then.
    #[must_use]
    #[inline]
    pub fn elapsed(self) -> Duration {
        Self::now() - self
    }

    /// Whole milliseconds from `earlier` to here; 0 where it is later.
    #[must_use]
    #[inline]
    pub fn millis_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0) / 1_000_000
    }
}

impl Sub for Moment {
    type Output = Duration;

    /// The time from `earlier` to here; none where it is later.
    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    #[inline]
    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_follow_each_other_and_never_differ_by_less_than_nothing() {
        let first = Moment::now();
        let later = first + Duration::from_micros(1_500);
        assert_eq!(later - first, Duration::from_micros(1_500));
        assert_eq!(first - later, Duration::ZERO);
        assert_eq!((later.millis_since(first), first.millis_since(later)), (1, 0));
        assert!(Moment::now() >= first);
    }
}
