//! What PATCH does to a resource: merges a partial one into it, or sets the value at a path.

use serde_json::{Map, Value};

/// Merges `patch` into `target`: `null` removes, objects are merged, the rest replaces. As in APISIX an empty object
/// counts as an empty array, and so replaces, or is replaced, whole. Recursion is bounded by the JSON reader's depth.
pub(crate) fn merge(target: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (name, new) in patch {
        match (target.get_mut(&name), new) {
            (_, Value::Null) => {
                target.shift_remove(&name);
            }
            (Some(Value::Object(old)), Value::Object(new)) if !old.is_empty() && !new.is_empty() => {
                merge(old, new);
            }
            (_, new) => {
                target.insert(name, new);
            }
        }
    }
}

/// Sets the value at `path`, which holds at least one name; objects that are missing on the way are made.
///
/// # Errors
/// The part of the path that leads through something else than an object. APISIX would turn an array on the way into
/// an object with that name besides its items.
pub(crate) fn set(target: &mut Map<String, Value>, path: &[&str], new: Value) -> Result<(), String> {
    let [parents @ .., last] = path else { return Err("/".to_owned()) };
    let mut fields = target;
    for (depth, name) in parents.iter().enumerate() {
        let place = fields.entry(*name).or_insert_with(|| Value::Object(Map::new()));
        if place.as_array().is_some_and(Vec::is_empty) {
            *place = Value::Object(Map::new());
        }
        let Value::Object(inner) = place else { return Err(format!("/{}", path[..=depth].join("/"))) };
        fields = inner;
    }
    fields.insert((*last).to_owned(), new);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn merging_is_apisix_s() {
        for (target, patch, expected) in [
            (json!({"a": 1, "b": 2}), json!({"a": null, "c": 3}), json!({"b": 2, "c": 3})),
            (json!({"n": {"x": 1}}), json!({"n": {"y": 2}}), json!({"n": {"x": 1, "y": 2}})),
            (json!({"n": {"x": 1, "y": 2}}), json!({"n": {"x": null}}), json!({"n": {"y": 2}})),
            (json!({"n": {"x": 1}}), json!({"n": {}}), json!({"n": {}})),
            (json!({"n": {"x": 1}}), json!({"n": [1]}), json!({"n": [1]})),
            (json!({"n": [1, 2]}), json!({"n": {"x": 1}}), json!({"n": {"x": 1}})),
            (json!({"n": "s"}), json!({"n": {"x": null}}), json!({"n": {"x": null}})),
            (json!({}), json!({"a": {"b": {"c": 1}}}), json!({"a": {"b": {"c": 1}}})),
        ] {
            let mut merged = object(&target);
            merge(&mut merged, object(&patch));
            assert_eq!(Value::Object(merged), expected, "{target} + {patch}");
        }
    }

    #[test]
    fn order_survives_a_removal() {
        let mut target = object(&json!({"a": 1, "b": 2, "c": 3, "d": 4}));
        merge(&mut target, object(&json!({"b": null})));
        assert_eq!(target.keys().collect::<Vec<_>>(), ["a", "c", "d"]);
    }

    #[test]
    fn a_path_leads_through_objects() {
        let target = json!({"upstream": {"nodes": {"a:1": 1}}, "uris": ["/a"], "desc": "x", "plugins": []});
        for (path, new, expected) in [
            ("upstream/nodes", json!({"b:2": 2}), Ok("/upstream/nodes/b:2")),
            ("desc", json!("y"), Ok("/desc")),
            ("a/b/c", json!(1), Ok("/a/b/c")),
            ("plugins/p", json!({"k": 1}), Ok("/plugins/p/k")),
            ("desc/more", json!(1), Err("/desc")),
            ("uris/0", json!("/b"), Err("/uris")),
            ("upstream/nodes/a:1/x/y", json!(1), Err("/upstream/nodes/a:1")),
        ] {
            let mut fields = object(&target);
            let path: Vec<&str> = path.split('/').collect();
            let result = set(&mut fields, &path, new);
            match expected {
                Ok(place) => {
                    assert_eq!(result, Ok(()));
                    assert!(Value::Object(fields).pointer(place).is_some(), "{place}");
                }
                Err(place) => assert_eq!(result, Err(place.to_owned())),
            }
        }
    }
}
