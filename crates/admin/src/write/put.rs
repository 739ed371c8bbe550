//! `PUT` and `POST`: whole resources.

use crate::dispatch::Call;
use crate::http::identity;
use crate::http::respond::Answer;
use crate::http::target::Target;
use crate::read::{list, shape};
use crate::validate::resource::{Candidate, check};
use crate::write::subresources;
use crate::{Admin, AdminResponse};
use model::Kind;
use serde_json::{Map, Value};
use std::time::Duration;
use store::limits::TXN_OPS_MAX;
use store::{Clock, Committed, Op, StoreError, SystemClock, Txn, TxnOutcome};
use tokio::sync::{RwLockReadGuard, RwLockWriteGuard};

/// Creates or replaces the resource at the id: 201 or 200.
pub(crate) async fn put(admin: &Admin, call: Call<'_>) -> Answer {
    let target = call.target;
    let kind = target.kind;
    let mut fields = identity::resource(call.body)?;
    let held = Held::for_write(admin, kind).await;
    subresources::bind(admin, &target, &mut fields).await?;
    let id = identity::needed(&target, &mut fields)?;
    identity::forbid_times(&fields)?;
    let own = if kind == Kind::Consumer { target.id } else { Some(id.as_str()) };
    let target = Target { id: own, ..target };
    let key = target.key_of(&id);
    admin.accept(&key, &mut fields);
    let unknown = check(admin, Candidate { target, fields: &fields, others: true }, call.manner).await?;
    subresources::check_parent(admin, &target).await?;
    let mut txn = Txn { actor: call.actor, ..Txn::default() };
    if kind == Kind::PluginMetadata {
        fields.insert("id".to_owned(), Value::from(id));
    } else {
        let previous = list::entry(admin, &key).await?;
        if previous.is_none() {
            // What an earlier resource of that id left below it is not the new one's.
            txn.then = subresources::deletions(admin, kind, &id).await?;
        }
        let created =
            previous.and_then(|entry| serde_json::from_slice::<Times>(&entry.value).ok()?.create_time);
        set_times(&mut fields, created, false);
    }
    admin.seal(&key, &mut fields);
    txn.then.insert(0, writing(&key, &fields, call.ttl));
    let committed = store(admin, txn).await?;
    drop(held);
    let existed = committed.applied.first().is_some_and(|applied| applied.previous.is_some());
    admin.wait_applied(committed.revision).await;
    admin.show_written(&key, &mut fields);
    let body = shape::written(admin, "set", &key, fields);
    Ok(warned(AdminResponse::json(if existed { 200 } else { 201 }, &body), &unknown))
}

/// Creates a resource under a generated id.
pub(crate) async fn post(admin: &Admin, call: Call<'_>) -> Answer {
    let target = call.target;
    let mut fields = identity::resource(call.body)?;
    let held = Held::for_write(admin, target.kind).await;
    subresources::bind(admin, &target, &mut fields).await?;
    identity::unneeded(&target, &fields)?;
    identity::forbid_times(&fields)?;
    let any = target.key_of(&generated(0));
    admin.accept(&any, &mut fields);
    let unknown = check(admin, Candidate { target, fields: &fields, others: true }, call.manner).await?;
    set_times(&mut fields, None, false);
    admin.seal(&any, &mut fields);
    // What the store would refuse is refused before an id is drawn, with one as long as the real one.
    fields.insert("id".to_owned(), Value::from(generated(0)));
    let txn = |key: &str, fields: &Map<String, Value>| Txn {
        then: vec![writing(key, fields, call.ttl)],
        actor: call.actor.clone(),
        ..Txn::default()
    };
    txn(&any, &fields).check()?;
    // As in APISIX, and so that both can share one etcd: a revision of its own is an id that nothing else has.
    let drawn = admin.store.put("/gen_id", b"1".as_slice().into(), call.actor.as_deref()).await?;
    let id = generated(drawn.revision);
    let key = target.key_of(&id);
    fields.insert("id".to_owned(), Value::from(id));
    let committed = store(admin, txn(&key, &fields)).await?;
    drop(held);
    admin.wait_applied(committed.revision).await;
    let body = shape::written(admin, "create", &key, fields);
    Ok(warned(AdminResponse::json(201, &body), &unknown))
}

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

#[derive(serde::Deserialize)]
struct Times {
    create_time: Option<Value>,
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

/// An id as APISIX makes it: digits that sort as the revision does.
fn generated(revision: u64) -> String {
    format!("{revision:020}")
}

/// Names the fields that were accepted although nobody knows them, in a `Warning` header and in the log.
pub(crate) fn warned(response: AdminResponse, unknown: &[String]) -> AdminResponse {
    /// Bytes of names shown; proxies limit header lines to 8 KiB, and who has more such fields reads the log.
    const NAMES_BYTES_MAX: usize = 1024;
    if unknown.is_empty() {
        return response;
    }
    let names = unknown.join(", ");
    tracing::warn!(fields = %names, "accepted fields that nobody knows");
    // A quoted string of a header is printable ASCII.
    let names: String = names.chars().map(|c| if matches!(c, ' '..='~') { c } else { '?' }).collect();
    let names = names.replace('\\', "\\\\").replace('"', "\\\"");
    let shown = names.get(..NAMES_BYTES_MAX).unwrap_or(&names).trim_end_matches('\\');
    response.with("Warning", format!("299 tidegate \"unknown fields: {shown}\""))
}
