//! The JSON Schemas, equal to APISIX's in what they accept, refuse and fill in.

use crate::redis_policy::schema as redis_policy;
use serde_json::{Value, json};

/// The configuration's.
pub(super) fn config() -> Value {
    json!({
        "type": "object",
        "properties": {
            "count": described("Requests allowed per window; text with variables is read per request.", amount()),
            "time_window": described("The window's length in seconds; text as with `count`.", amount()),
            "window_type": {
                "description": "Windows that begin with a key's first request, or that slide with the clock.",
                "type": "string", "enum": ["fixed", "sliding"], "default": "fixed"
            },
            "rules": {
                "description": "Several limits instead of one; each applies where its key has a value.",
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "count": amount(),
                        "time_window": amount(),
                        "key": {"type": "string", "description": "Text with variables: `${http_company}`."},
                        "header_prefix": {"type": "string", "description": "prefix for rate limit headers"}
                    },
                    "required": ["count", "time_window", "key"]
                }
            },
            "group": {"type": "string", "description": "Equal configurations with one name share their counters."},
            "key": {
                "description": "What requests are counted by; the client's address where it has no value.",
                "type": "string", "default": "remote_addr"
            },
            "key_type": {
                "description": "Whether `key` is a variable's name, text with variables, or the key itself.",
                "type": "string", "enum": ["var", "var_combination", "constant"], "default": "var"
            },
            "rejected_code": {
                "description": "The status of the answer to requests beyond the limit.",
                "type": "integer", "minimum": 200, "maximum": 599, "default": 503
            },
            "rejected_msg": {"description": "Its `error_msg`.", "type": "string", "minLength": 1},
            "policy": {
                "description": "Where counters are kept: in the gateway, or in Redis for several gateways together.",
                "type": "string", "enum": ["local", "redis", "redis-cluster", "redis-sentinel"], "default": "local"
            },
            "allow_degradation": {
                "description": "Let requests pass that can't be counted.", "type": "boolean", "default": false
            },
            "show_limit_quota_header": {
                "description": "Tell clients in headers where they stand.", "type": "boolean", "default": true
            },
            "sync_interval": described(
                "Seconds between two exchanges with Redis, counting here in between; -1 asks it for each request.",
                json!({"type": "number", "default": -1})
            )
        },
        // APISIX's second branch is `rules` alone. Here both at once pass, so that compiling can say what is wrong with
        // that in APISIX's words.
        "oneOf": [
            {"required": ["count", "time_window"]},
            {"required": ["rules"], "not": {"required": ["count", "time_window"]}}
        ],
        "if": redis_policy::is("redis"),
        "then": redis_policy::redis(),
        "else": {
            "if": redis_policy::is("redis-cluster"),
            "then": redis_policy::redis_cluster(),
            "else": {"if": redis_policy::is("redis-sentinel"), "then": redis_policy::redis_sentinel()}
        },
        "encrypt_fields": ["redis_password", "sentinel_password"]
    })
}

/// The metadata's.
pub(super) fn metadata() -> Value {
    // Stricter than APISIX, whose any string could end a response's head.
    let name = |default: &str| json!({"type": "string", "pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$", "default": default});
    json!({
        "type": "object",
        "properties": {
            "limit_header": name("X-RateLimit-Limit"),
            "remaining_header": name("X-RateLimit-Remaining"),
            "reset_header": name("X-RateLimit-Reset")
        }
    })
}

fn amount() -> Value {
    json!({"oneOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "string"}]})
}

fn described(description: &str, mut schema: Value) -> Value {
    schema["description"] = Value::from(description);
    schema
}
