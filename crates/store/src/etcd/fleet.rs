//! Who is in the fleet and how far each node is: every node keeps a key of its own beside APISIX's, under a lease, so
//! that a node that is gone is soon waited for no longer.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::failure::Failure;
use super::keys::after;
use super::members::Repeat;
use super::message::{
    Done, LeaseGrantRequest, LeaseRequest, LeaseResponse, PutRequest, RangeRequest, Request, RequestOp,
    TxnRequest, TxnResponse,
};
use super::{Etcd, read};
use crate::{BoxFuture, StoreError};

/// Below Tidegate's own keys.
const NODES: &str = "nodes/";

/// For how many seconds a node counts that is not heard of.
const LEASE_S: i64 = 15;

/// How often a node that is as far as it was says that it lives: twice may fail.
const KEEP_PAUSE: Duration = Duration::from_secs(5);

/// Least time between two words of how far a node is: each is a commit in etcd.
const TELL_PAUSE: Duration = Duration::from_millis(50);

/// Pause after etcd could not be told.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// How long leaving may take.
const LEAVE_WITHIN: Duration = Duration::from_millis(500);

/// How far a node of the fleet is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The node's id, its own for as long as its data directory lives.
    pub id: String,
    /// The host's name.
    pub host: String,
    /// The gateway's version.
    pub version: String,
    /// The revision that its workers have.
    pub revision: u64,
}

/// Who can be asked how far every node is.
pub trait Fleet: Send + Sync + 'static {
    /// The nodes that are heard of.
    fn members(&self) -> BoxFuture<'_, Result<Vec<Member>, StoreError>>;
}

impl Fleet for Etcd {
    fn members(&self) -> BoxFuture<'_, Result<Vec<Member>, StoreError>> {
        Box::pin(members(self))
    }
}

impl Etcd {
    /// Keeps the fleet told how far this node is until `stop` is ready, and then leaves it. `applied` tells the revision
    /// that the workers have.
    pub async fn attend(
        &self,
        mut member: Member,
        mut applied: watch::Receiver<u64>,
        stop: impl Future<Output = ()>,
    ) {
        let mut presence = Presence::new();
        tokio::select! {
            () = tell_for_ever(self, &mut presence, &mut member, &mut applied) => {}
            () = stop => {}
        }
        // An account without the right to write here is no reason to end late.
        let _ = timeout(LEAVE_WITHIN, presence.leave(self)).await;
    }
}

async fn tell_for_ever(
    etcd: &Etcd,
    presence: &mut Presence,
    member: &mut Member,
    applied: &mut watch::Receiver<u64>,
) {
    let mut said = false;
    loop {
        member.revision = *applied.borrow_and_update();
        match presence.tell(etcd, member).await {
            Ok(()) => said = false,
            Err(error) => {
                if !said {
                    tracing::warn!("the fleet isn't told how far this node is: {error}");
                }
                said = true;
                sleep(RETRY_PAUSE).await;
                continue;
            }
        }
        sleep(TELL_PAUSE).await;
        loop {
            tokio::select! {
                changed = applied.changed() => match changed {
                    Ok(()) => break,
                    Err(_) => return,
                },
                () = sleep(KEEP_PAUSE) => {
                    if presence.keep(etcd).await.is_err() {
                        break;
                    }
                }
            }
        }
    }
}

/// A node's own key in etcd.
#[derive(Debug)]
pub(crate) struct Presence {
    lease: Option<i64>,
}

impl Presence {
    pub(crate) fn new() -> Self {
        Self { lease: None }
    }

    /// Says how far `member` is, and that it lives.
    pub(crate) async fn tell(&mut self, etcd: &Etcd, member: &Member) -> Result<(), StoreError> {
        let told = self.put(etcd, member).await;
        if told.is_err() {
            // It may have run out; the next time there is a new one.
            self.lease = None;
        }
        told.map_err(Failure::of_read)
    }

    async fn put(&mut self, etcd: &Etcd, member: &Member) -> Result<(), Failure> {
        let lease = match self.lease {
            Some(lease) => lease,
            None => {
                let request = LeaseGrantRequest { ttl_s: LEASE_S };
                let granted: LeaseResponse =
                    etcd.0.members.call("/etcdserverpb.Lease/LeaseGrant", &request, Repeat::Freely).await?;
                self.lease = Some(granted.id);
                granted.id
            }
        };
        let put = PutRequest {
            key: etcd.0.keys.own(&format!("{NODES}{}", member.id)),
            value: serde_json::to_vec(member).unwrap_or_default(),
            lease,
            prev_kv: false,
        };
        // `Put` alone would do; a transaction is the one write that this client speaks.
        let success = vec![RequestOp { request: Some(Request::Put(put)) }];
        let request = TxnRequest { success, ..TxnRequest::default() };
        let _: TxnResponse = etcd.0.members.call("/etcdserverpb.KV/Txn", &request, Repeat::Freely).await?;
        Ok(())
    }

    /// Says that the node lives and is as far as it was.
    pub(crate) async fn keep(&mut self, etcd: &Etcd) -> Result<(), StoreError> {
        let Some(id) = self.lease else {
            return Err(StoreError::Unavailable("there is no lease".to_owned()));
        };
        let kept: Result<LeaseResponse, Failure> = etcd
            .0
            .members
            .call("/etcdserverpb.Lease/LeaseKeepAlive", &LeaseRequest { id }, Repeat::Freely)
            .await;
        match kept {
            Ok(kept) if kept.ttl_s > 0 => Ok(()),
            other => {
                self.lease = None;
                other.map_err(Failure::of_read)?;
                Err(StoreError::Unavailable("the lease has run out".to_owned()))
            }
        }
    }

    /// Leaves the fleet.
    pub(crate) async fn leave(&mut self, etcd: &Etcd) {
        if let Some(id) = self.lease.take() {
            let gone: Result<Done, Failure> = etcd
                .0
                .members
                .call("/etcdserverpb.Lease/LeaseRevoke", &LeaseRequest { id }, Repeat::IfUndone)
                .await;
            if let Err(failure) = gone {
                tracing::debug!(%failure, "the fleet forgets this node when its lease runs out");
            }
        }
    }
}

/// The nodes that are heard of.
pub(crate) async fn members(etcd: &Etcd) -> Result<Vec<Member>, StoreError> {
    let key = etcd.0.keys.own(NODES);
    let range_end = after(&key);
    let request = RangeRequest { key, range_end, ..RangeRequest::default() };
    let answer = read::range(etcd, &request).await.map_err(Failure::of_read)?;
    Ok(answer.kvs.iter().filter_map(|kv| serde_json::from_slice(&kv.value).ok()).collect())
}
