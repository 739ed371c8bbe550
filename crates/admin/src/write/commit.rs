//! What every write does: hold the references, set the times, and commit.

use crate::Admin;
use model::Kind;
use serde_json::{Map, Value};
use std::time::Duration;
use store::limits::TXN_OPS_MAX;
use store::{Clock, Committed, Op, StoreError, SystemClock, Txn, TxnOutcome};
use tokio::sync::{RwLockReadGuard, RwLockWriteGuard};

/// A share in `Admin::references`, or all of it.
pub(crate) enum Held<'a> {
    /// What it writes may refer to others.
    Shared { _guard: RwLockReadGuard<'a, ()> },
    /// What it writes or deletes concerns others.
    Alone { _guard: RwLockWriteGuard<'a, ()> },
}

impl<'a> Held<'a> {
    /// For creating or changing a resource.
    pub(crate) async fn for_write(admin: &'a Admin, kind: Kind) -> Self {
        match kind {
            // What they have in common with no other of their kind is looked for before they are written.
            Kind::GlobalRule | Kind::Consumer | Kind::Credential | Kind::GraphqlCost => {
                Self::Alone { _guard: admin.references.write().await }
            }
            _ => Self::Shared { _guard: admin.references.read().await },
        }
    }

    /// For what looks at references among all the resources, as deleting does.
    pub(crate) async fn alone(admin: &'a Admin) -> Self {
        Self::Alone { _guard: admin.references.write().await }
    }
}

/// Sets `create_time` where there is none, and `update_time` where there is none or where `changed` asks for it; in
/// seconds since 1970.
pub(crate) fn set_times(fields: &mut Map<String, Value>, created: Option<Value>, changed: bool) {
    let now = Value::from(SystemClock.unix_ms() / 1000);
    fields.entry("create_time").or_insert_with(|| created.unwrap_or_else(|| now.clone()));
    if changed || !fields.contains_key("update_time") {
        fields.insert("update_time".to_owned(), now);
    }
}

/// Runs a transaction without preconditions. More deletions than a transaction holds go in others before it.
pub(crate) async fn store(admin: &Admin, mut txn: Txn) -> Result<Committed, StoreError> {
    while txn.then.len() > TXN_OPS_MAX {
        let then = txn.then.split_off(txn.then.len().saturating_sub(TXN_OPS_MAX).max(1));
        commit(admin, Txn { then, when: Vec::new(), actor: txn.actor.clone() }).await?;
    }
    commit(admin, txn).await
}

async fn commit(admin: &Admin, txn: Txn) -> Result<Committed, StoreError> {
    match admin.store.txn(txn).await? {
        TxnOutcome::Committed(committed) => Ok(committed),
        TxnOutcome::Refused { .. } => {
            Err(StoreError::Unavailable("it refused a transaction without preconditions".to_owned()))
        }
    }
}

/// The operation that writes a resource.
pub(crate) fn writing(key: &str, fields: &Map<String, Value>, ttl: Option<Duration>) -> Op {
    // A map of text keys and JSON values can't fail to be written.
    let value = serde_json::to_vec(fields).unwrap_or_default();
    Op::Put { key: key.to_owned(), value: value.into(), ttl }
}
