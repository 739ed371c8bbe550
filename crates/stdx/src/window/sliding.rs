//! Sliding windows, as APISIX has them: two counters, the older one weighted by how much of it is still in sight.

use super::{Scope, Window, Windows};
use crate::{WorkerToken, hash};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What became of an addition to a sliding window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slid {
    /// Whether it was within the limit; only then it was counted.
    pub admitted: bool,
    /// What is counted in the running window.
    pub consumed: u64,
    /// What the window before it had counted, at most the limit.
    pub previous: u64,
    /// Milliseconds until the running window ends; never 0.
    pub left_ms: u64,
}

impl Windows {
    /// Counts `cost` for `key` if the last `length_ms` milliseconds have seen less than `limit`. Windows begin at
    /// multiples of their length; what the one before counted is taken as spread evenly over it. The running window
    /// never admits more than `limit`, whatever number of workers counts; the share of the window before is an
    /// estimate in any case, and an addition that races its end may be missing from it.
    #[expect(clippy::too_many_arguments, reason = "a struct for one call would hide what it is about")]
    pub fn count_sliding(
        &self,
        worker: &WorkerToken,
        scope: &Scope,
        key: &[u8],
        cost: u64,
        limit: u64,
        length_ms: u64,
        now_ms: u64,
    ) -> Slid {
        let length_ms = length_ms.max(1);
        let hash = hash::hash(scope.hash ^ length_ms, key);
        let known = self.near.with(worker, |near| {
            let window = near.find(hash, scope, key, length_ms)?;
            window.left(now_ms).map(|left_ms| window.admit(cost, limit, length_ms, left_ms))
        });
        known.unwrap_or_else(|| {
            let window = self.running(scope, key, length_ms, now_ms, |key, ended| {
                next_window(key, ended, length_ms, now_ms)
            });
            let slid = window.admit(cost, limit, length_ms, window.left(now_ms).unwrap_or(1));
            self.near.with(worker, |near| near.remember(hash, window));
            slid
        })
    }
}

impl Window {
    fn admit(&self, cost: u64, limit: u64, length_ms: u64, left_ms: u64) -> Slid {
        let previous = self.previous.min(limit);
        // A clock that other workers read a moment later may put the end further away than the length.
        let left_ms = left_ms.min(length_ms);
        // Limits are below 2^53, where f64 is exact.
        let in_sight = previous as f64 / length_ms as f64 * left_ms as f64;
        let within = |consumed: u64| consumed < limit && in_sight + (consumed as f64) < limit as f64;
        let counted = self.consumed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |consumed| {
            within(consumed).then(|| consumed.saturating_add(cost))
        });
        match counted {
            Ok(before) => Slid { admitted: true, consumed: before.saturating_add(cost), previous, left_ms },
            Err(consumed) => Slid { admitted: false, consumed, previous, left_ms },
        }
    }
}

fn next_window(key: Arc<super::Key>, ended: Option<&Window>, length_ms: u64, now_ms: u64) -> Window {
    let start = now_ms - now_ms % length_ms;
    let end = start.saturating_add(length_ms);
    let adjoining = ended.filter(|window| window.end.load(Ordering::Relaxed) == start);
    Window {
        key,
        end: AtomicU64::new(end),
        keep_until: end.saturating_add(length_ms),
        consumed: AtomicU64::new(0),
        previous: adjoining.map_or(0, |window| window.consumed.load(Ordering::Relaxed)),
    }
}
