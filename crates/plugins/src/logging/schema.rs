//! The JSON Schemas, equal to APISIX's in what they accept, refuse and fill in.

use serde_json::{Map, Value, json};

/// The configuration of a logger that adds `own`, whose `entries` describe requests or not; `name` is the default name of its batches, where it has such.
pub(super) fn config(own: Value, entries: bool, name: Option<&str>) -> Value {
    let mut shared = if entries { entry() } else { Map::new() };
    if let Some(name) = name {
        shared.append(&mut batches(name));
    }
    with(own, shared)
}

/// The metadata of a logger.
pub(super) fn metadata(own: Value, entries: bool, pending_default: Option<usize>) -> Value {
    let formats = json!({
        "log_format": {"type": "object", "description": "What an entry is made of, in place of the default entry."},
        "log_format_extra": {"type": "object", "description": "What the default entry has besides."}
    });
    let mut shared = if entries { object(formats) } else { Map::new() };
    if let Some(default) = pending_default {
        let pending = json!({
            "description": "Entries that may wait; those that come while there are as many are dropped.",
            "type": "integer", "minimum": 1, "default": default
        });
        shared.insert("max_pending_entries".to_owned(), pending);
    }
    with(json!({"type": "object", "properties": object(own)}), shared)
}

/// What an entry is made of.
fn entry() -> Map<String, Value> {
    let conditions = json!({"type": "array", "minItems": 1, "items": {"type": "array"}});
    let bytes = |description: &str| json!({"description": description, "type": "integer", "minimum": 1, "default": 524_288});
    object(json!({
        "log_format": {
            "description": "What an entry is made of, in place of the default entry: members with `$variable` or text.",
            "type": "object"
        },
        "log_format_extra": {
            "description": "What the default entry has besides.", "type": "object"
        },
        "include_req_body": {
            "description": "Whether entries have the request's body.", "type": "boolean", "default": false
        },
        "include_req_body_expr": conditions,
        "include_resp_body": {
            "description": "Whether entries have the response's body.", "type": "boolean", "default": false
        },
        "include_resp_body_expr": conditions,
        "max_req_body_bytes": bytes("Bytes of a request's body that an entry may have."),
        "max_resp_body_bytes": bytes("Bytes of a response's body that an entry may have.")
    }))
}

/// How entries are gathered.
fn batches(name: &str) -> Map<String, Value> {
    let seconds = |description: &str, minimum: u64, default: u64| json!({"description": description, "type": "integer", "minimum": minimum, "default": default});
    object(json!({
        "name": {"description": "What the error log calls it.", "type": "string", "default": name},
        "max_retry_count": {
            "description": "Further tries to send a batch.", "type": "integer", "minimum": 0, "default": 0
        },
        "retry_delay": seconds("Seconds before each of them.", 0, 1),
        "buffer_duration": seconds("Seconds after which a batch is sent, counted from its first entry.", 1, 60),
        "inactive_timeout": seconds("Seconds without another entry after which it is sent.", 1, 5),
        "batch_max_size": {
            "description": "Entries with which it is sent.", "type": "integer", "minimum": 1, "default": 1000
        }
    }))
}

/// `schema` with further properties, but for those that it has itself.
fn with(mut schema: Value, properties: Map<String, Value>) -> Value {
    if let Some(own) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, property) in properties {
            own.entry(name).or_insert(property);
        }
    }
    schema
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
