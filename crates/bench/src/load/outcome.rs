//! What a run measured, over all threads.

use super::cpu::CpuUse;
use super::pace::Pace;
use super::tally::Tally;

/// From this share of a core on, a thread is at its limit.
const BUSY_LIMIT: f64 = 0.95;

/// An open loop that sends less than this share of what it meant to doesn't have the rate it says.
const SENT_LIMIT: f64 = 0.99;

/// An open loop of whose sends this share is late through its own fault measures itself.
const LATE_LIMIT: f64 = 0.01;

/// One thread's part.
#[derive(Debug, Clone)]
pub struct ThreadOutcome {
    /// What it counted.
    pub tally: Tally,
    /// What it cost, over the measured time.
    pub cpu: CpuUse,
    /// The measured time, in nanoseconds.
    pub elapsed_ns: u64,
}

/// What a run measured.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// All threads' counts together.
    pub total: Tally,
    /// Each thread's.
    pub threads: Vec<ThreadOutcome>,
    /// The measured time in seconds: the longest of the threads'.
    pub elapsed_s: f64,
    /// How the load was paced.
    pub pace: Pace,
    /// Whether it was ended before its time.
    pub interrupted: bool,
}

/// A reason to doubt that the figures are the server's.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientLimit {
    /// A thread had no core time left.
    Cpu {
        /// Which thread, from 0.
        thread: usize,
        /// The share of the time it ran, 0 to 1.
        busy: f64,
        /// The share of the time it ran or waited for a core, 0 to 1.
        wanted: f64,
    },
    /// Sends were late although a connection was free.
    Late {
        /// The share of all sends, 0 to 1.
        share: f64,
    },
    /// Requests were not sent, because all connections waited for answers.
    Unsent {
        /// The share of the intended requests that was sent, 0 to 1.
        share: f64,
    },
}

impl Outcome {
    /// Joins the threads' parts.
    pub(super) fn join(threads: Vec<ThreadOutcome>, pace: Pace, interrupted: bool) -> Self {
        let mut total = Tally::new(pace.rate().is_some());
        threads.iter().for_each(|thread| total.merge(&thread.tally));
        let elapsed_ns = threads.iter().map(|thread| thread.elapsed_ns).max().unwrap_or_default();
        Self { total, elapsed_s: elapsed_ns as f64 / 1e9, threads, pace, interrupted }
    }

    /// Complete answers per second of the measured time.
    #[must_use]
    pub fn requests_per_second(&self) -> f64 {
        self.per_second(self.total.requests)
    }

    /// Bytes received per second.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        self.per_second(self.total.bytes)
    }

    fn per_second(&self, count: u64) -> f64 {
        if self.elapsed_s > 0.0 { count as f64 / self.elapsed_s } else { 0.0 }
    }

    /// The share of the intended requests that was sent, 0 to 1; 1 for a closed loop.
    #[must_use]
    pub fn sent_share(&self) -> f64 {
        let intended = self.total.sent + self.total.dropped;
        if intended == 0 { 1.0 } else { self.total.sent as f64 / intended as f64 }
    }

    /// Why the figures may be the generator's own, if there is a reason.
    #[must_use]
    pub fn client_limits(&self) -> Vec<ClientLimit> {
        let mut limits: Vec<_> = self
            .threads
            .iter()
            .enumerate()
            .filter(|(_, thread)| thread.cpu.wanted() >= BUSY_LIMIT)
            .map(|(thread, of)| ClientLimit::Cpu { thread, busy: of.cpu.busy(), wanted: of.cpu.wanted() })
            .collect();
        let late = self.total.late_by_client as f64 / self.total.sent.max(1) as f64;
        if late > LATE_LIMIT {
            limits.push(ClientLimit::Late { share: late });
        }
        let share = self.sent_share();
        if share < SENT_LIMIT {
            limits.push(ClientLimit::Unsent { share });
        }
        limits
    }
}

impl std::fmt::Display for ClientLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percent = |share: f64| share * 100.0;
        match self {
            Self::Cpu { thread, busy, wanted } => write!(
                f,
                "the client was the limit: thread {thread} ran {:.0} % of the time and wanted to run {:.0} %; \
                 use more threads, or give it a core of its own",
                percent(*busy),
                percent(*wanted)
            ),
            Self::Late { share } => write!(
                f,
                "the client was the limit: {:.1} % of the requests were sent more than 1 ms late although a \
                 connection was free",
                percent(*share)
            ),
            Self::Unsent { share } => write!(
                f,
                "only {:.1} % of the intended requests were sent: every connection was waiting for an answer, so \
                 the server is beyond its limit or there are too few connections",
                percent(*share)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(change: impl FnOnce(&mut Tally, &mut CpuUse)) -> Vec<ClientLimit> {
        let mut tally = Tally::new(true);
        tally.sent = 1_000;
        let mut cpu = CpuUse { busy_ns: 500, waiting_ns: 0, elapsed_ns: 1_000 };
        change(&mut tally, &mut cpu);
        let thread = ThreadOutcome { tally, cpu, elapsed_ns: 1_000_000_000 };
        Outcome::join(vec![thread], Pace::Constant(1_000.0), false).client_limits()
    }

    #[test]
    fn each_limit_is_told_and_only_that() {
        assert_eq!(outcome(|_, _| ()), []);
        assert!(matches!(outcome(|_, cpu| cpu.busy_ns = 960)[..], [ClientLimit::Cpu { thread: 0, .. }]));
        assert!(matches!(outcome(|_, cpu| cpu.waiting_ns = 460)[..], [ClientLimit::Cpu { .. }]));
        assert!(matches!(outcome(|tally, _| tally.late_by_client = 11)[..], [ClientLimit::Late { .. }]));
        assert_eq!(outcome(|tally, _| tally.late = 500), []);
        assert!(matches!(outcome(|tally, _| tally.dropped = 11)[..], [ClientLimit::Unsent { .. }]));
        assert_eq!(outcome(|tally, _| tally.dropped = 10), []);
    }
}
