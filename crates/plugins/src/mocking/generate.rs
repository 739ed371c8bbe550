//! Random data in the form of a JSON schema.

use serde_json::{Map, Value};

/// An object with the `properties` of `schema`. `below` draws a number below its argument.
pub(super) fn object(schema: &Value, below: &mut dyn FnMut(u32) -> u32) -> Value {
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let members = properties.filter_map(|(name, schema)| Some((name.clone(), value(schema, below)?)));
    Value::Object(members.collect::<Map<_, _>>())
}

/// A value of the schema's `type`, its `example` where that has the type. Recursion ends where the configuration's
/// nesting does, which the schema check bounds.
fn value(schema: &Value, below: &mut dyn FnMut(u32) -> u32) -> Option<Value> {
    let example = schema.get("example");
    Some(match &*schema.get("type")?.as_str()?.to_ascii_lowercase() {
        "object" => object(schema, below),
        "array" => {
            let items = schema.get("items")?;
            let length = 1 + below(3);
            Value::Array((0..length).filter_map(|_| value(items, below)).collect())
        }
        "string" => match example {
            Some(Value::String(example)) => Value::from(example.as_str()),
            _ => {
                let length = 1 + below(10);
                Value::from((0..length).map(|_| char::from(b'a' + below(26) as u8)).collect::<String>())
            }
        },
        "number" => match example {
            Some(Value::Number(example)) => Value::Number(example.clone()),
            _ => Value::from(f64::from(below(u32::MAX)) / f64::from(u32::MAX) * 10_000.0),
        },
        "integer" => match example.and_then(Value::as_f64) {
            // Saturates where the example is out of range.
            Some(example) => Value::from(example.floor() as i64),
            None => Value::from(1 + below(10_000)),
        },
        "boolean" => match example {
            Some(Value::Bool(example)) => Value::Bool(*example),
            _ => Value::Bool(below(2) == 1),
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn examples_are_taken_and_the_rest_is_drawn() {
        let schema = json!({"properties": {
            "s": {"type": "string", "example": "x"}, "n": {"type": "number", "example": 5.5},
            "i": {"type": "integer", "example": 4.7}, "b": {"type": "boolean", "example": true},
            "wrong": {"type": "integer", "example": "x"}, "drawn": {"type": "String"},
            "o": {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "number"}}}},
            "empty": {"type": "object"}, "none": {"type": "array"}, "untyped": {}
        }});
        let got = object(&schema, &mut |_| 1);
        let drawn = 1.0 / f64::from(u32::MAX) * 10_000.0;
        let expected = json!({
            "s": "x", "n": 5.5, "i": 4, "b": true, "wrong": 2, "drawn": "bb",
            "o": {"a": [drawn, drawn]}, "empty": {}
        });
        assert_eq!(got, expected);
    }
}
