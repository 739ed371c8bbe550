//! What nginx's stub status shows: connections by state, and requests.

use super::cell::bump;
use std::sync::atomic::{AtomicU64, Ordering};
use stdx::WorkerToken;
use stdx::worker::WORKERS_MAX;

/// Counts of client connections and requests, each worker's apart.
pub struct Connections {
    workers: Box<[Worker]>,
}

/// What a client connection is busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Reading a request's head.
    Reading,
    /// Working on a request, up to its response's last byte.
    Writing,
    /// Idle between requests.
    Waiting,
}

/// One worker's numbers. Two cache lines, as the prefetcher takes them in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Worker {
    accepted: AtomicU64,
    handled: AtomicU64,
    requests: AtomicU64,
    states: [AtomicU64; 3],
}

/// All workers' numbers, added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConnectionTotals {
    /// Connections accepted since the start.
    pub accepted: u64,
    /// Of these the ones that were served: all but those refused by a limit.
    pub handled: u64,
    /// Requests since the start.
    pub requests: u64,
    /// Open connections: the sum of the next three.
    pub active: u64,
    /// Reading a head.
    pub reading: u64,
    /// Working on a request.
    pub writing: u64,
    /// Idle.
    pub waiting: u64,
}

impl Connections {
    /// A connection was accepted.
    #[inline]
    pub fn accepted(&self, worker: &WorkerToken) {
        bump(&self.workers[worker.index()].accepted, 1);
    }

    /// An accepted connection is served from here on, first in `state`.
    #[inline]
    pub fn opened(&self, worker: &WorkerToken, state: State) {
        let cells = &self.workers[worker.index()];
        bump(&cells.handled, 1);
        bump(&cells.states[state as usize], 1);
    }

    /// A connection changes its state.
    #[inline]
    pub fn moved(&self, worker: &WorkerToken, from: State, to: State) {
        let cells = &self.workers[worker.index()];
        bump(&cells.states[from as usize], u64::MAX);
        bump(&cells.states[to as usize], 1);
    }

    /// A connection in `state` is gone.
    #[inline]
    pub fn closed(&self, worker: &WorkerToken, state: State) {
        bump(&self.workers[worker.index()].states[state as usize], u64::MAX);
    }

    /// A request's head is complete.
    #[inline]
    pub fn requested(&self, worker: &WorkerToken) {
        bump(&self.workers[worker.index()].requests, 1);
    }

    /// All workers' numbers, added up.
    #[must_use]
    pub fn totals(&self) -> ConnectionTotals {
        let sum = |cell: fn(&Worker) -> &AtomicU64| {
            self.workers
                .iter()
                .fold(0u64, |sum, worker| sum.wrapping_add(cell(worker).load(Ordering::Relaxed)))
        };
        let [reading, writing, waiting] = [
            sum(|worker| &worker.states[0]),
            sum(|worker| &worker.states[1]),
            sum(|worker| &worker.states[2]),
        ];
        ConnectionTotals {
            accepted: sum(|worker| &worker.accepted),
            handled: sum(|worker| &worker.handled),
            requests: sum(|worker| &worker.requests),
            active: reading.wrapping_add(writing).wrapping_add(waiting),
            reading,
            writing,
            waiting,
        }
    }
}

impl Default for Connections {
    fn default() -> Self {
        Self { workers: (0..WORKERS_MAX).map(|_| Worker::default()).collect() }
    }
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.totals().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_counted_in_one_state_at_a_time() {
        let (connections, worker) =
            (Connections::default(), WorkerToken::claim().expect("fewer tests than tokens"));
        for _ in 0..2 {
            connections.accepted(&worker);
            connections.opened(&worker, State::Reading);
        }
        connections.moved(&worker, State::Reading, State::Writing);
        connections.requested(&worker);
        connections.closed(&worker, State::Reading);
        connections.accepted(&worker);
        let expected = ConnectionTotals {
            accepted: 3,
            handled: 2,
            requests: 1,
            active: 1,
            reading: 0,
            writing: 1,
            waiting: 0,
        };
        assert_eq!(connections.totals(), expected);
    }
}
