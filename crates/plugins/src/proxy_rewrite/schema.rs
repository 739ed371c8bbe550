//! The schema, APISIX's.

use serde_json::{Value, json};

const METHODS: [&str; 14] = [
    "GET", "POST", "PUT", "HEAD", "DELETE", "OPTIONS", "MKCOL", "COPY", "MOVE", "PROPFIND", "LOCK", "UNLOCK",
    "PATCH", "TRACE",
];

/// The schema of a configuration.
pub(super) fn config() -> Value {
    let scalar = json!([{"type": "string"}, {"type": "number"}]);
    let values = json!({
        "oneOf": [
            {"type": "string"},
            {"type": "number"},
            {"type": "array", "minItems": 1, "items": {"oneOf": scalar}}
        ]
    });
    let fields = json!({"type": "object", "minProperties": 1, "patternProperties": {"^[^:]+$": values}});
    json!({
        "type": "object",
        "properties": {
            "uri": {
                "description": "new uri for upstream",
                "type": "string",
                "minLength": 1,
                "maxLength": 4096,
                "pattern": "^\\/.*"
            },
            "method": {
                "description": "proxy route method",
                "type": "string",
                "enum": METHODS
            },
            "regex_uri": {
                "description": "new uri that substitute from client uri for upstream, lower priority than uri property",
                "type": "array",
                "minItems": 2,
                "items": {"description": "regex uri", "type": "string"}
            },
            "host": {
                "description": "new host for upstream",
                "type": "string",
                "pattern": "^[0-9a-zA-Z-.]+(:\\d{1,5})?$"
            },
            "headers": {
                "description": "new headers for request",
                "oneOf": [
                    {
                        "type": "object",
                        "minProperties": 1,
                        "additionalProperties": false,
                        "properties": {
                            "add": fields,
                            "set": fields,
                            "remove": {
                                "type": "array",
                                "minItems": 1,
                                "items": {"type": "string", "pattern": "^[^:]+$"}
                            }
                        }
                    },
                    {
                        "type": "object",
                        "minProperties": 1,
                        "patternProperties": {"^[^:]+$": {"oneOf": scalar}}
                    }
                ]
            },
            "use_real_request_uri_unsafe": {
                "description": "use real_request_uri instead, THIS IS VERY UNSAFE.",
                "type": "boolean",
                "default": false
            }
        },
        "minProperties": 1
    })
}
