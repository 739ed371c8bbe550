//! Everything that is read: each function sees one commit.

use std::sync::Arc;

use redb::{ReadOnlyTable, ReadTransaction, ReadableTable};

use super::fault::Fault;
use super::tables::{self, Counters, ENTRIES, META, REVISIONS, Row, SUPERSEDED, to_entry};
use crate::limits::{WATCH_BYTES_MAX, WATCH_REVISIONS_MAX};
use crate::{Batch, Change, Entry, KeyChange, Listing, RevisionRecord, StoreError};

/// The newest revision.
pub(crate) fn newest(txn: &ReadTransaction) -> Result<u64, Fault> {
    Ok(Counters::read(&txn.open_table(META)?)?.revision)
}

/// One entry as of now.
pub(crate) fn get(txn: &ReadTransaction, key: &str) -> Result<Option<Entry>, Fault> {
    tables::entry(&txn.open_table(ENTRIES)?, key)
}

/// All entries under `prefix`.
pub(crate) fn list(txn: &ReadTransaction, prefix: &str) -> Result<Listing, Fault> {
    let table = txn.open_table(ENTRIES)?;
    let mut entries = Vec::new();
    for row in table.range(prefix..)? {
        let (key, value) = row?;
        if !key.value().starts_with(prefix) {
            break;
        }
        entries.push(to_entry(key.value(), value.value()));
    }
    Ok(Listing { revision: newest(txn)?, entries, cluster: 0 })
}

/// The entry as it was right after `revision`.
pub(crate) fn value_at(txn: &ReadTransaction, key: &str, revision: u64) -> Result<Option<Entry>, Fault> {
    let counters = Counters::read(&txn.open_table(META)?)?;
    if revision > counters.revision {
        return Err(StoreError::Future { newest: counters.revision }.into());
    }
    if revision < counters.compacted {
        return Err(StoreError::Compacted { oldest: counters.compacted }.into());
    }
    Past::open(txn)?.value_after(key, revision)
}

/// The changes of revision `from` and later, as many as the limits of a watch allow.
pub(crate) fn changes(txn: &ReadTransaction, from: u64) -> Result<Vec<Batch>, Fault> {
    let counters = Counters::read(&txn.open_table(META)?)?;
    if from <= counters.compacted {
        return Err(StoreError::Compacted { oldest: counters.compacted + 1 }.into());
    }
    let past = Past::open(txn)?;
    let mut batches = Vec::new();
    let mut bytes = 0;
    for row in txn.open_table(REVISIONS)?.range(from..)?.take(WATCH_REVISIONS_MAX) {
        let (revision, record) = row?;
        let revision = revision.value();
        let changes = past.changes_of(revision, &record.value().2)?;
        bytes += changes.iter().map(value_bytes).sum::<usize>();
        batches.push(Batch { revision, changes });
        if bytes > WATCH_BYTES_MAX {
            break;
        }
    }
    Ok(batches)
}

/// The kept revisions below `before`, newest first.
pub(crate) fn history(
    txn: &ReadTransaction,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<RevisionRecord>, Fault> {
    let past = Past::open(txn)?;
    let mut records = Vec::new();
    for row in txn.open_table(REVISIONS)?.range(..before.unwrap_or(u64::MAX))?.rev().take(limit) {
        let (revision, record) = row?;
        let revision = revision.value();
        let (unix_ms, actor, keys) = record.value();
        let mut touched = Vec::with_capacity(keys.len());
        for key in keys {
            touched.push(KeyChange { key: key.into(), deleted: !past.exists_after(key, revision)? });
        }
        records.push(RevisionRecord {
            revision,
            unix_ms: Some(unix_ms),
            actor: actor.map(str::to_owned),
            keys: touched,
        });
    }
    Ok(records)
}

fn value_bytes(change: &Change) -> usize {
    match change {
        Change::Put(entry) => entry.value.len(),
        Change::Delete { .. } => 0,
    }
}

/// The tables from which the value of a key after a revision follows.
struct Past {
    entries: ReadOnlyTable<&'static str, Row>,
    superseded: ReadOnlyTable<(&'static str, u64), Option<Row>>,
}

impl Past {
    fn open(txn: &ReadTransaction) -> Result<Self, Fault> {
        Ok(Self { entries: txn.open_table(ENTRIES)?, superseded: txn.open_table(SUPERSEDED)? })
    }

    /// The value that the first change after `revision` replaced; without one, the value of today.
    fn value_after(&self, key: &str, revision: u64) -> Result<Option<Entry>, Fault> {
        let later = (key, revision.saturating_add(1))..=(key, u64::MAX);
        match ReadableTable::range(&self.superseded, later)?.next() {
            Some(row) => Ok(row?.1.value().map(|row| to_entry(key, row))),
            None => tables::entry(&self.entries, key),
        }
    }

    /// As [`value_after`](Self::value_after), without copying the value.
    fn exists_after(&self, key: &str, revision: u64) -> Result<bool, Fault> {
        let later = (key, revision.saturating_add(1))..=(key, u64::MAX);
        match ReadableTable::range(&self.superseded, later)?.next() {
            Some(row) => Ok(row?.1.value().is_some()),
            None => Ok(ReadableTable::get(&self.entries, key)?.is_some()),
        }
    }

    fn changes_of(&self, revision: u64, keys: &[&str]) -> Result<Vec<Change>, Fault> {
        let change = |key: &&str| {
            Ok(match self.value_after(key, revision)? {
                Some(entry) => Change::Put(entry),
                None => Change::Delete { key: Arc::from(*key), revision },
            })
        };
        keys.iter().map(change).collect()
    }
}
