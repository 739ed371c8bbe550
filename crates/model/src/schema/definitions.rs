//! Schemas of what plugins refer to: protobuf definitions and the costs of GraphQL fields.

use super::parts::{id, metadata, name, resource, with};
use serde_json::{Value, json};

/// A protobuf definition.
pub(super) fn proto() -> Value {
    let content = json!({ "content": { "type": "string", "minLength": 1, "maxLength": 1_048_576 } });
    with(resource(metadata(), content), json!({ "required": ["content"] }))
}

/// What a position of a GraphQL schema costs.
pub(super) fn graphql_cost() -> Value {
    let factor = |description: &str| json!({ "type": "number", "minimum": 0, "default": 1, "description": description });
    let arguments = json!({ "type": "array", "items": { "type": "string", "minLength": 1 } });
    let fields = json!({
        "service_id": id(),
        "field_path": {
            "type": "string",
            "pattern": r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$",
            "description": "The position: a type, a field of a type, or a longer chain of fields.",
        },
        "add_value": factor("The field's own cost."),
        "add_arguments": arguments,
        "mul_value": factor("Multiplies the cost of what is selected below the field."),
        "mul_arguments": arguments,
        "name": name(),
    });
    with(resource(metadata(), fields), json!({ "required": ["field_path"] }))
}
