//! What changed between two forms of a resource, by JSON pointer, without its secrets.

use crate::Admin;
use model::Kind;
use secrets::MASK;
use serde_json::{Map, Value, json};

/// Most differences that are listed of one resource; one with more is told by its first ones.
const CHANGES_MAX: usize = 200;

/// A resource in the form in which two are compared, and the form in which it may be seen.
#[derive(Debug, Clone)]
pub(crate) struct Sides {
    /// All in the clear.
    open: Value,
    /// Secrets masked.
    masked: Value,
}

impl Sides {
    /// Of the resource stored under `key`.
    pub(crate) fn of(admin: &Admin, key: &str, stored: &[u8]) -> Self {
        let Ok(fields) = serde_json::from_slice::<Map<String, Value>>(stored) else {
            let text = Value::from(String::from_utf8_lossy(stored));
            return Self { open: text.clone(), masked: text };
        };
        let (mut open, mut masked) = (fields.clone(), fields);
        admin.open(key, &mut open);
        admin.mask(key, &mut masked);
        Self { open: Value::Object(open), masked: Value::Object(masked) }
    }

    /// What may be seen.
    pub(crate) fn masked(&self) -> &Value {
        &self.masked
    }
}

/// The changes from one to the other: `{"op": "add" | "remove" | "replace", "path", "before", "after"}`. Times that
/// the Admin API sets are left out. A secret that changed is listed, with [`MASK`] on both sides.
pub(crate) fn changes(before: Option<&Sides>, after: Option<&Sides>) -> Vec<Value> {
    let empty = Sides { open: json!({}), masked: json!({}) };
    let (before, after) = (before.unwrap_or(&empty), after.unwrap_or(&empty));
    let mut found = Vec::new();
    compare(
        (Some(&before.open), Some(&before.masked)),
        (Some(&after.open), Some(&after.masked)),
        &mut String::new(),
        &mut found,
    );
    found.retain(|change| !matches!(change["path"].as_str(), Some("/create_time" | "/update_time")));
    found.truncate(CHANGES_MAX);
    found
}

type Side<'a> = (Option<&'a Value>, Option<&'a Value>);

/// Recursion is bounded by the JSON reader's depth.
fn compare(before: Side<'_>, after: Side<'_>, path: &mut String, found: &mut Vec<Value>) {
    if before.0 == after.0 {
        return;
    }
    match (before.0, after.0) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let added = new.keys().filter(|name| !old.contains_key(*name));
            for name in old.keys().chain(added) {
                descend(before, after, name, path, found);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for at in 0..old.len().max(new.len()) {
                descend(before, after, &at.to_string(), path, found);
            }
        }
        _ => found.push(change(before.1, after.1, path)),
    }
}

fn descend(before: Side<'_>, after: Side<'_>, name: &str, path: &mut String, found: &mut Vec<Value>) {
    let length = path.len();
    path.push('/');
    path.push_str(&name.replace('~', "~0").replace('/', "~1"));
    compare(
        (member(before.0, name), member(before.1, name)),
        (member(after.0, name), member(after.1, name)),
        path,
        found,
    );
    path.truncate(length);
}

fn member<'a>(value: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    match value? {
        Value::Object(fields) => fields.get(name),
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ => None,
    }
}

fn change(before: Option<&Value>, after: Option<&Value>, path: &str) -> Value {
    match (before, after) {
        (None, after) => json!({ "op": "add", "path": path, "after": after }),
        (before, None) => json!({ "op": "remove", "path": path, "before": before }),
        (before, after) => json!({ "op": "replace", "path": path, "before": before, "after": after }),
    }
}

impl Admin {
    /// Puts `***` in place of what is secret in the resource stored under `key`.
    pub(crate) fn mask(&self, key: &str, resource: &mut Map<String, Value>) {
        match (&self.sealing, Kind::parse_key(key)) {
            (Some(sealing), Some((kind, id))) => sealing.mask(kind, id, resource),
            (None, Some((Kind::Ssl, _))) => {
                for name in ["key", "keys"] {
                    if let Some(value) = resource.get_mut(name) {
                        *value = MASK.into();
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sides(open: Value, masked: Value) -> Sides {
        Sides { open, masked }
    }

    #[test]
    fn changes_have_their_places_and_no_secrets() {
        let before = sides(
            json!({"uri": "/a", "plugins": {"p/q": {"key": "old"}}, "hosts": ["a", "b"], "update_time": 1}),
            json!({"uri": "/a", "plugins": {"p/q": {"key": "***"}}, "hosts": ["a", "b"], "update_time": 1}),
        );
        let after = sides(
            json!({"uri": "/b", "plugins": {"p/q": {"key": "new"}}, "hosts": ["a"], "name": "n", "update_time": 2}),
            json!({"uri": "/b", "plugins": {"p/q": {"key": "***"}}, "hosts": ["a"], "name": "n", "update_time": 2}),
        );
        assert_eq!(
            changes(Some(&before), Some(&after)),
            [
                json!({"op": "replace", "path": "/uri", "before": "/a", "after": "/b"}),
                json!({"op": "replace", "path": "/plugins/p~1q/key", "before": "***", "after": "***"}),
                json!({"op": "remove", "path": "/hosts/1", "before": "b"}),
                json!({"op": "add", "path": "/name", "after": "n"}),
            ]
        );
        assert!(changes(Some(&before), Some(&before)).is_empty());
        assert_eq!(changes(None, Some(&before)).len(), 3, "every field is an addition");
    }
}
