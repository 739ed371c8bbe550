//! What the store has, by key and by kind.

use crate::Admin;
use model::Kind;
use store::{Entry, StoreError};

/// One entry. What can be no key is no entry either, rather than a mistake.
pub(crate) async fn entry(admin: &Admin, key: &str) -> Result<Option<Entry>, StoreError> {
    match admin.store.get(key).await {
        Err(StoreError::Invalid(_)) => Ok(None),
        found => found,
    }
}

/// The entries of one kind, all of them or those below `parent`; without those below them.
pub(crate) async fn entries(
    admin: &Admin,
    kind: Kind,
    parent: Option<&str>,
) -> Result<Vec<Entry>, StoreError> {
    let prefix = match parent {
        Some(manager) if kind == Kind::Secret => kind.key(&format!("{manager}/")),
        Some(parent) => kind.key(&kind.id_below(parent, "")),
        None => kind.key(""),
    };
    let mut entries = admin.store.list(&prefix).await?.entries;
    entries.retain(|entry| Kind::parse_key(&entry.key).is_some_and(|(found, _)| found == kind));
    Ok(entries)
}
