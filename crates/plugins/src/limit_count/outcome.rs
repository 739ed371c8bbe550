//! What counting a request came to.

use super::headers::Reset;
use stdx::window::Slid;

/// What counting a request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) admitted: bool,
    pub(super) remaining: u64,
    pub(super) reset: Reset,
}

impl Outcome {
    /// Of a window that begins with a key's first request; `left_ms` of it are left.
    #[inline(always)]
    pub(super) fn fixed(consumed: u64, count: u64, left_ms: u64) -> Self {
        Self {
            admitted: consumed <= count,
            remaining: count.saturating_sub(consumed),
            reset: Reset::rounded_down(left_ms),
        }
    }

    /// Of a window of `length_ms` that slides with the clock.
    pub(super) fn sliding(slid: Slid, count: u64, length_ms: u64) -> Self {
        if slid.admitted {
            let remaining = remaining(slid, count, length_ms);
            return Self { admitted: true, remaining, reset: Reset::rounded_up(slid.left_ms) };
        }
        // With room in the running window, the wait is until enough of the window before is out of sight.
        let wait_ms = if slid.consumed >= count || slid.previous == 0 {
            slid.left_ms
        } else {
            let per_ms = slid.previous as f64 / length_ms as f64;
            (slid.left_ms as f64 - (count as f64 - slid.consumed as f64) / per_ms).ceil() as u64
        };
        Self { admitted: false, remaining: 0, reset: Reset::rounded_up(wait_ms) }
    }
}

/// What a sliding window has room for; 0 where it is overfull.
pub(super) fn remaining(slid: Slid, count: u64, length_ms: u64) -> u64 {
    // Counts are at most 2^53, where f64 is exact; casts back saturate, so a negative rest is 0.
    let per_ms = slid.previous as f64 / length_ms as f64;
    (count as f64 - slid.consumed as f64 - per_ms * slid.left_ms as f64).floor() as u64
}
