//! Who changed what and when. etcd knows none of the three, so each transaction of ours leaves a record beside APISIX's
//! keys, at the same revision; what others wrote is seen by the revision of the keys as they stand.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::keys::{Keys, after, revision, signed};
use super::members::{Repeat, random};
use super::message::{DeleteRangeRequest, Done, RangeRequest};
use super::{Etcd, read};
use crate::limits::{HISTORY_PAGE_MAX, HISTORY_REVISIONS};
use crate::{Clock, KeyChange, Op, RevisionRecord, StoreError, SystemClock, Txn};

/// Below Tidegate's own keys; ordered by time.
const LOG: &str = "log/";

/// After so many records of one node it looks whether there are too many.
const PRUNE_EVERY: u64 = 500;

/// A record as it is written.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// When, in milliseconds since 1970.
    at: u64,
    /// Who.
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<String>,
    /// Keys that were written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    put: Vec<String>,
    /// Keys that were to be deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    deleted: Vec<String>,
    /// The order of both: true for a deletion.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    order: Vec<bool>,
}

/// Key and value of the record of `txn`.
pub(crate) fn record(keys: &Keys, txn: &Txn) -> (Vec<u8>, Vec<u8>) {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let at = SystemClock.unix_ms();
    let is_delete = |op: &&Op| matches!(op, Op::Delete { .. });
    let names = |ops: Vec<&Op>| ops.into_iter().map(|op| op.key().to_owned()).collect();
    let (deleted, put): (Vec<&Op>, Vec<&Op>) = txn.then.iter().partition(is_delete);
    // Only a mixed transaction has an order to tell.
    let order = match (deleted.is_empty(), put.is_empty()) {
        (false, false) => txn.then.iter().map(|op| is_delete(&op)).collect(),
        _ => Vec::new(),
    };
    let record = Record { at, actor: txn.actor.clone(), put: names(put), deleted: names(deleted), order };
    // Nodes that write in the same millisecond get keys of their own.
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let key = keys.own(&format!("{LOG}{at:016}-{:016x}-{count}", random()));
    (key, serde_json::to_vec(&record).unwrap_or_default())
}

impl Record {
    fn keys(self) -> Vec<KeyChange> {
        let change = |key: String, deleted| KeyChange { key: key.into(), deleted };
        let (mut put, mut deleted) = (self.put.into_iter(), self.deleted.into_iter());
        let mut changes = Vec::new();
        for is_delete in self.order {
            let next = if is_delete { deleted.next() } else { put.next() };
            changes.extend(next.map(|key| change(key, is_delete)));
        }
        changes.extend(put.map(|key| change(key, false)));
        changes.extend(deleted.map(|key| change(key, true)));
        changes
    }
}

/// The newest revisions below `before`, newest first.
pub(crate) async fn page(
    etcd: &Etcd,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<RevisionRecord>, StoreError> {
    let limit = limit.min(HISTORY_PAGE_MAX);
    if limit == 0 || before == Some(0) {
        return Ok(Vec::new());
    }
    let mut found = written_by_others(etcd, before, limit).await?;
    found.extend(written_by_us(etcd, before, limit).await?);
    let mut records: Vec<RevisionRecord> = found.into_values().rev().take(limit).collect();
    // A record outlives what etcd has compacted; without the values it is of no use.
    while let Some(last) = records.last() {
        if read::is_kept(etcd, last.revision).await? {
            break;
        }
        let oldest = read::oldest(etcd, last.revision).await?;
        records.retain(|record| record.revision >= oldest);
    }
    Ok(records)
}

/// The newest keys of a range by the revision that wrote them.
fn newest(range: (Vec<u8>, Vec<u8>), before: Option<u64>, limit: usize, keys_only: bool) -> RangeRequest {
    RangeRequest {
        key: range.0,
        range_end: range.1,
        limit: i64::try_from(limit).unwrap_or(i64::MAX),
        sort_order: RangeRequest::DESCEND,
        sort_target: RangeRequest::BY_MOD,
        keys_only,
        max_mod_revision: before.map_or(0, |before| signed(before.saturating_sub(1)).max(1)),
        ..RangeRequest::default()
    }
}

async fn written_by_us(
    etcd: &Etcd,
    before: Option<u64>,
    limit: usize,
) -> Result<BTreeMap<u64, RevisionRecord>, StoreError> {
    let first = etcd.0.keys.own(LOG);
    let end = after(&first);
    let answer = match read::range(etcd, &newest((first, end), before, limit, false)).await {
        Err(failure) if failure.is_denied() => return Ok(BTreeMap::new()),
        answer => answer.map_err(Failure::of_read)?,
    };
    let records = answer.kvs.iter().filter_map(|kv| {
        let record: Record = serde_json::from_slice(&kv.value).ok()?;
        let revision = revision(kv.mod_revision);
        let (unix_ms, actor) = (Some(record.at), record.actor.clone());
        Some((revision, RevisionRecord { revision, unix_ms, actor, keys: record.keys() }))
    });
    Ok(records.filter(|(revision, _)| before.is_none_or(|before| *revision < before)).collect())
}

/// The last write of each key as it stands. What was since replaced or deleted by others is not seen.
async fn written_by_others(
    etcd: &Etcd,
    before: Option<u64>,
    limit: usize,
) -> Result<BTreeMap<u64, RevisionRecord>, StoreError> {
    let request = newest(etcd.0.keys.range(""), before, limit, true);
    let answer = read::range(etcd, &request).await.map_err(Failure::of_read)?;
    let mut records = BTreeMap::new();
    for kv in answer.kvs.iter().rev() {
        let revision = revision(kv.mod_revision);
        let Some(key) = etcd.0.keys.to_store(&kv.key).filter(|key| !key.ends_with('/')) else { continue };
        if before.is_some_and(|before| revision >= before) {
            continue;
        }
        let record = records.entry(revision).or_insert_with(|| RevisionRecord {
            revision,
            unix_ms: None,
            actor: None,
            keys: Vec::new(),
        });
        record.keys.push(KeyChange { key: key.into(), deleted: false });
    }
    Ok(records)
}

/// Looks now and then whether there are more records than are kept, and deletes the oldest.
pub(crate) async fn prune(etcd: &Etcd, written: u64) -> Result<(), Failure> {
    if !written.is_multiple_of(PRUNE_EVERY) {
        return Ok(());
    }
    let key = etcd.0.keys.own(LOG);
    let range_end = after(&key);
    let all = RangeRequest { key: key.clone(), range_end, count_only: true, ..RangeRequest::default() };
    let count = read::range(etcd, &all).await?.count;
    let surplus = count - signed(HISTORY_REVISIONS);
    if surplus <= 0 {
        return Ok(());
    }
    let oldest = RangeRequest { limit: surplus, keys_only: true, count_only: false, ..all };
    let Some(last) = read::range(etcd, &oldest).await?.kvs.pop() else { return Ok(()) };
    let delete = DeleteRangeRequest { key, range_end: [&last.key[..], &[0]].concat(), prev_kv: false };
    let _: Done = etcd.0.members.call("/etcdserverpb.KV/DeleteRange", &delete, Repeat::Freely).await?;
    Ok(())
}
