//! The document and the versions of its collections (pure).

use model::Kind;
use serde_json::{Map, Value, json};

/// The header, and the document's field, that names a document.
pub(super) const DIGEST: &str = "X-Digest";

/// The header, and the document's field, that says when it was put, in seconds since 1970.
pub(super) const LAST_MODIFIED: &str = "X-Last-Modified";

/// Every collection with the name of its version. The list of plugins is one.
fn collections() -> impl Iterator<Item = (&'static str, String)> {
    let kinds = Kind::ALL.into_iter().filter(|kind| kind.parent().is_none()).map(Kind::collection);
    kinds.chain(["plugins"]).map(|name| (name, format!("{name}_conf_version")))
}

/// What there is before the first document.
pub(super) fn empty() -> Map<String, Value> {
    collections().map(|(_, version)| (version, json!(0))).collect()
}

/// Refuses versions that are no numbers.
pub(super) fn check_versions(asked: &Map<String, Value>) -> Result<(), String> {
    for (_, version) in collections() {
        if asked.get(&version).is_some_and(|value| !value.is_number()) {
            return Err(format!("{version} must be a number"));
        }
    }
    Ok(())
}

/// The document that follows `held` when `asked` is put: a collection whose version is the one held stays as it is.
pub(super) fn advance(
    held: Option<&Map<String, Value>>,
    mut asked: Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    let mut next = Map::new();
    for (name, version) in collections() {
        let before = held.and_then(|held| held.get(&version)).cloned().unwrap_or_else(|| json!(0));
        let number = |value: &Value| value.as_f64().unwrap_or_default();
        let now = match asked.get(&version) {
            Some(now) if number(now) < number(&before) => {
                return Err(format!("{version} must be greater than or equal to ({before})"));
            }
            Some(now) => now.clone(),
            None => before.as_u64().map_or_else(|| json!(number(&before) + 1.0), |before| json!(before + 1)),
        };
        let items = if number(&now) == number(&before) {
            held.and_then(|held| held.get(name)).cloned()
        } else {
            asked.remove(name).filter(|items| items.as_array().is_some_and(|items| !items.is_empty()))
        };
        next.insert(version, now);
        next.extend(items.map(|items| (name.to_owned(), items)));
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(map) => map,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn versions_rise_by_themselves_or_as_told_and_never_fall() {
        let first = advance(None, map(json!({ "routes": [{ "id": "1" }] }))).unwrap();
        assert_eq!((&first["routes_conf_version"], &first["upstreams_conf_version"]), (&json!(1), &json!(1)));
        let same = advance(Some(&first), map(json!({ "routes": [], "routes_conf_version": 1 }))).unwrap();
        assert_eq!(same["routes"], first["routes"], "the version it has: as it was");
        let told = advance(Some(&first), map(json!({ "routes_conf_version": 100 }))).unwrap();
        assert_eq!((told.get("routes"), &told["routes_conf_version"]), (None, &json!(100)));
        let refused = advance(Some(&told), map(json!({ "routes_conf_version": 5 }))).unwrap_err();
        assert_eq!(refused, "routes_conf_version must be greater than or equal to (100)");
        assert!(check_versions(&map(json!({ "routes_conf_version": "1" }))).is_err());
        assert_eq!(empty()["plugins_conf_version"], json!(0));
    }
}
