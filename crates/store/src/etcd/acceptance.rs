//! The operator's acceptance of a replaced store, in a key beside APISIX's, so that one decision reaches every node.

use super::Etcd;
use super::failure::Failure;
use super::members::Repeat;
use super::message::{PutRequest, RangeRequest, Request, RequestOp, TxnRequest, TxnResponse};
use super::read;
use crate::{Acceptance, StoreError};

/// Below Tidegate's own keys.
const ACCEPTED: &str = "accepted";

/// Returns the newest acceptance. An account without rights on Tidegate's keys sees none.
pub(crate) async fn read(etcd: &Etcd) -> Result<Option<Acceptance>, StoreError> {
    let request = RangeRequest { key: etcd.0.keys.own(ACCEPTED), ..RangeRequest::default() };
    match read::range(etcd, &request).await {
        Ok(answer) => Ok(answer.kvs.first().and_then(|kv| serde_json::from_slice(&kv.value).ok())),
        Err(failure) if failure.is_denied() => Ok(None),
        Err(failure) => Err(failure.of_read()),
    }
}

/// Replaces the acceptance.
pub(crate) async fn write(etcd: &Etcd, acceptance: Acceptance) -> Result<(), StoreError> {
    let put = PutRequest {
        key: etcd.0.keys.own(ACCEPTED),
        value: serde_json::to_vec(&acceptance).unwrap_or_default(),
        ..PutRequest::default()
    };
    let success = vec![RequestOp { request: Some(Request::Put(put)) }];
    let request = TxnRequest { success, ..TxnRequest::default() };
    let written: Result<TxnResponse, Failure> =
        etcd.0.members.call("/etcdserverpb.KV/Txn", &request, Repeat::IfUndone).await;
    written.map(drop).map_err(Failure::of_write)
}
