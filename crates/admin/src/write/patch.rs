//! `PATCH`: a part of a resource, merged into it or set at a path below it.
//!
//! Two that race are compared by revision. APISIX answers 503 to the second; here it is done again on the first one's
//! result, now with no other write of this process beside it. 503 is left for a resource that others of a shared store
//! change faster than that.

use crate::http::call::Call;
use crate::http::identity;
use crate::http::respond::Answer;
use crate::read::{shape, stored};
use crate::validate::resource::{Candidate, check};
use crate::write::commit::{Held, set_times, writing};
use crate::write::{merge, subresources};
use crate::{Admin, AdminResponse};
use model::Kind;
use serde_json::{Map, Value};
use store::{Entry, Precondition, Txn, TxnOutcome};

/// How often a PATCH is done: each failure means that another one was done in the meantime, so this many gateways may
/// patch one resource at the same moment.
const ATTEMPTS: usize = 16;

/// Changes the resource at the id.
pub(crate) async fn patch(admin: &Admin, call: Call<'_>) -> Answer {
    let target = call.target;
    let refuse = |message: &str| AdminResponse::error(400, message);
    let Some(id) = target.id else {
        let secret = target.kind == Kind::Secret;
        return Err(if secret { refuse("no secret id") } else { target.without_id() });
    };
    let Some(body) = &call.body else { return Err(refuse("missing new configuration")) };
    // Below another resource APISIX takes no path.
    let sub_path = if target.kind.parent().is_some() { &[] } else { target.sub_path };
    let is_table = body.is_object() || body.as_array().is_some_and(Vec::is_empty);
    if sub_path.is_empty() && !is_table {
        return Err(refuse("invalid configuration"));
    }
    let key = target.key_of(id);
    for attempt in 0..ATTEMPTS {
        let held = match attempt {
            0 => Held::for_write(admin, target.kind).await,
            _ => Held::alone(admin).await,
        };
        if target.kind == Kind::GraphqlCost {
            if body.get("service_id").is_some() {
                return Err(refuse("service_id can not be patched"));
            }
            subresources::check_position(admin, &target, body.as_object().unwrap_or(&Map::new())).await?;
        }
        let Some(entry) = stored::entry(admin, &key).await? else {
            return Err(AdminResponse::key_not_found());
        };
        let mut fields = patched(admin, &entry, sub_path, body)?;
        identity::needed(&target, &mut fields)?;
        admin.accept(&key, &mut fields);
        let candidate = Candidate { target, fields: &fields, others: true };
        let unknown = check(admin, candidate, call.manner).await?;
        admin.seal(&key, &mut fields);
        let txn = Txn {
            when: vec![Precondition::ModRevision { key: key.clone(), equals: entry.mod_revision }],
            then: vec![writing(&key, &fields, call.ttl)],
            actor: call.actor.clone(),
        };
        if let TxnOutcome::Committed(committed) = admin.store.txn(txn).await? {
            drop(held);
            admin.wait_applied(committed.revision).await;
            admin.show_written(&key, &mut fields);
            let body = shape::written(admin, "compareAndSwap", &key, fields);
            return Ok(AdminResponse::json(200, &body).warned(&unknown));
        }
    }
    Err(AdminResponse::error(503, "value changed before overwritten"))
}

/// What the resource becomes.
fn patched(
    admin: &Admin,
    entry: &Entry,
    sub_path: &[&str],
    body: &Value,
) -> Result<Map<String, Value>, AdminResponse> {
    let Ok(mut fields) = serde_json::from_slice::<Map<String, Value>>(&entry.value) else {
        return Err(AdminResponse::error(503, "the stored value is no JSON object"));
    };
    admin.open(&entry.key, &mut fields);
    if sub_path.is_empty() {
        let patch = body.as_object().cloned().unwrap_or_default();
        let dated = patch.get("update_time").is_some_and(|time| !time.is_null());
        merge::merge(&mut fields, patch);
        set_times(&mut fields, None, !dated);
    } else {
        merge::set(&mut fields, sub_path, body.clone())
            .map_err(|place| AdminResponse::error(400, format!("invalid sub-path: {place}")))?;
        set_times(&mut fields, None, true);
    }
    Ok(fields)
}
