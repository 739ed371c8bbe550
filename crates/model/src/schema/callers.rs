//! Schemas of consumers, their credentials and their groups.

use super::parts::{description, id, labels, metadata, name, plugins, resource, timestamp, with};
use serde_json::{Value, json};

/// A consumer. Its id is its name.
pub(super) fn consumer() -> Value {
    let metadata = json!({
        "id": id(),
        "username": {
            "type": "string",
            "minLength": 1,
            "maxLength": 256,
            "pattern": r"^[a-zA-Z0-9_\-]+$",
        },
        "desc": description(),
        "labels": labels(),
        "create_time": timestamp(),
        "update_time": timestamp(),
    });
    let consumer = resource(metadata, json!({ "group_id": id(), "plugins": plugins() }));
    with(consumer, json!({ "required": ["username"] }))
}

/// A credential. In whole configurations its id names the consumer too.
pub(super) fn credential() -> Value {
    let metadata = json!({
        "id": {
            "oneOf": [
                id(),
                {
                    "type": "string",
                    "minLength": 15,
                    "maxLength": 128,
                    "pattern": "^[a-zA-Z0-9-_]+/credentials/[a-zA-Z0-9-_.]+$",
                    "not": { "pattern": r"/\.{1,2}$" },
                },
            ]
        },
        "name": name(),
        "desc": description(),
        "labels": labels(),
        "create_time": timestamp(),
        "update_time": timestamp(),
    });
    resource(metadata, json!({ "plugins": { "type": "object", "maxProperties": 1 } }))
}

/// A consumer group.
pub(super) fn consumer_group() -> Value {
    let group = resource(metadata(), json!({ "plugins": plugins() }));
    with(group, json!({ "required": ["id", "plugins"] }))
}
