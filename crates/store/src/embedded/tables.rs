//! The layout of the file.
//!
//! Every value is stored once: the newest in `entries`, an older one in `superseded` under the revision that replaced
//! it. So the value of a key after revision R is the one that the first later change replaced, and without a later
//! change it is the entry itself. Watch, history and `value_at` all read this, and forgetting a revision is deleting
//! its rows.

use redb::{ReadableTable, Table, TableDefinition, WriteTransaction};

use super::fault::Fault;
use crate::Entry;

/// The version of this layout, stored in the file. Raise it with every change that an older reader would misread.
pub(crate) const LAYOUT: u64 = 1;

/// An entry without its key: create revision, mod revision, expiry in ms since 1970 (0 = none), value.
pub(crate) type Row = (u64, u64, u64, &'static [u8]);

/// Key to newest value.
pub(crate) const ENTRIES: TableDefinition<&str, Row> = TableDefinition::new("entries");

/// Key and the revision that changed it, to what it was before.
pub(crate) const SUPERSEDED: TableDefinition<(&str, u64), Option<Row>> = TableDefinition::new("superseded");

/// A revision's row: time in ms since 1970, actor, keys touched.
pub(crate) type RevisionRow = (u64, Option<&'static str>, Vec<&'static str>);

/// Revision to what it was.
pub(crate) const REVISIONS: TableDefinition<u64, RevisionRow> = TableDefinition::new("revisions");

/// Time of expiry and key, in the order in which they fall due.
pub(crate) const EXPIRIES: TableDefinition<(u64, &str), ()> = TableDefinition::new("expiries");

/// Counters by name.
pub(crate) const META: TableDefinition<&str, u64> = TableDefinition::new("meta");

/// [`LAYOUT`] at the time of writing; its presence marks the file as a store.
pub(crate) const META_LAYOUT: &str = "layout";
/// The newest revision.
pub(crate) const META_REVISION: &str = "revision";
/// The newest revision whose rows are gone.
pub(crate) const META_COMPACTED: &str = "compacted";
/// What `superseded` holds, in bytes of keys and values.
pub(crate) const META_HISTORY_BYTES: &str = "history_bytes";

/// All tables of one write transaction.
pub(crate) struct Tables<'txn> {
    pub(crate) entries: Table<'txn, &'static str, Row>,
    pub(crate) superseded: Table<'txn, (&'static str, u64), Option<Row>>,
    pub(crate) revisions: Table<'txn, u64, RevisionRow>,
    pub(crate) expiries: Table<'txn, (u64, &'static str), ()>,
    pub(crate) meta: Table<'txn, &'static str, u64>,
}

impl<'txn> Tables<'txn> {
    /// Opens the tables, and creates them in a new file.
    pub(crate) fn open(txn: &'txn WriteTransaction) -> Result<Self, Fault> {
        Ok(Self {
            entries: txn.open_table(ENTRIES)?,
            superseded: txn.open_table(SUPERSEDED)?,
            revisions: txn.open_table(REVISIONS)?,
            expiries: txn.open_table(EXPIRIES)?,
            meta: txn.open_table(META)?,
        })
    }
}

/// The counters of the `meta` table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counters {
    /// The newest revision.
    pub(crate) revision: u64,
    /// The newest revision whose rows are gone; all above it are kept.
    pub(crate) compacted: u64,
    /// Bytes of keys and values in `superseded`.
    pub(crate) history_bytes: u64,
}

impl Counters {
    pub(crate) fn read(meta: &impl ReadableTable<&'static str, u64>) -> Result<Self, Fault> {
        let counter =
            |name: &str| -> Result<u64, Fault> { Ok(meta.get(name)?.map_or(0, |guard| guard.value())) };
        Ok(Self {
            revision: counter(META_REVISION)?,
            compacted: counter(META_COMPACTED)?,
            history_bytes: counter(META_HISTORY_BYTES)?,
        })
    }

    pub(crate) fn write(self, meta: &mut Table<'_, &'static str, u64>) -> Result<(), Fault> {
        meta.insert(META_REVISION, self.revision)?;
        meta.insert(META_COMPACTED, self.compacted)?;
        meta.insert(META_HISTORY_BYTES, self.history_bytes)?;
        Ok(())
    }
}

/// The row of an entry.
pub(crate) fn to_row(entry: &Entry) -> (u64, u64, u64, &[u8]) {
    (entry.create_revision, entry.mod_revision, entry.expires_at_ms.unwrap_or(0), &entry.value)
}

/// The entry of a row.
pub(crate) fn to_entry(key: &str, row: (u64, u64, u64, &[u8])) -> Entry {
    let (create_revision, mod_revision, expires_at_ms, value) = row;
    Entry {
        key: key.into(),
        value: value.into(),
        create_revision,
        mod_revision,
        expires_at_ms: (expires_at_ms != 0).then_some(expires_at_ms),
    }
}

/// The newest entry of a key.
pub(crate) fn entry(
    entries: &impl ReadableTable<&'static str, Row>,
    key: &str,
) -> Result<Option<Entry>, Fault> {
    Ok(entries.get(key)?.map(|row| to_entry(key, row.value())))
}
