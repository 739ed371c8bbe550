//! The one thread that writes: it takes all transactions that wait, commits them together, then answers them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use redb::ReadableTable;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::apply::{Applier, Retention};
use super::fault::{Fault, damaged_by_panic};
use super::file::begin_write;
use super::presence::Presence;
use super::shared::Shared;
use super::tables::{Counters, Tables};
use crate::limits::{PRESENCE_INTERVAL, QUEUE_MAX};
use crate::{Clock, Committed, StoreError, Txn, TxnOutcome};

/// One piece of work, with the place in the bounded queue that it takes until it is answered.
pub(crate) struct Job {
    pub(crate) work: Work,
    pub(crate) reply: oneshot::Sender<Result<TxnOutcome, StoreError>>,
    pub(crate) _place: OwnedSemaphorePermit,
}

/// What the writer can be asked for.
pub(crate) enum Work {
    /// A checked transaction.
    Txn(Txn),
    /// Forget the history before this revision.
    Compact(u64),
}

/// The writer's own state.
pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) jobs: Receiver<Job>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) retention: Retention,
    pub(crate) sweep_interval: Duration,
}

/// What a commit leaves behind.
struct Done {
    outcomes: Vec<Result<TxnOutcome, StoreError>>,
    counters: Counters,
    next_expiry_ms: Option<u64>,
}

impl Writer {
    /// Works until the last sender is gone and the queue is empty.
    pub(crate) fn run(self) {
        // Due at once: what expired while nobody ran is deleted first.
        let mut next_expiry_ms = Some(0);
        loop {
            let mut group = Vec::new();
            match self.wait(next_expiry_ms) {
                Ok(job) => group.push(job),
                Err(RecvTimeoutError::Timeout) if self.is_due(next_expiry_ms) => {}
                Err(RecvTimeoutError::Timeout) => {
                    // What it finds is in the log, and on the status pages.
                    let _ = self.shared.presence().map(Presence::check);
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
            group.extend(self.jobs.try_iter().take(QUEUE_MAX - group.len()));
            match self.commit_or_reopen(&group) {
                Ok(done) => {
                    next_expiry_ms = done.next_expiry_ms;
                    self.shared.announce(done.counters.revision);
                    for (job, outcome) in group.into_iter().zip(done.outcomes) {
                        // A caller that stopped waiting has no use for the answer.
                        let _ = job.reply.send(outcome);
                    }
                }
                Err(error) => {
                    // What is due stays due; without this pause a failing disk would make the loop spin.
                    next_expiry_ms = Some(self.clock.unix_ms().saturating_add(self.pause_ms()));
                    for job in group {
                        let _ = job.reply.send(Err(error.clone()));
                    }
                }
            }
        }
    }

    fn wait(&self, next_expiry_ms: Option<u64>) -> Result<Job, RecvTimeoutError> {
        match next_expiry_ms {
            None if self.shared.presence().is_some() => self.jobs.recv_timeout(PRESENCE_INTERVAL),
            None => self.jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(_) if self.is_due(next_expiry_ms) => match self.jobs.try_recv() {
                Ok(job) => Ok(job),
                Err(TryRecvError::Empty) => Err(RecvTimeoutError::Timeout),
                Err(TryRecvError::Disconnected) => Err(RecvTimeoutError::Disconnected),
            },
            Some(at) => {
                let left = Duration::from_millis(at.saturating_sub(self.clock.unix_ms()));
                // Looked at in between as well: the clock may be set.
                self.jobs.recv_timeout(left.min(self.sweep_interval))
            }
        }
    }

    fn pause_ms(&self) -> u64 {
        u64::try_from(self.sweep_interval.as_millis()).unwrap_or(u64::MAX).max(1)
    }

    fn is_due(&self, next_expiry_ms: Option<u64>) -> bool {
        next_expiry_ms.is_some_and(|at| at <= self.clock.unix_ms())
    }

    /// After a failed write redb refuses all further work on the open file, so it is opened anew: once the disk has
    /// room again the next transaction succeeds without a restart.
    fn commit_or_reopen(&self, group: &[Job]) -> Result<Done, StoreError> {
        let path = self.shared.path();
        self.shared.presence().map_or(Ok(()), Presence::check)?;
        if !self.shared.is_open() {
            self.shared.reopen()?;
        }
        let error = match catch_unwind(AssertUnwindSafe(|| self.commit(group))) {
            Ok(Ok(done)) => {
                // Removed meanwhile: what was written is gone with the next start.
                let there = self.shared.presence().map_or(Ok(()), Presence::committed);
                return there.map(|()| done).map_err(|error| StoreError::Unknown(error.to_string()));
            }
            Ok(Err(fault)) => fault.at(path),
            Err(panic) => StoreError::Unknown(damaged_by_panic(path, &*panic).to_string()),
        };
        tracing::error!(path = %path.display(), %error, "writing the configuration store failed");
        if let Err(error) = self.shared.reopen() {
            tracing::error!(path = %path.display(), %error, "the configuration store can't be opened again");
        }
        Err(error)
    }

    /// Runs all of the group in one durable commit.
    fn commit(&self, group: &[Job]) -> Result<Done, Fault> {
        let txn = self.shared.with_database(begin_write)?;
        let mut tables = Tables::open(&txn)?;
        let before = Counters::read(&tables.meta)?;
        let mut applier = Applier { counters: before, now_ms: self.clock.unix_ms(), tables: &mut tables };
        applier.expire()?;
        let mut outcomes = Vec::with_capacity(group.len());
        for job in group {
            outcomes.push(match &job.work {
                Work::Txn(txn) => Ok(applier.run(txn)?),
                Work::Compact(revision) => match applier.compact(*revision) {
                    Ok(()) => Ok(TxnOutcome::Committed(Committed {
                        revision: applier.counters.revision,
                        applied: Vec::new(),
                    })),
                    Err(Fault::Answer(error)) => Err(error),
                    Err(fault) => return Err(fault),
                },
            });
        }
        applier.prune(self.retention)?;
        let counters = applier.counters;
        let next_expiry_ms = tables.expiries.first()?.map(|(key, _)| key.value().0);
        if counters != before {
            counters.write(&mut tables.meta)?;
        }
        drop(tables);
        if counters == before {
            txn.abort()?;
        } else {
            txn.commit().map_err(|error| StoreError::Unknown(error.to_string()))?;
        }
        Ok(Done { outcomes, counters, next_expiry_ms })
    }
}
