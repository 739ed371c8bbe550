//! The shapes of answers, in both versions.
//!
//! v3 shows what v2 wraps: `{"key", "value"}` instead of `{"action", "node": {"key", "value"}}`. As in APISIX a single
//! read shows the indexes in v3 alone, a list shows them in both, and a write in neither.

use crate::{Admin, ApiVersion};
use serde_json::{Map, Value, json};
use store::Entry;

/// A stored resource, read.
#[derive(Debug)]
pub(crate) struct Item {
    /// The key without the prefix.
    pub key: String,
    /// The resource.
    pub value: Value,
    /// The revision that created it.
    pub created: u64,
    /// The revision that wrote it last.
    pub modified: u64,
}

impl From<Entry> for Item {
    fn from(entry: Entry) -> Self {
        // Only another program can have written something else than JSON; it is shown as the text it is.
        let value = serde_json::from_slice(&entry.value)
            .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&entry.value)));
        let Entry { key, create_revision, mod_revision, .. } = entry;
        Self { key: key.to_string(), value, created: create_revision, modified: mod_revision }
    }
}

/// One resource, read.
pub(crate) fn one(admin: &Admin, item: Item) -> Value {
    match admin.settings.version {
        ApiVersion::V3 => node(admin, item),
        ApiVersion::V2 => {
            let node = [("key", shown(admin, &item.key).into()), ("value", item.value)];
            object([("action", "get".into()), ("node", object(node))])
        }
    }
}

/// The collection at `key`, read: the resources to show, and how many there are in all.
pub(crate) fn several(admin: &Admin, key: &str, items: Vec<Item>, total: usize) -> Value {
    let list: Vec<Value> = items.into_iter().map(|item| node(admin, item)).collect();
    match admin.settings.version {
        ApiVersion::V3 => object([("total", total.into()), ("list", list.into())]),
        ApiVersion::V2 => {
            let key = shown(admin, key);
            let node = object([("key", key.into()), ("dir", true.into()), ("nodes", list.into())]);
            object([("action", "get".into()), ("node", node)])
        }
    }
}

/// A resource that was written; `action` as v2 names it.
pub(crate) fn written(admin: &Admin, action: &str, key: &str, value: Map<String, Value>) -> Value {
    let node = object([("key", shown(admin, key).into()), ("value", Value::Object(value))]);
    match admin.settings.version {
        ApiVersion::V3 => node,
        ApiVersion::V2 => object([("action", action.into()), ("node", node)]),
    }
}

/// A resource that was deleted. The number is a string, as APISIX once mistook it.
pub(crate) fn deleted(admin: &Admin, key: &str) -> Value {
    let key = shown(admin, key);
    match admin.settings.version {
        ApiVersion::V3 => json!({ "key": key, "deleted": "1" }),
        ApiVersion::V2 => json!({ "action": "delete", "key": key, "deleted": "1", "node": {} }),
    }
}

fn node(admin: &Admin, item: Item) -> Value {
    object([
        ("key", shown(admin, &item.key).into()),
        ("value", item.value),
        ("createdIndex", item.created.into()),
        ("modifiedIndex", item.modified.into()),
    ])
}

/// An object of values that are moved into it; `json!` would copy them.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn shown(admin: &Admin, key: &str) -> String {
    format!("{}{key}", admin.settings.prefix)
}
