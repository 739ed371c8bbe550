//! Schema of `static`: a folder whose files answer. Ours.

use serde_json::{Value, json};

/// The `static` object of a route or service.
pub(super) fn static_files() -> Value {
    let names = |least: u8| json!({ "type": "array", "items": { "type": "string", "minLength": 1 }, "minItems": least });
    let texts = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    let encodings = json!({
        "type": "array",
        "items": { "type": "string", "enum": ["br", "zstd", "gzip"] },
        "uniqueItems": true,
    });
    let level = |most: u8| json!({ "type": "integer", "minimum": 0, "maximum": most });
    json!({
        "description": "A folder whose files answer, instead of an upstream.",
        "type": "object",
        "properties": {
            "root": { "description": "An absolute path.", "type": "string", "minLength": 1, "maxLength": 4096 },
            "strip_prefix": { "type": "string", "maxLength": 4096 },
            "index": names(0),
            "try_files": names(0),
            "error_pages": texts,
            "autoindex": { "type": "boolean", "default": false },
            "expires": { "type": "string" },
            "cache_control": { "type": "string" },
            "types": texts,
            "default_type": { "type": "string", "default": "application/octet-stream" },
            "hidden": { "type": "boolean", "default": false },
            "symlinks": { "type": "string", "enum": ["within", "deny", "follow"], "default": "within" },
            "precompressed": encodings,
            "compress": {
                "type": "object",
                "properties": {
                    "encodings": encodings,
                    "types": names(0),
                    "min_length": { "type": "integer", "minimum": 0 },
                    "gzip_level": level(9),
                    "brotli_level": level(11),
                    "zstd_level": level(19),
                    "vary": { "type": "boolean" },
                },
            },
            "open_file_cache": {
                "type": "object",
                "properties": {
                    "max": { "type": "integer", "minimum": 0 },
                    "inactive": { "type": "number", "minimum": 0 },
                    "valid": { "type": "number", "minimum": 0 },
                },
            },
        },
        "required": ["root"],
    })
}
