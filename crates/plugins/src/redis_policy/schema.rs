//! The JSON Schemas of the policies, APISIX's in what they accept, refuse and fill in.

use serde_json::{Value, json};

/// `schema` with what the policies `redis` and `redis-cluster` need; `key_ttl` is a member that both have where it is
/// given.
pub(crate) fn with_policies(mut schema: Value, key_ttl: Option<&Value>) -> Value {
    let own = |mut needed: Value| {
        if let Some(key_ttl) = key_ttl {
            needed["properties"]["key_ttl"] = key_ttl.clone();
        }
        needed
    };
    schema["if"] = is("redis");
    schema["then"] = own(redis());
    schema["else"] = json!({"if": is("redis-cluster"), "then": own(redis_cluster())});
    schema
}

pub(crate) fn is(policy: &str) -> Value {
    json!({"properties": {"policy": {"enum": [policy]}}})
}

pub(crate) fn redis() -> Value {
    json!({
        "properties": {
            "redis_host": {"type": "string", "minLength": 2},
            "redis_port": {"type": "integer", "minimum": 1, "default": 6379},
            "redis_username": {"type": "string", "minLength": 1},
            "redis_password": {"type": "string", "minLength": 0},
            "redis_database": {"type": "integer", "minimum": 0, "default": 0},
            "redis_timeout": {"type": "integer", "minimum": 1, "default": 1000},
            "redis_ssl": {"type": "boolean", "default": false},
            "redis_ssl_verify": {"type": "boolean", "default": false},
            "redis_keepalive_timeout": {"type": "integer", "minimum": 1000, "default": 10000},
            "redis_keepalive_pool": {"type": "integer", "minimum": 1, "default": 100}
        },
        "required": ["redis_host"]
    })
}

pub(crate) fn redis_cluster() -> Value {
    json!({
        "properties": {
            "redis_cluster_nodes": {
                "type": "array", "minItems": 1, "items": {"type": "string", "minLength": 2, "maxLength": 100}
            },
            "redis_password": {"type": "string", "minLength": 0},
            "redis_timeout": {"type": "integer", "minimum": 1, "default": 1000},
            "redis_cluster_name": {"type": "string"},
            "redis_cluster_ssl": {"type": "boolean", "default": false},
            "redis_cluster_ssl_verify": {"type": "boolean", "default": false},
            "redis_keepalive_timeout": {"type": "integer", "minimum": 1000, "default": 10000},
            "redis_keepalive_pool": {"type": "integer", "minimum": 1, "default": 100}
        },
        "required": ["redis_cluster_nodes", "redis_cluster_name"]
    })
}

pub(crate) fn redis_sentinel() -> Value {
    json!({
        "properties": {
            "redis_sentinels": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "properties": {
                        "host": {"type": "string", "minLength": 2},
                        "port": {"type": "integer", "minimum": 1, "maximum": 65535}
                    },
                    "required": ["host", "port"],
                    "additionalProperties": false
                }
            },
            "redis_master_name": {"type": "string", "minLength": 1},
            "redis_role": {"type": "string", "enum": ["master", "slave"], "default": "master"},
            "redis_connect_timeout": {"type": "integer", "minimum": 1, "default": 1000},
            "redis_read_timeout": {"type": "integer", "minimum": 1, "default": 1000},
            "redis_keepalive_timeout": {"type": "integer", "minimum": 1, "default": 60000},
            "redis_database": {"type": "integer", "minimum": 0, "default": 0},
            "redis_username": {"type": "string", "minLength": 1},
            "redis_password": {"type": "string", "minLength": 0},
            "sentinel_username": {"type": "string", "minLength": 1},
            "sentinel_password": {"type": "string", "minLength": 0}
        },
        "required": ["redis_sentinels", "redis_master_name"]
    })
}
