//! Panics that are survived: what they said, and how many are too many.

use std::any::Any;
use std::time::{Duration, Instant};

/// Panics within [`PANICS_WITHIN`] that are answered by another start. What fails more often fails at once each time.
pub const PANICS_MAX: usize = 5;

/// How far back panics count.
pub const PANICS_WITHIN: Duration = Duration::from_secs(60);

/// The words of a panic.
#[must_use]
pub fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// The last panics of one thing that is started again.
#[derive(Debug, Default)]
pub struct Panics(Vec<Instant>);

impl Panics {
    /// Counts a panic. Returns whether what panicked may be started again.
    pub fn may_restart(&mut self, now: Instant) -> bool {
        self.0.retain(|at| now.duration_since(*at) < PANICS_WITHIN);
        self.0.push(now);
        self.0.len() <= PANICS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn a_panic_is_known_by_its_words() {
        let said = |panics: fn()| message(&*catch_unwind(panics).expect_err("it panics"));
        assert_eq!(said(|| panic!("plain")), "plain");
        assert_eq!(said(|| panic!("with {}", 1)), "with 1");
        assert_eq!(said(|| std::panic::panic_any(1)), "no message");
    }

    #[test]
    fn what_panics_again_and_again_is_given_up() {
        let (mut panics, start) = (Panics::default(), Instant::now());
        let mut restarted = |seconds| panics.may_restart(start + Duration::from_secs(seconds));
        assert!((0..PANICS_MAX as u64).all(&mut restarted));
        assert!(!restarted(5));
        assert!(restarted(300), "that was long ago");
    }
}
