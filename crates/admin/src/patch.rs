//! `PATCH`: a part of a resource, merged into it or set at a path below it.
//!
//! Two that race are compared by revision. APISIX answers 503 to the second; here it is done again on the first one's
//! result, and 503 is left for a resource that changes faster than that.

use crate::checks::{Candidate, check};
use crate::dispatch::Call;
use crate::respond::Answer;
use crate::write::{Held, set_times, txn, warned};
use crate::{Admin, AdminResponse, identity, list, merge, shape};
use serde_json::{Map, Value};
use store::{Entry, Precondition, TxnOutcome};

/// How often a PATCH is done: each failure means that another one was done in the meantime, so this many clients may
/// patch one resource at the same moment.
const ATTEMPTS: usize = 16;

/// Changes the resource at the id.
pub(crate) async fn patch(admin: &Admin, call: Call<'_>) -> Answer {
    let refuse = |message: &str| AdminResponse::error(400, message);
    let Some(id) = call.id else { return Err(refuse(&format!("missing {} id", call.kind.noun()))) };
    let Some(body) = &call.body else { return Err(refuse("missing new configuration")) };
    let is_table = body.is_object() || body.as_array().is_some_and(Vec::is_empty);
    if call.sub_path.is_empty() && !is_table {
        return Err(refuse("invalid configuration"));
    }
    let kind = call.kind;
    let key = kind.key(id);
    for _ in 0..ATTEMPTS {
        let held = Held::for_write(admin, kind).await;
        let Some(entry) = list::entry(admin, &key).await? else { return Err(AdminResponse::key_not_found()) };
        let mut fields = patched(&entry, call.sub_path, body)?;
        identity::needed(kind, Some(id), &mut fields)?;
        let candidate = Candidate { kind, id: Some(id), fields: &fields, references: true };
        let unknown = check(admin, candidate).await?;
        let mut txn = txn(&key, &fields, call.ttl, call.actor.as_deref());
        txn.when.push(Precondition::ModRevision { key: key.clone(), equals: entry.mod_revision });
        if let TxnOutcome::Committed(committed) = admin.store.txn(txn).await? {
            drop(held);
            admin.wait_applied(committed.revision).await;
            let body = shape::written(admin, "compareAndSwap", &key, fields);
            return Ok(warned(AdminResponse::json(200, &body), &unknown));
        }
    }
    Err(AdminResponse::error(503, "value changed before overwritten"))
}

/// What the resource becomes.
fn patched(entry: &Entry, sub_path: &[String], body: &Value) -> Result<Map<String, Value>, AdminResponse> {
    let Ok(mut fields) = serde_json::from_slice::<Map<String, Value>>(&entry.value) else {
        return Err(AdminResponse::error(503, "the stored value is no JSON object"));
    };
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
