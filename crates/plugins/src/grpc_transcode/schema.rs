//! The JSON Schema of the configuration.

use model::schema::parts;
use serde_json::{Value, json};

pub(super) fn schema() -> Value {
    let one_of = |description: &str, values: &[&str]| json!({"description": description, "type": "string", "enum": values});
    let options = [
        one_of("how enums are shown", &["enum_as_name", "enum_as_value"]),
        one_of(
            "how integers of 64 bits are shown",
            &["int64_as_number", "int64_as_string", "int64_as_hexstring"],
        ),
        one_of(
            "which fields are shown that the answer leaves out",
            &["auto_default_values", "no_default_values", "use_default_values", "use_default_metatable"],
        ),
        one_of("accepted, of no effect", &["enable_hooks", "disable_hooks"]),
    ];
    json!({
        "type": "object",
        "properties": {
            "max_resp_body_size": parts::body_limit("bytes of an answer that are held; a longer one is answered with 502"),
            "proto_id": parts::id(),
            "service": {"description": "the service's name with its package", "type": "string"},
            "method": {"description": "the method's name", "type": "string"},
            "deadline": {"description": "milliseconds that the call may take; 0: no limit", "type": "number", "default": 0},
            "pb_option": {
                "type": "array",
                "items": {"type": "string", "anyOf": options},
                "minItems": 1,
                "default": ["enum_as_name", "int64_as_number", "auto_default_values", "disable_hooks"]
            },
            "show_status_in_body": {
                "description": "whether the body of a failed call is its status and details",
                "type": "boolean",
                "default": false
            },
            "status_detail_type": {
                "description": "the type of these details; undecoded where it is left out",
                "type": "string"
            }
        },
        "additionalProperties": true,
        "required": ["proto_id", "service", "method"]
    })
}
