//! APISIX's schema.

use model::schema::parts;
use serde_json::{Value, json};

pub(super) fn schema() -> Value {
    let value = json!({"type": "string", "pattern": "(^[^\\$].+$|^\\$[0-9a-zA-Z_]+$)"});
    json!({
        "type": "object",
        "properties": {
            "max_resp_body_size": parts::body_limit("bytes of the longest body that is kept; longer ones pass"),
            "cache_zone": {"type": "string", "minLength": 1, "maxLength": 100, "default": "disk_cache_one"},
            "cache_strategy": {"type": "string", "enum": ["disk", "memory"], "default": "disk"},
            "cache_key": {
                "type": "array",
                "minItems": 1,
                "items": value,
                "default": ["$host", "$request_uri"]
            },
            "cache_http_status": {
                "type": "array",
                "minItems": 1,
                "items": {"type": "integer", "minimum": 200, "maximum": 599},
                "uniqueItems": true,
                "default": [200, 301, 404]
            },
            "cache_method": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "description": "supported http method",
                    "type": "string",
                    "enum": ["GET", "POST", "HEAD"]
                },
                "uniqueItems": true,
                "default": ["GET", "HEAD"]
            },
            "hide_cache_headers": {"type": "boolean", "default": false},
            "cache_control": {
                "type": "boolean",
                "default": false,
                "description": "in memory: Cache-Control of requests counts, and responses live as long as they say"
            },
            "cache_bypass": {"type": "array", "minItems": 1, "items": value},
            "no_cache": {"type": "array", "minItems": 1, "items": value},
            "cache_ttl": {
                "type": "integer",
                "minimum": 1,
                "default": 300,
                "description": "seconds that a response in memory is fresh"
            },
            "consumer_isolation": {
                "type": "boolean",
                "default": true,
                "description": "what one consumer got is not given to another"
            },
            "cache_set_cookie": {
                "type": "boolean",
                "default": false,
                "description": "in memory: responses that set cookies are kept"
            }
        }
    })
}
