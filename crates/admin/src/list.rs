//! `GET`: one resource, or a collection.

use crate::dispatch::Call;
use crate::respond::Answer;
use crate::shape::{self, Item};
use crate::{Admin, AdminResponse, ApiVersion, paging};
use model::Kind;
use store::{Entry, StoreError};

pub(crate) async fn get(admin: &Admin, call: &Call<'_>) -> Answer {
    let Some(id) = call.id else { return collection(admin, call).await };
    match entry(admin, &call.kind.key(id)).await? {
        Some(entry) => Ok(AdminResponse::json(200, &shape::one(admin, entry.into()))),
        None => Err(AdminResponse::key_not_found()),
    }
}

/// One entry. What can be no key is no entry either, rather than a mistake.
pub(crate) async fn entry(admin: &Admin, key: &str) -> Result<Option<Entry>, StoreError> {
    match admin.store.get(key).await {
        Err(StoreError::Invalid(_)) => Ok(None),
        found => found,
    }
}

/// The entries of one kind, without what APISIX keeps below a resource (`/services/1/...`).
pub(crate) async fn entries(admin: &Admin, kind: Kind) -> Result<Vec<Entry>, StoreError> {
    let prefix = kind.key("");
    let mut entries = admin.store.list(&prefix).await?.entries;
    entries.retain(|entry| {
        entry.key.strip_prefix(&*prefix).is_some_and(|id| !id.is_empty() && !id.contains('/'))
    });
    Ok(entries)
}

async fn collection(admin: &Admin, call: &Call<'_>) -> Answer {
    let mut items: Vec<Item> = entries(admin, call.kind).await?.into_iter().map(Item::from).collect();
    let mut total = items.len();
    if admin.settings.version == ApiVersion::V3 {
        paging::filter(&mut items, call.args, call.kind);
        total = items.len();
        paging::page(&mut items, call.args)?;
    }
    Ok(AdminResponse::json(200, &shape::several(admin, call.kind.collection(), items, total)))
}
