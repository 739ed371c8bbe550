//! What a thread of the generator costs, and on which core it may run.

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::io;

use super::clock::{Nanos, now};

/// What a thread had of its core over a stretch of time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CpuUse {
    /// Time on the core, in nanoseconds.
    pub busy_ns: u64,
    /// Time in which it could have run, but something else had the core, in nanoseconds; 0 where the kernel doesn't
    /// say.
    pub waiting_ns: u64,
    /// The stretch, in nanoseconds.
    pub elapsed_ns: u64,
}

impl CpuUse {
    /// The share of the time in which the thread ran, 0 to 1.
    #[must_use]
    pub fn busy(&self) -> f64 {
        share(self.busy_ns, self.elapsed_ns)
    }

    /// The share of the time in which the thread ran or wanted to, 0 to 1.
    #[must_use]
    pub fn wanted(&self) -> f64 {
        share(self.busy_ns + self.waiting_ns, self.elapsed_ns)
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64).min(1.0) }
}

/// A reading of this thread's clocks; the difference of two is a [`CpuUse`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    at: Nanos,
    busy_ns: u64,
    waiting_ns: u64,
}

impl Reading {
    pub(super) fn take() -> Self {
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        let busy_ns = (cpu.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(cpu.tv_nsec as u64);
        Self { at: now(), busy_ns, waiting_ns: run_queue_wait().unwrap_or_default() }
    }

    pub(super) fn since(self, earlier: Self) -> CpuUse {
        CpuUse {
            busy_ns: self.busy_ns.saturating_sub(earlier.busy_ns),
            waiting_ns: self.waiting_ns.saturating_sub(earlier.waiting_ns),
            elapsed_ns: self.at.saturating_sub(earlier.at),
        }
    }
}

/// The second number of `schedstat`: nanoseconds spent runnable on a run queue.
fn run_queue_wait() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

/// Binds the calling thread to one core, counted as in `/proc/cpuinfo`.
///
/// # Errors
/// When there is no such core, or this process may not use it.
pub fn pin(core: usize) -> io::Result<()> {
    if core >= CpuSet::MAX_CPU {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_thread_is_seen_to_be_busy() {
        let begin = Reading::take();
        while now() - begin.at < 20_000_000 {}
        let used = Reading::take().since(begin);
        // On a crowded machine the loop may have had less than the core, but then it waited for the rest.
        assert!(used.busy() > 0.0 && used.wanted() > 0.5, "{used:?}");
        assert!(used.busy() <= used.wanted() && used.wanted() <= 1.0);
    }

    #[test]
    fn a_core_that_is_not_there_is_an_error() {
        assert!(pin(CpuSet::MAX_CPU).is_err());
        assert!(pin(1_000).is_err());
    }
}
