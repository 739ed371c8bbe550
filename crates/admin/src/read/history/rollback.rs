//! Back to how things were after a revision: one resource (`?key=/routes/1`), or all of them.
//!
//! One transaction with a precondition for each key, so that nothing that is written meanwhile is lost. What was
//! valid then is checked again now (`?force=true` restores it unseen). An entry with a time to live gets what was left
//! of it then, counted from its own end; one whose end has come stays gone.

use super::{number, value_at};
use crate::http::args::Args;
use crate::http::manner::Manner;
use crate::http::respond::Answer;
use crate::write::commit::Held;
use crate::write::txn::operation::key_of;
use crate::write::txn::stage::Stage;
use crate::write::txn::{Faults, commit};
use crate::{Admin, AdminRequest, AdminResponse};
use document::Diagnostic;
use model::Kind;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use store::limits::HISTORY_PAGE_MAX;
use store::{Clock, Entry, Op, SystemClock};

/// Rolls back.
pub(crate) async fn rollback(
    admin: &Admin,
    request: &AdminRequest,
    args: &Args,
    revision: &str,
    actor: Option<String>,
) -> Answer {
    let revision = number(revision)?;
    let flag = |name: &str| args.get(name) == Some("true");
    let only = match args.get("key") {
        None => None,
        Some(key) => Some(
            key_of(admin, key)
                .ok_or_else(|| AdminResponse::error(400, format!("{key} is no resource's key")))?,
        ),
    };
    let held = Held::alone(admin).await;
    // Of any key: whether that revision is one to go back to.
    value_at(admin, "/routes/none", revision).await?;
    let mut keys = changed_since(admin, revision).await?;
    if let Some(only) = only {
        // With what stands below it: a consumer's credentials come and go with it.
        keys.retain(|key| {
            key.strip_prefix(&only).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
    }
    let mut stage = Stage::over(admin, Manner::of(request, args), false);
    for key in keys {
        let then = value_at(admin, &key, revision).await?;
        let now = admin.store.get(&key).await?;
        if let Some((op, entry)) = restoring(&key, then, now.as_ref()) {
            stage.restore(op, entry.as_ref(), now.as_ref());
        }
    }
    if !flag("force") {
        let mut faults = Faults::default();
        stage.check(&mut faults).await?;
        refuse(admin, faults)?;
    }
    let staged = stage.finish();
    let changes: Vec<Value> = staged
        .writes
        .iter()
        .map(|write| {
            let key = format!("{}{}", admin.settings.prefix, write.key);
            json!({ "key": key, "outcome": write.outcome.as_str(), "changes": write.changes(admin) })
        })
        .collect();
    if flag("dry_run") {
        let body = json!({ "dry_run": true, "rolled_back_to": revision, "operations": changes });
        return Ok(AdminResponse::json(200, &body));
    }
    let committed = commit(admin, &staged, actor).await?;
    drop(held);
    if let Some(committed) = &committed {
        admin.wait_applied(committed.revision).await;
    }
    // Where nothing has changed since, there is no new revision.
    let new = committed.map(|committed| committed.revision);
    Ok(AdminResponse::json(
        200,
        &json!({ "revision": new, "rolled_back_to": revision, "operations": changes }),
    ))
}

/// The keys of resources that changed after `revision`.
async fn changed_since(admin: &Admin, revision: u64) -> Result<BTreeSet<String>, AdminResponse> {
    let mut keys = BTreeSet::new();
    let mut before = None;
    loop {
        let page = admin.store.history(before, HISTORY_PAGE_MAX).await?;
        let full = page.len() == HISTORY_PAGE_MAX;
        for record in page.into_iter().take_while(|record| record.revision > revision) {
            before = Some(record.revision);
            let resources = record.keys.iter().filter(|change| Kind::parse_key(&change.key).is_some());
            keys.extend(resources.map(|change| change.key.to_string()));
        }
        if !full || before.is_none_or(|before| before <= revision.saturating_add(1)) {
            return Ok(keys);
        }
    }
}

/// What makes `now` what it was `then`, and what it is after that; `None` where it is that.
fn restoring(key: &str, then: Option<Entry>, now: Option<&Entry>) -> Option<(Op, Option<Entry>)> {
    let clock = SystemClock.unix_ms();
    let left = |entry: &Entry| match entry.expires_at_ms {
        None => Some(None),
        Some(at) => {
            at.checked_sub(clock).filter(|left| *left >= 1000).map(|left| Some(Duration::from_millis(left)))
        }
    };
    let then = then.and_then(|entry| left(&entry).map(|ttl| (entry, ttl)));
    match (then, now) {
        (None, None) => None,
        (Some((then, ttl)), now) => {
            let same =
                now.is_some_and(|now| now.value == then.value && now.expires_at_ms == then.expires_at_ms);
            let op = Op::Put { key: key.to_owned(), value: then.value.clone(), ttl };
            (!same).then_some((op, Some(then)))
        }
        (None, Some(_)) => Some((Op::Delete { key: key.to_owned() }, None)),
    }
}

/// Names the resources that can't be restored.
fn refuse(admin: &Admin, faults: Faults) -> Result<(), AdminResponse> {
    let faults = faults.into_list();
    let Some(Diagnostic { message: first, .. }) = faults.first() else { return Ok(()) };
    let message = format!("what was valid then is refused now: {first}; force=true restores it unseen");
    let errors: Vec<Value> = faults
        .iter()
        .map(|Diagnostic { path, message, .. }| {
            // A place is a key and what follows it.
            let (key, pointer) = ["/value", "/key"]
                .iter()
                .find_map(|part| path.split_once(part))
                .unwrap_or((path.as_str(), ""));
            json!({ "key": format!("{}{key}", admin.settings.prefix), "path": pointer, "message": message })
        })
        .collect();
    Err(AdminResponse::json(400, &json!({ "error_msg": message, "errors": errors })))
}
