//! `GET /history`: who changed what and when; `GET /history/{revision}`: what one revision changed;
//! `POST /history/{revision}/rollback`: back to how things were after it.
//!
//! The store keeps a bounded past (`store::limits::HISTORY_REVISIONS`); what is older answers 410.

mod rollback;

pub(crate) use rollback::rollback;

use crate::http::args::Args;
use crate::http::respond::Answer;
use crate::read::diff::{Sides, changes};
use crate::{Admin, AdminResponse};
use model::Kind;
use serde_json::{Value, json};
use store::limits::HISTORY_PAGE_MAX;
use store::{Entry, RevisionRecord, StoreError};

/// Revisions in an answer where the client does not say.
const LIMIT_DEFAULT: usize = 50;

/// The newest revisions, newest first, below `before`; `next` is the `before` of the next page.
pub(crate) async fn list(admin: &Admin, args: &Args) -> Answer {
    let number = |name: &str| match args.get(name) {
        None => Ok(None),
        Some(text) => text.parse::<u64>().map(Some).map_err(|_| {
            AdminResponse::error(400, format!("invalid argument {name}: should be a whole number"))
        }),
    };
    let limit = number("limit")?.map_or(LIMIT_DEFAULT, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let limit = limit.clamp(1, HISTORY_PAGE_MAX);
    let mut before = number("before")?;
    let mut shown: Vec<Value> = Vec::new();
    let mut more = true;
    while more && shown.len() < limit {
        let page = admin.store.history(before, limit).await?;
        more = page.len() == limit;
        for record in page {
            before = Some(record.revision);
            // Ids that were drawn, and keys of other programs, are no configuration.
            if record.keys.iter().any(|change| Kind::parse_key(&change.key).is_some()) {
                shown.push(summary(admin, &record));
            }
            if shown.len() == limit {
                more = true;
                break;
            }
        }
    }
    let next = if more { before } else { None };
    Ok(AdminResponse::json(200, &json!({ "list": shown, "next": next })))
}

/// What one revision changed.
pub(crate) async fn revision(admin: &Admin, revision: &str) -> Answer {
    let revision = number(revision)?;
    let record = admin.store.history(Some(revision.saturating_add(1)), 1).await?;
    let Some(record) = record.into_iter().next().filter(|record| record.revision == revision) else {
        // Of any key: whether what was before it is gone, or has not happened.
        value_at(admin, "/routes/none", revision.saturating_sub(1)).await?;
        return Err(AdminResponse::error(404, format!("there is no revision {revision}")));
    };
    let mut shown = Vec::new();
    for change in record.keys.iter().filter(|change| Kind::parse_key(&change.key).is_some()) {
        let before = value_at(admin, &change.key, revision.saturating_sub(1)).await?;
        let after = value_at(admin, &change.key, revision).await?;
        let sides = |entry: &Option<Entry>| entry.as_ref().map(|e| Sides::of(admin, &change.key, &e.value));
        let (before, after) = (sides(&before), sides(&after));
        shown.push(json!({
            "key": format!("{}{}", admin.settings.prefix, change.key),
            "action": action(before.is_some(), after.is_some()),
            "before": before.as_ref().map(Sides::masked),
            "after": after.as_ref().map(Sides::masked),
            "changes": changes(before.as_ref(), after.as_ref()),
        }));
    }
    let mut answer = summary(admin, &record);
    answer["changes"] = shown.into();
    if let Some(answer) = answer.as_object_mut() {
        answer.shift_remove("keys");
    }
    Ok(AdminResponse::json(200, &answer))
}

fn summary(admin: &Admin, record: &RevisionRecord) -> Value {
    let keys: Vec<Value> = record
        .keys
        .iter()
        .filter(|change| Kind::parse_key(&change.key).is_some())
        .map(|change| {
            let key = format!("{}{}", admin.settings.prefix, change.key);
            json!({ "key": key, "deleted": change.deleted })
        })
        .collect();
    json!({ "revision": record.revision, "time_ms": record.unix_ms, "actor": record.actor, "keys": keys })
}

fn action(before: bool, after: bool) -> &'static str {
    match (before, after) {
        (false, _) => "created",
        (true, true) => "updated",
        (true, false) => "deleted",
    }
}

fn number(revision: &str) -> Result<u64, AdminResponse> {
    revision.parse().map_err(|_| AdminResponse::error(400, format!("invalid revision: {revision}")))
}

/// The entry right after a revision.
async fn value_at(admin: &Admin, key: &str, revision: u64) -> Result<Option<Entry>, AdminResponse> {
    admin.store.value_at(key, revision).await.map_err(gone)
}

/// What is no longer kept is gone; what has not happened isn't there.
fn gone(error: StoreError) -> AdminResponse {
    match error {
        StoreError::Compacted { .. } => AdminResponse::error(410, error.to_string()),
        StoreError::Future { .. } => AdminResponse::error(404, error.to_string()),
        error => error.into(),
    }
}
