//! The texts that a path of `encrypt_fields` names in a plugin's configuration.

use serde_json::Value;

/// Calls `change` for each text that `path` names in `config`, and puts what it returns in the text's place. A path is
/// names with dots between them; lists on the way are gone through, and where it ends in a list or an object, the texts
/// of that are meant. Other values, and fields that aren't there, are left alone.
pub(crate) fn change(config: &mut Value, path: &str, change: &mut dyn FnMut(&str) -> Option<String>) {
    match (path.split_once('.'), config) {
        (None, Value::Object(fields)) => {
            if let Some(value) = fields.get_mut(path) {
                leaf(value, change);
            }
        }
        (Some((name, rest)), Value::Object(fields)) => match fields.get_mut(name) {
            Some(Value::Array(items)) => items.iter_mut().for_each(|item| self::change(item, rest, change)),
            Some(value) => self::change(value, rest, change),
            None => {}
        },
        _ => {}
    }
}

fn leaf(value: &mut Value, change: &mut dyn FnMut(&str) -> Option<String>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| text(item, change)),
        Value::Object(fields) => fields.values_mut().for_each(|field| text(field, change)),
        value => text(value, change),
    }
}

/// The same for one value that may be a text.
pub(crate) fn text(value: &mut Value, change: &mut dyn FnMut(&str) -> Option<String>) {
    if let Value::String(text) = value
        && let Some(changed) = change(text)
    {
        *text = changed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_cross_lists_and_end_in_lists_and_objects() {
        for (path, config, expected) in [
            ("key", json!({"key": "a", "other": "b"}), json!({"key": "A", "other": "b"})),
            ("auth.password", json!({"auth": {"password": "a"}}), json!({"auth": {"password": "A"}})),
            ("a.b.c", json!({"a": [{"b": {"c": "x"}}, {}, 1]}), json!({"a": [{"b": {"c": "X"}}, {}, 1]})),
            ("keys", json!({"keys": ["a", 1, ["b"]]}), json!({"keys": ["A", 1, ["b"]]})),
            (
                "headers",
                json!({"headers": {"n": "a", "m": {"o": "b"}}}),
                json!({"headers": {"n": "A", "m": {"o": "b"}}}),
            ),
            ("missing.x", json!({"key": "a"}), json!({"key": "a"})),
            ("key.x", json!({"key": "a"}), json!({"key": "a"})),
            ("key", json!(["a"]), json!(["a"])),
        ] {
            let mut changed = config;
            change(&mut changed, path, &mut |text| Some(text.to_uppercase()));
            assert_eq!(changed, expected, "{path}");
        }
    }
}
