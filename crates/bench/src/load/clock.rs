//! The generator's clock.

use rustix::time::{ClockId, clock_gettime};

/// A point on `CLOCK_MONOTONIC`, or a distance between two, in nanoseconds.
pub type Nanos = u64;

/// Now. One reading per response is all that the generator takes in a closed loop, so it is a plain number: no
/// conversion to a duration and back.
#[must_use]
#[inline]
pub fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    // Neither part is ever negative on this clock.
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}
