//! Starting the threads of a run, and each thread's place in it.

use std::collections::VecDeque;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::clock::{Nanos, now};
use super::cpu::{CpuUse, Reading, pin};
use super::outcome::{Outcome, ThreadOutcome};
use super::pace::Schedule;
use super::plan::Plan;
use super::tally::{ErrorKind, Tally};
use crate::http::{self, Protocol};

/// What the world outside a run can see of it and do to it while it lasts.
#[derive(Debug, Default)]
pub struct Control {
    /// Set to end the run; it ends within a tenth of a second.
    pub stop: AtomicBool,
    /// What each thread has done so far.
    pub threads: Vec<Progress>,
}

impl Control {
    /// For a run of so many threads.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self { stop: AtomicBool::new(false), threads: (0..threads).map(|_| Progress::default()).collect() }
    }
}

/// A thread's latest figures, written by it ten times a second. All but `begun` count from the end of the warm-up.
#[derive(Debug, Default)]
pub struct Progress {
    /// When its connections stood and it began to send; 0 before.
    pub begun: AtomicU64,
    /// Complete answers.
    pub requests: AtomicU64,
    /// Failed requests.
    pub errors: AtomicU64,
    /// The median latency in nanoseconds.
    pub p50_ns: AtomicU64,
    /// The 99th percentile in nanoseconds.
    pub p99_ns: AtomicU64,
}

/// Runs `plan` and returns what it measured. Blocks until it is over.
///
/// # Errors
/// When a thread can't be started, put on its core, or make its sockets.
pub fn run(plan: &Plan, control: &Control) -> Result<Outcome, String> {
    let barrier = Barrier::new(plan.threads);
    let idle = Progress::default();
    let parts: Result<Vec<ThreadOutcome>, String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.threads)
            .map(|index| {
                let progress = control.threads.get(index).unwrap_or(&idle);
                let turn = Turn::new(plan, index, &control.stop, progress, &barrier);
                scope.spawn(move || drive(turn))
            })
            .collect();
        // All are joined before the first failure is told: their scope would wait for them anyway.
        let joined: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        joined
            .into_iter()
            .map(|part| part.unwrap_or_else(|_| Err("a thread ended in a panic".into())))
            .collect()
    });
    Ok(Outcome::join(parts?, plan.pace, control.stop.load(Relaxed)))
}

fn drive(turn: Turn<'_>) -> Result<ThreadOutcome, String> {
    let plan = turn.plan;
    let ready = match plan.cores.get(turn.index % plan.cores.len().max(1)) {
        Some(core) => pin(*core).map_err(|error| format!("a thread can't run on core {core}: {error}")),
        None => Ok(()),
    };
    // Wake-ups for a schedule are meant to the microsecond. Where this is refused, the default is 50.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1_000));
    let result = ready.and_then(|()| match plan.protocol {
        Protocol::Http1 => http::run_http1(turn),
        Protocol::Http2 => http::run_http2(turn),
    });
    result.map(Turn::into_outcome)
}

/// One thread's place in a run: its share of the schedule, its tally, its times.
#[derive(Debug)]
pub(crate) struct Turn<'r> {
    pub(crate) plan: &'r Plan,
    pub(crate) index: usize,
    pub(crate) tally: Tally,
    stop: &'r AtomicBool,
    progress: &'r Progress,
    barrier: &'r Barrier,
    schedule: Option<Schedule>,
    /// Intended starts of requests that a server closed its connection on before reading them.
    again: VecDeque<Nanos>,
    /// Requests that may still be sent, where their number is bounded.
    left: Option<u64>,
    warming: bool,
    measured_from: Nanos,
    end: Nanos,
    reading: Reading,
    cpu: CpuUse,
    elapsed_ns: u64,
}

impl<'r> Turn<'r> {
    fn new(
        plan: &'r Plan,
        index: usize,
        stop: &'r AtomicBool,
        progress: &'r Progress,
        barrier: &'r Barrier,
    ) -> Self {
        let threads = plan.threads as u64;
        let share = |total: u64| total / threads + u64::from((index as u64) < total % threads);
        Self {
            plan,
            index,
            tally: Tally::new(plan.pace.rate().is_some()),
            stop,
            progress,
            barrier,
            schedule: None,
            again: VecDeque::new(),
            left: plan.requests.map(share),
            warming: false,
            measured_from: 0,
            end: Nanos::MAX,
            reading: Reading::take(),
            cpu: CpuUse::default(),
            elapsed_ns: 0,
        }
    }

    /// This thread's connections.
    pub(crate) fn connections(&self) -> usize {
        self.plan.share(self.plan.connections, self.index)
    }

