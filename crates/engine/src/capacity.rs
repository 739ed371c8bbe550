//! How many connections the clients of a worker may have: what leaves descriptors to upstreams, logs and reloads.
//!
//! Every client connection may need one to an upstream, so clients have at most half of the descriptors, as HAProxy
//! computes `maxconn`. At the limit the idle connections whose own timeouts are nearest are closed for new ones, as nginx
//! reuses connections; where none is idle, new ones wait in the kernel's queue.

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, getrlimit};
use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd};

/// Idle connections closed at once at most, so that a worker at its limit doesn't look for one at each accept.
pub(crate) const EVICTED_MAX: usize = 32;

/// What the descriptors of the process allow one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Budget {
    /// The process's limit (RLIMIT_NOFILE).
    open_files: u64,
    /// Client connections of the worker.
    clients: usize,
    /// The descriptor from which on the process is short of them. The kernel gives the lowest free number, so all below
    /// it are taken.
    descriptor_max: u64,
}

impl Budget {
    /// `used` descriptors are taken at the start. An eighth of all is the control plane's, a 32nd (8 to 512) is for logs,
    /// the store and reloads; what is left is halved. However few there are, each worker serves 4 clients.
    fn new(open_files: u64, used: u64, workers: usize) -> Self {
        let kept = open_files / 8 + (open_files / 32).clamp(8, 512);
        let clients = open_files.saturating_sub(used.min(open_files / 4)).saturating_sub(kept) / 2;
        let clients = usize::try_from(clients).unwrap_or(usize::MAX) / workers.max(1);
        let descriptor_max = open_files.saturating_sub((open_files / 16).clamp(8, 1024));
        Self { open_files, clients: clients.max(4), descriptor_max }
    }
}

/// Which limit is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// `worker_connections`.
    Connections,
    /// The clients' share of RLIMIT_NOFILE.
    Share,
    /// RLIMIT_NOFILE itself.
    Descriptors,
}

/// A worker's capacity for clients.
#[derive(Debug)]
pub(crate) struct Capacity {
    budget: Budget,
    /// The limit that was met last, until there is room again.
    met: Cell<Option<Limit>>,
    /// Idle connections closed since then.
    evicted: Cell<usize>,
}

impl Capacity {
    /// The capacity of one of so many workers.
    pub(crate) fn new(workers: usize) -> Self {
        let open_files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let used = std::fs::read_dir("/proc/self/fd").map_or(64, |files| files.count() as u64);
        Self { budget: Budget::new(open_files, used, workers), met: Cell::new(None), evicted: Cell::new(0) }
    }

    /// How many clients the worker may serve where `worker_connections` is so many.
    pub(crate) fn clients_max(&self, worker_connections: usize) -> usize {
        worker_connections.min(self.budget.clients)
    }

    /// The limit that so many clients are at.
    pub(crate) fn limit(&self, open: usize, worker_connections: usize) -> Option<Limit> {
        let own = worker_connections <= self.budget.clients;
        let limit = if own { Limit::Connections } else { Limit::Share };
        (open >= self.clients_max(worker_connections)).then_some(limit)
    }

    /// Whether the number of `socket`, which has just been opened, says that the process is short of descriptors.
    pub(crate) fn is_late(&self, socket: &impl AsFd) -> bool {
        u64::try_from(socket.as_fd().as_raw_fd()).unwrap_or(0) >= self.budget.descriptor_max
    }

    /// Whether the process is short of descriptors now; `any` is an open one.
    pub(crate) fn is_short(&self, any: &impl AsFd) -> bool {
        fcntl_dupfd_cloexec(any, 0).map_or(true, |lowest| self.is_late(&lowest))
    }

    /// So many idle connections were closed to make room.
    pub(crate) fn evicted(&self, count: usize) {
        self.evicted.set(self.evicted.get() + count);
    }

