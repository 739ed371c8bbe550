//! Connections that wait for their next use.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use stdx::Moment;

/// The idle connections of one worker, the latest last.
pub(crate) struct Idle<C>(Mutex<Vec<(C, Moment)>>);

impl<C> Default for Idle<C> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl<C> Idle<C> {
    /// A connection that has been idle for less than `idle`; those that were for longer are closed.
    pub(crate) fn take(&self, now: Moment, idle: Duration) -> Option<C> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(_, since)| u128::from(now.millis_since(*since)) < idle.as_millis());
        kept.pop().map(|(connection, _)| connection)
    }

    /// Keeps a connection, if there are less than `most`.
    pub(crate) fn keep(&self, connection: C, now: Moment, most: usize) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < most {
            kept.push((connection, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_is_used_first_and_the_old_ones_are_closed() {
        let (idle, now) = (Idle::default(), Moment::now());
        let second = Duration::from_secs(1);
        idle.keep(1, now, 2);
        idle.keep(2, now + Duration::from_millis(900), 2);
        idle.keep(3, now + Duration::from_millis(900), 2);
        assert_eq!(idle.take(now + second, second), Some(2));
        assert_eq!(idle.take(now + second, second), None);
    }
}
