//! One transaction applied to the tables: preconditions, operations, expiry, pruning. No commit, no clock.

use redb::{ReadableTable, Table};

use super::fault::Fault;
use super::tables::{Counters, Row, Tables, entry, to_row};
use crate::limits::SWEEP_KEYS_MAX;
use crate::{Applied, Committed, Entry, Op, Precondition, RevisionRecord, StoreError, Txn, TxnOutcome};

/// How much of the past is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retention {
    /// Newest revisions kept; the newest one always is.
    pub(crate) revisions: u64,
    /// Bytes of replaced values kept, beyond those of the newest revision.
    pub(crate) bytes: u64,
}

/// Applies transactions one after the other, each with a revision of its own.
pub(crate) struct Applier<'a, 'txn> {
    pub(crate) tables: &'a mut Tables<'txn>,
    pub(crate) counters: Counters,
    pub(crate) now_ms: u64,
}

impl Applier<'_, '_> {
    /// All of `txn`, or nothing and the precondition that failed.
    pub(crate) fn run(&mut self, txn: &Txn) -> Result<TxnOutcome, Fault> {
        for (index, Precondition::ModRevision { key, equals }) in txn.when.iter().enumerate() {
            let current = entry(&self.tables.entries, key)?;
            if current.as_ref().map_or(0, |entry| entry.mod_revision) != *equals {
                return Ok(TxnOutcome::Refused { index, current });
            }
        }
        let revision = self.counters.revision + 1;
        let mut applied = Vec::with_capacity(txn.then.len());
        for op in &txn.then {
            applied.push(self.operate(op, revision)?);
        }
        let keys = applied.iter().zip(&txn.then).filter(|(done, _)| done.changes()).map(|(_, op)| op.key());
        self.record(keys.collect(), txn.actor.as_deref())?;
        Ok(TxnOutcome::Committed(Committed { revision: self.counters.revision, applied }))
    }

    /// Deletes what has expired, in revisions of its own.
    pub(crate) fn expire(&mut self) -> Result<(), Fault> {
        loop {
            let due = self.due()?;
            if due.is_empty() {
                return Ok(());
            }
            let mut then = Vec::with_capacity(due.len());
            for (at, key) in due {
                // The delete does this too, if entry and row agree; the loop must end even if they don't.
                self.tables.expiries.remove((at, key.as_str()))?;
                then.push(Op::Delete { key });
            }
            self.run(&Txn { when: Vec::new(), then, actor: Some(RevisionRecord::EXPIRY.to_owned()) })?;
        }
    }

    /// Forgets what `keep` no longer covers.
    pub(crate) fn prune(&mut self, keep: Retention) -> Result<(), Fault> {
        loop {
            let kept = self.counters.revision - self.counters.compacted;
            // The newest revision always stays: a watch that keeps up is never told to list anew.
            if kept <= 1 || (kept <= keep.revisions && self.counters.history_bytes <= keep.bytes) {
                return Ok(());
            }
            self.forget_oldest()?;
        }
    }

    /// Forgets the history before `revision`.
    pub(crate) fn compact(&mut self, revision: u64) -> Result<(), Fault> {
        if revision > self.counters.revision {
            return Err(StoreError::Future { newest: self.counters.revision }.into());
        }
        while self.counters.compacted < revision {
            self.forget_oldest()?;
        }
        Ok(())
    }

    fn due(&self) -> Result<Vec<(u64, String)>, Fault> {
        let mut due = Vec::new();
        for row in self.tables.expiries.range(..(self.now_ms.saturating_add(1), ""))?.take(SWEEP_KEYS_MAX) {
            let (at, key) = row.map(|(row, _)| (row.value().0, row.value().1.to_owned()))?;
            due.push((at, key));
        }
        Ok(due)
    }

    fn operate(&mut self, op: &Op, revision: u64) -> Result<Applied, Fault> {
        let previous = entry(&self.tables.entries, op.key())?;
        let next = match op {
            Op::Put { key, value, ttl } => Some(Entry {
                key: key.as_str().into(),
                value: value.clone(),
                create_revision: previous.as_ref().map_or(revision, |entry| entry.create_revision),
                mod_revision: revision,
                expires_at_ms: ttl.map(|ttl| {
                    // Checked to be at most ten years, so it fits.
                    self.now_ms.saturating_add(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)).max(1)
                }),
            }),
            Op::Delete { .. } => None,
        };
        let applied = Applied { previous, entry: next };
        if applied.changes() {
            self.replace(op.key(), revision, &applied)?;
        }
        Ok(applied)
    }

    /// Moves the old value to the history and the new one to its place.
    fn replace(&mut self, key: &str, revision: u64, applied: &Applied) -> Result<(), Fault> {
        let Tables { entries, superseded, expiries, .. } = &mut *self.tables;
        let previous = applied.previous.as_ref().map(to_row);
        superseded.insert((key, revision), previous)?;
        self.counters.history_bytes += cost(key, previous);
        if let Some(at) = applied.previous.as_ref().and_then(|entry| entry.expires_at_ms) {
            expiries.remove((at, key))?;
        }
        if let Some(at) = applied.entry.as_ref().and_then(|entry| entry.expires_at_ms) {
            expiries.insert((at, key), ())?;
        }
        store_row(entries, key, applied.entry.as_ref())
    }

    /// Ends a revision; without a key touched there is none.
    fn record(&mut self, keys: Vec<&str>, actor: Option<&str>) -> Result<(), Fault> {
        if !keys.is_empty() {
            self.counters.revision += 1;
            self.tables.revisions.insert(self.counters.revision, (self.now_ms, actor, keys))?;
        }
        Ok(())
    }

    fn forget_oldest(&mut self) -> Result<(), Fault> {
        let oldest = self.counters.compacted + 1;
        let Tables { revisions, superseded, .. } = &mut *self.tables;
        if let Some(row) = revisions.remove(oldest)? {
            for key in row.value().2 {
                if let Some(previous) = superseded.remove((key, oldest))? {
                    let freed = cost(key, previous.value());
                    self.counters.history_bytes = self.counters.history_bytes.saturating_sub(freed);
                }
            }
        }
        self.counters.compacted = oldest;
        Ok(())
    }
}

impl Applied {
    /// Only the deletion of an absent key changes nothing.
    fn changes(&self) -> bool {
        self.previous.is_some() || self.entry.is_some()
    }
}

/// What a superseded value counts against the history's bytes.
fn cost(key: &str, previous: Option<(u64, u64, u64, &[u8])>) -> u64 {
    (key.len() + previous.map_or(0, |row| row.3.len())) as u64
}

fn store_row(
    entries: &mut Table<'_, &'static str, Row>,
    key: &str,
    entry: Option<&Entry>,
) -> Result<(), Fault> {
    match entry {
        Some(entry) => entries.insert(key, to_row(entry))?,
        None => entries.remove(key)?,
    };
    Ok(())
}