    /// Says that a limit is met by `open` clients of `max`, once until there is room again.
    pub(crate) fn note(&self, limit: Limit, open: usize, max: usize) {
        if self.met.replace(Some(limit)).is_some() {
            return;
        }
        let what = match limit {
            Limit::Connections => "worker_connections are not enough: raise them",
            Limit::Share => {
                "client connections are at their share of the open files (RLIMIT_NOFILE): raise worker_rlimit_nofile"
            }
            Limit::Descriptors => {
                "the process is short of descriptors (RLIMIT_NOFILE, EMFILE): raise worker_rlimit_nofile"
            }
        };
        let open_files = self.budget.open_files;
        tracing::warn!(
            open,
            max,
            open_files,
            "{what}; idle connections are closed for new ones, and new ones wait where none is idle"
        );
    }

    /// Says that there is room again, where a limit was met and an eighth of the places is free: a worker that stays at
    /// its limit has nothing new to say.
    pub(crate) fn look_for_room(&self, open: usize, worker_connections: usize) {
        if self.met.get().is_none() {
            return;
        }
        let max = self.clients_max(worker_connections);
        if open < max - max / 8 {
            self.met.set(None);
            let closed = self.evicted.replace(0);
            tracing::warn!(open, max, closed, "room for client connections again");
        }
    }

    /// How many files each worker may keep open for later: an eighth of what the process may open.
    pub(crate) fn files_max(workers: usize) -> u64 {
        let open_files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        open_files / 8 / workers.max(1) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_leave_as_many_descriptors_to_upstreams() {
        for (open_files, used, workers, clients, descriptor_max) in [
            // 20,480 - 60 - 2,560 - 512
            (20_480, 60, 1, 8674, 19_456),
            (20_480, 60, 4, 2168, 19_456),
            // 256 - 40 - 32 - 8
            (256, 40, 1, 88, 240),
            (256, 40, 2, 44, 240),
            // More in use than a quarter: a worker that replaces another one counts clients.
            (256, 200, 1, 76, 240),
            (1_048_576, 100, 2, 229_223, 1_047_552),
            (32, 30, 8, 4, 24),
            (8, 30, 1, 4, 0),
        ] {
            let budget = Budget::new(open_files, used, workers);
            assert_eq!((budget.clients, budget.descriptor_max), (clients, descriptor_max), "{open_files}");
        }
        assert!(Budget::new(u64::MAX, 60, 2).clients > 1 << 60);
    }

    #[test]
    fn the_lower_limit_counts_and_is_noted_until_there_is_room() {
        let budget = Budget { open_files: 256, clients: 80, descriptor_max: 240 };
        let capacity = Capacity { budget, met: Cell::new(None), evicted: Cell::new(3) };
        assert_eq!((capacity.limit(79, 10_620), capacity.limit(80, 10_620)), (None, Some(Limit::Share)));
        assert_eq!((capacity.limit(7, 8), capacity.limit(8, 8)), (None, Some(Limit::Connections)));
        capacity.note(Limit::Share, 80, 80);
        for (open, met) in [(79, true), (70, true), (69, false)] {
            capacity.look_for_room(open, 10_620);
            assert_eq!(capacity.met.get().is_some(), met, "{open}");
        }
        assert_eq!(capacity.evicted.get(), 0, "they are counted anew");
    }

    #[test]
    fn the_number_of_a_descriptor_tells_how_many_are_taken() {
        let mut files = [(); 2].map(|()| std::fs::File::open("/dev/null").expect("a file"));
        files.sort_by_key(AsRawFd::as_raw_fd);
        let [first, second] = files;
        let max = u64::try_from(second.as_raw_fd()).expect("a number");
        let budget = Budget { open_files: max, clients: 1, descriptor_max: max };
        let capacity = Capacity { budget, met: Cell::new(None), evicted: Cell::new(0) };
        assert!(!capacity.is_late(&first) && capacity.is_late(&second));
    }
}
