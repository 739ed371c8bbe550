//! Ids: in the path, in the body, or in both and then equal; and the fields that the Admin API alone sets.

use crate::AdminResponse;
use crate::http::target::Target;
use model::Kind;
use serde_json::{Map, Value};

/// The resource that a body is: an object. An empty array is one too, since Lua's JSON libraries write it so.
pub(crate) fn resource(body: Option<Value>) -> Result<Map<String, Value>, AdminResponse> {
    match body {
        None => Err(AdminResponse::error(400, "missing configurations")),
        Some(Value::Object(fields)) => Ok(fields),
        Some(Value::Array(items)) if items.is_empty() => Ok(Map::new()),
        Some(other) => {
            let found = match other {
                Value::Null => "null",
                Value::Bool(_) => "boolean",
                Value::Number(_) => "number",
                Value::String(_) => "string",
                Value::Array(_) | Value::Object(_) => "array",
            };
            let message = format!("invalid configuration: wrong type: expected object, got {found}");
            Err(AdminResponse::error(400, message))
        }
    }
}

/// The id to write under, from the path or the body; written into the body, of a secret with its manager. A consumer's
/// is its name, which is in the body alone.
pub(crate) fn needed(
    target: &Target<'_>,
    resource: &mut Map<String, Value>,
) -> Result<String, AdminResponse> {
    let Target { kind, id, .. } = *target;
    let noun = kind.noun();
    if kind == Kind::PluginMetadata {
        return id.map(str::to_owned).ok_or_else(|| AdminResponse::error(400, "missing plugin name"));
    }
    if kind == Kind::Consumer {
        // What is no name is refused by the schema.
        let name = resource.get("username").and_then(Value::as_str);
        return Ok(name.or(id).unwrap_or_default().to_owned());
    }
    let own = resource.get("id").filter(|id| **id != Value::Bool(false)).map(text_of);
    let whole = |id: &str| if kind == Kind::Secret { target.whole_id(id) } else { id.to_owned() };
    match (id, own) {
        (None, Some(own)) if kind != Kind::Secret => Ok(own),
        (None, _) => Err(target.without_id()),
        (Some(id), Some(own)) if own != whole(id) => {
            Err(AdminResponse::error(400, format!("wrong {noun} id")))
        }
        (Some(id), _) => {
            resource.insert("id".to_owned(), Value::from(whole(id)));
            Ok(id.to_owned())
        }
    }
}

/// Refuses an id where one will be generated.
pub(crate) fn unneeded(target: &Target<'_>, resource: &Map<String, Value>) -> Result<(), AdminResponse> {
    if target.id.is_some() || resource.get("id").is_some_and(|id| *id != Value::Bool(false)) {
        let message = format!("wrong {} id, do not need it", target.kind.noun());
        return Err(AdminResponse::error(400, message));
    }
    Ok(())
}

/// Refuses times, which the Admin API sets itself. A PATCH may have them, since what it changes has them.
pub(crate) fn forbid_times(resource: &Map<String, Value>) -> Result<(), AdminResponse> {
    const TIMES: [&str; 2] = ["create_time", "update_time"];
    let holds = |fields: &Value, name: &str| fields.get(name).is_some_and(|time| *time != Value::Bool(false));
    // Two spaces, as in APISIX.
    let refuse = |place: String| AdminResponse::error(400, format!("the property is forbidden:  {place}"));
    for name in TIMES {
        if resource.get(name).is_some_and(|time| *time != Value::Bool(false)) {
            return Err(refuse(name.to_owned()));
        }
    }
    for part in ["upstream", "plugins"] {
        for name in TIMES {
            if resource.get(part).is_some_and(|fields| holds(fields, name)) {
                return Err(refuse(format!("{part}.{name}")));
            }
        }
    }
    Ok(())
}

/// An id as keys and messages write it: `1` and `"1"` are the same.
pub(crate) fn text_of(id: &Value) -> String {
    // Every number is a double in Lua, which writes whole ones without a fraction; 2^53 bounds what a double counts.
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    match id {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(whole) if number.is_f64() && whole.fract() == 0.0 && whole.abs() <= WHOLE_MAX => {
                format!("{whole:.0}")
            }
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn words(refusal: &AdminResponse) -> String {
        let body: Value = serde_json::from_slice(&refusal.body).unwrap();
        body["error_msg"].as_str().unwrap().to_owned()
    }

    #[test]
    fn ids_meet_in_one_form() {
        for (path, body, expected) in [
            (Some("1"), json!({}), Ok(("1", json!("1")))),
            (Some("1"), json!({"id": 1}), Ok(("1", json!("1")))),
            (Some("1"), json!({"id": 1.0}), Ok(("1", json!("1")))),
            (None, json!({"id": 1}), Ok(("1", json!(1)))),
            (None, json!({"id": "a"}), Ok(("a", json!("a")))),
            (Some("1"), json!({"id": "2"}), Err("wrong global rule id")),
            (Some("1"), json!({"id": null}), Err("wrong global rule id")),
            (None, json!({}), Err("missing global rule id")),
        ] {
            let mut fields = body.as_object().unwrap().clone();
            let target = Target { kind: Kind::GlobalRule, parent: None, id: path, sub_path: &[] };
            let found = needed(&target, &mut fields);
            match expected {
                Ok((id, written)) => {
                    assert_eq!(found.unwrap(), id, "{body}");
                    assert_eq!(fields["id"], written, "{body}");
                }
                Err(expected) => assert_eq!(words(&found.unwrap_err()), expected, "{body}"),
            }
        }
    }

    #[test]
    fn times_are_forbidden_where_apisix_forbids_them() {
        for (body, expected) in [
            (json!({"update_time": 1}), "the property is forbidden:  update_time"),
            (json!({"upstream": {"create_time": 1}}), "the property is forbidden:  upstream.create_time"),
            (json!({"plugins": {"create_time": {}}}), "the property is forbidden:  plugins.create_time"),
        ] {
            let refusal = forbid_times(body.as_object().unwrap()).unwrap_err();
            assert_eq!(words(&refusal), expected);
        }
        assert_eq!(forbid_times(json!({"upstream": 5, "plugins": []}).as_object().unwrap()), Ok(()));
    }

    #[test]
    fn a_resource_is_an_object() {
        assert_eq!(words(&resource(None).unwrap_err()), "missing configurations");
        assert_eq!(resource(Some(json!([]))), Ok(Map::new()));
        for (body, found) in [(json!([1]), "array"), (json!("x"), "string"), (json!(null), "null")] {
            let expected = format!("invalid configuration: wrong type: expected object, got {found}");
            assert_eq!(words(&resource(Some(body)).unwrap_err()), expected);
        }
    }
}