    /// Waits for the other threads, and begins: the time runs from here, when all connections stand.
    pub(crate) fn start(&mut self) {
        self.barrier.wait();
        let begin = now();
        self.measured_from = begin + nanos(self.plan.warmup);
        self.end = self.measured_from.saturating_add(nanos(self.plan.duration));
        self.warming = !self.plan.warmup.is_zero();
        self.schedule = Schedule::new(self.plan.pace, begin, self.index, self.plan.threads, self.plan.seed);
        self.reading = Reading::take();
        self.progress.begun.store(begin, Relaxed);
    }

    /// Whether the run is to end, whatever the time is.
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Whether no further request is to be sent.
    #[inline]
    pub(crate) fn is_over(&self, at: Nanos) -> bool {
        at >= self.end || self.left == Some(0) || self.stopped()
    }

    /// Whether a bounded number of requests was all sent.
    pub(crate) fn all_sent(&self) -> bool {
        self.left == Some(0)
    }

    /// When sending ends.
    pub(crate) fn end(&self) -> Nanos {
        self.end
    }

    /// The next intended start of an open loop.
    pub(crate) fn next_start(&self) -> Option<Nanos> {
        self.again.front().copied().or_else(|| self.schedule.as_ref().map(Schedule::peek))
    }

    /// Whether the load is paced by a schedule.
    #[inline]
    pub(crate) fn is_open_loop(&self) -> bool {
        self.schedule.is_some()
    }

    /// Takes the next intended start of an open loop, where it is due.
    pub(crate) fn take_start(&mut self, at: Nanos) -> Option<Nanos> {
        if self.next_start()? > at || self.take_requests(1) == 0 {
            return None;
        }
        self.again.pop_front().or_else(|| self.schedule.as_mut().map(Schedule::advance))
    }

    /// Takes up to `count` of the requests that may still be sent; how many there were.
    #[inline]
    pub(crate) fn take_requests(&mut self, count: usize) -> usize {
        let Some(left) = &mut self.left else { return count };
        let taken = usize::try_from(*left).map_or(count, |left| left.min(count));
        *left -= taken as u64;
        taken
    }

    /// Takes back a request that the server has certainly not read: it closed the connection behind an earlier one.
    pub(crate) fn give_back(&mut self, intended: Nanos) {
        self.tally.sent = self.tally.sent.saturating_sub(1);
        if let Some(left) = &mut self.left {
            *left += 1;
        }
        if self.schedule.is_some() {
            self.again.push_back(intended);
        }
    }

    /// Notes a complete answer.
    #[inline]
    pub(crate) fn answered(&mut self, intended: Nanos, sent: Nanos, at: Nanos, status: u16) {
        // What was sent in the warm-up belongs to it.
        if intended >= self.measured_from {
            self.tally.note_answer(intended, sent, at, status, at <= self.end);
        }
    }

    /// Ten times a second: ends the warm-up in its time, and tells the live view.
    pub(crate) fn tick(&mut self, at: Nanos) {
        if self.warming && at >= self.measured_from {
            self.warming = false;
            self.tally.restart();
            self.reading = Reading::take();
        }
        let (progress, tally) = (self.progress, &self.tally);
        progress.requests.store(tally.requests, Relaxed);
        progress.errors.store(tally.errors_total(), Relaxed);
        progress.p50_ns.store(tally.response.value_at_quantile(0.5), Relaxed);
        progress.p99_ns.store(tally.response.value_at_quantile(0.99), Relaxed);
    }

    /// When the warm-up ends, while it lasts.
    pub(crate) fn warm_at(&self) -> Option<Nanos> {
        self.warming.then_some(self.measured_from)
    }

    /// Sending is over: takes the time, and counts the starts that were never made.
    pub(crate) fn sending_ended(&mut self, at: Nanos) {
        let ended = at.min(self.end);
        self.tick(at);
        self.elapsed_ns = ended.saturating_sub(self.measured_from);
        self.cpu = Reading::take().since(self.reading);
        if let Some(schedule) = self.schedule.as_ref().filter(|_| self.left != Some(0)) {
            self.tally.dropped += schedule.starts_until(ended) + self.again.len() as u64;
        }
        // Answers that come from here on are late, also where the run was ended early.
        self.end = ended;
    }

    /// Whether the first failure but a status or body ends it: a run of one request is a question whether the server
    /// can be measured at all.
    pub(crate) fn gives_up(&self) -> bool {
        let answered = [ErrorKind::Status, ErrorKind::Body];
        let failed = self.tally.faults().any(|(kind, ..)| !answered.contains(&kind));
        self.plan.requests == Some(1) && failed
    }

    fn into_outcome(self) -> ThreadOutcome {
        ThreadOutcome { tally: self.tally, cpu: self.cpu, elapsed_ns: self.elapsed_ns }
    }
}

/// A duration as a number; those of centuries are as good as endless.
pub(crate) fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}
