//! The store's transactions as etcd's: preconditions are compares, and the record for the history is written with them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Etcd;
use super::failure::Failure;
use super::history::record;
use super::keys::{revision, signed};
use super::members::Repeat;
use super::message::{
    Compare, DeleteRangeRequest, Done, KeyValue, LeaseGrantRequest, LeaseRequest, LeaseResponse, PutRequest,
    RangeRequest, Request, RequestOp, Response, TxnRequest, TxnResponse,
};
use crate::limits::TXN_OPS_MAX;
use crate::{Applied, Committed, Entry, Op, Precondition, StoreError, Txn, TxnOutcome};

/// Runs a checked transaction.
pub(crate) async fn run(etcd: &Etcd, txn: &Txn) -> Result<TxnOutcome, StoreError> {
    let leases = grant(etcd, txn).await?;
    let mut answer = send(etcd, txn, &leases, etcd.keeps_records()).await;
    if etcd.keeps_records() && answer.as_ref().is_err_and(Failure::is_denied) {
        // An account that is confined to APISIX's keys may write the resource all the same.
        answer = send(etcd, txn, &leases, false).await;
        if answer.is_ok() {
            etcd.keep_no_records();
        }
    }
    if !matches!(&answer, Ok(answer) if answer.succeeded) {
        revoke(etcd, leases).await;
    }
    let outcome = outcome(etcd, txn, answer.map_err(Failure::of_write)?)?;
    if matches!(outcome, TxnOutcome::Committed(_)) {
        etcd.recorded().await;
    }
    Ok(outcome)
}

/// A lease for each time to live. etcd counts whole seconds.
async fn grant(etcd: &Etcd, txn: &Txn) -> Result<BTreeMap<Duration, i64>, StoreError> {
    let mut leases = BTreeMap::new();
    for op in &txn.then {
        let Op::Put { ttl: Some(ttl), .. } = op else { continue };
        if leases.contains_key(ttl) {
            continue;
        }
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        let request = LeaseGrantRequest { ttl_s: signed(seconds) };
        // One granted in vain ends by itself.
        let granted: Result<LeaseResponse, Failure> =
            etcd.0.members.call("/etcdserverpb.Lease/LeaseGrant", &request, Repeat::Freely).await;
        leases.insert(*ttl, granted.map_err(Failure::of_read)?.id);
    }
    Ok(leases)
}

/// Gives back what a transaction that did not happen would have used.
async fn revoke(etcd: &Etcd, leases: BTreeMap<Duration, i64>) {
    for id in leases.into_values() {
        let revoked: Result<Done, Failure> = etcd
            .0
            .members
            .call("/etcdserverpb.Lease/LeaseRevoke", &LeaseRequest { id }, Repeat::IfUndone)
            .await;
        if let Err(failure) = revoked {
            tracing::debug!(%failure, "a lease without use is left to run out");
        }
    }
}

async fn send(
    etcd: &Etcd,
    txn: &Txn,
    leases: &BTreeMap<Duration, i64>,
    recorded: bool,
) -> Result<TxnResponse, Failure> {
    let compare = txn.when.iter().map(|Precondition::ModRevision { key, equals }| {
        Compare::written_by(etcd.0.keys.to_etcd(key), signed(*equals))
    });
    let mut success: Vec<RequestOp> = txn.then.iter().map(|op| operation(etcd, op, leases)).collect();
    // etcd counts the record as an operation too.
    if recorded && !success.is_empty() && success.len() < TXN_OPS_MAX {
        success.push(recording(etcd, txn));
    }
    let failure = txn.when.iter().map(|Precondition::ModRevision { key, .. }| {
        request(Request::Range(RangeRequest { key: etcd.0.keys.to_etcd(key), ..RangeRequest::default() }))
    });
    let request = TxnRequest { compare: compare.collect(), success, failure: failure.collect() };
    etcd.0.members.call("/etcdserverpb.KV/Txn", &request, Repeat::IfUndone).await
}

fn operation(etcd: &Etcd, op: &Op, leases: &BTreeMap<Duration, i64>) -> RequestOp {
    let key = etcd.0.keys.to_etcd(op.key());
    request(match op {
        Op::Put { value, ttl, .. } => {
            let lease = ttl.and_then(|ttl| leases.get(&ttl)).copied().unwrap_or_default();
            Request::Put(PutRequest { key, value: value.to_vec(), lease, prev_kv: true })
        }
        Op::Delete { .. } => {
            Request::Delete(DeleteRangeRequest { key, range_end: Vec::new(), prev_kv: true })
        }
    })
}

/// Writes the record. Deletions that find nothing are no change, and leave none.
fn recording(etcd: &Etcd, txn: &Txn) -> RequestOp {
    let (key, value) = record(&etcd.0.keys, txn);
    let put = request(Request::Put(PutRequest { key, value, ..PutRequest::default() }));
    if txn.then.iter().any(|op| matches!(op, Op::Put { .. })) {
        return put;
    }
    let absent = txn.then.iter().map(|op| Compare::absent(etcd.0.keys.to_etcd(op.key()))).collect();
    // etcd decides on compares before it writes anything, also on those within.
    request(Request::Txn(TxnRequest { compare: absent, success: Vec::new(), failure: vec![put] }))
}

fn request(request: Request) -> RequestOp {
    RequestOp { request: Some(request) }
}

fn outcome(etcd: &Etcd, txn: &Txn, answer: TxnResponse) -> Result<TxnOutcome, StoreError> {
    let at = revision(answer.header.unwrap_or_default().revision);
    let mut responses = answer.responses.into_iter().map(|op| op.response);
    if !answer.succeeded {
        for (index, Precondition::ModRevision { equals, .. }) in txn.when.iter().enumerate() {
            let Some(Some(Response::Range(range))) = responses.next() else { break };
            let found = range.kvs.first();
            if found.map_or(0, |kv| revision(kv.mod_revision)) != *equals {
                return Ok(TxnOutcome::Refused {
                    index,
                    current: found.and_then(|kv| etcd.0.keys.entry(kv)),
                });
            }
        }
        return Err(StoreError::Unavailable(
            "etcd refused a transaction whose preconditions hold".to_owned(),
        ));
    }
    let applied = txn.then.iter().map(|op| {
        let previous = match responses.next().flatten() {
            Some(Response::Put(put)) => put.prev_kv,
            Some(Response::Delete(delete)) => delete.prev_kvs.into_iter().next(),
            _ => None,
        };
        applied(etcd, op, previous.as_ref(), at)
    });
    Ok(TxnOutcome::Committed(Committed { applied: applied.collect(), revision: at }))
}

fn applied(etcd: &Etcd, op: &Op, previous: Option<&KeyValue>, at: u64) -> Applied {
    let entry = match op {
        Op::Put { key, value, .. } => Some(Entry {
            key: key.as_str().into(),
            value: value.clone(),
            create_revision: previous.map_or(at, |kv| revision(kv.create_revision)),
            mod_revision: at,
            expires_at_ms: None,
        }),
        Op::Delete { .. } => None,
    };
    Applied { previous: previous.and_then(|kv| etcd.0.keys.entry(kv)), entry }
}
