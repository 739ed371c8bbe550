//! Schemas of the fields that several resources have.

use serde_json::{Value, json};

/// Adds `fields`, an object, to the object `schema`.
pub(super) fn with(mut schema: Value, fields: Value) -> Value {
    if let (Value::Object(schema), Value::Object(fields)) = (&mut schema, fields) {
        schema.extend(fields);
    }
    schema
}

/// A resource: `metadata` and `fields` are all it may have.
pub(super) fn resource(metadata: Value, fields: Value) -> Value {
    json!({ "type": "object", "properties": with(metadata, fields), "additionalProperties": false })
}

/// What every resource may have besides its own fields.
pub(super) fn metadata() -> Value {
    json!({
        "id": id(),
        "name": name(),
        "desc": description(),
        "labels": labels(),
        "create_time": timestamp(),
        "update_time": timestamp(),
    })
}

/// A resource's id, a string or a number. Unlike in APISIX, `.` and `..` are none: clients and proxies remove them from
/// paths, so such a resource could not be addressed.
pub fn id() -> Value {
    json!({
        "anyOf": [
            {
                "type": "string",
                "minLength": 1,
                "maxLength": 64,
                "pattern": "^[a-zA-Z0-9-_.]+$",
                "not": { "enum": [".", ".."] },
            },
            { "type": "integer", "minimum": 1 },
        ]
    })
}

/// How many bytes of a body a plugin holds at most: `max_resp_body_size` and its like.
pub fn body_limit(description: &str) -> Value {
    json!({ "type": "integer", "minimum": 1, "default": 67_108_864, "description": description })
}

/// A name for people.
pub fn name() -> Value {
    json!({ "type": "string", "maxLength": 256, "minLength": 1 })
}

/// A remark for people.
pub fn description() -> Value {
    json!({ "type": "string", "maxLength": 256 })
}

/// Most labels of a resource. APISIX has no bound; 256 labels with values of 256 characters are 64 KiB, and lists are
/// filtered by looking at all of them.
const LABELS_MAX: usize = 256;

/// Key and value pairs for finding resources again.
pub fn labels() -> Value {
    json!({
        "description": "Keys and values that describe the resource; lists can be filtered by them.",
        "type": "object",
        "maxProperties": LABELS_MAX,
        "patternProperties": {
            ".*": {
                "description": "A label's value.",
                "type": "string",
                "pattern": r"^\S+$",
                "maxLength": 256,
                "minLength": 1,
            }
        },
    })
}

/// Seconds since 1970; the Admin API sets it.
pub fn timestamp() -> Value {
    json!({ "type": "integer" })
}

/// A host name or address, exact or with a leading `*`.
pub fn host() -> Value {
    json!({ "type": "string", "pattern": HOST })
}

/// The pattern of [`host`].
pub const HOST: &str = r"^\*$|^\*?[0-9a-zA-Z-._\[\]:]+$";

/// Several hosts, at least one.
pub fn hosts() -> Value {
    json!({ "type": "array", "items": host(), "minItems": 1, "uniqueItems": true })
}

/// A TCP or UDP port.
pub fn port(description: &str) -> Value {
    json!({ "description": description, "type": "integer", "minimum": 1, "maximum": 65535 })
}

/// An address or CIDR block. As in APISIX the CIDR pattern of IPv6 is wider than IPv6: `:/8` passes.
pub fn address(description: &str) -> Value {
    const SEGMENT: &str = "([0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])";
    let v4 = [SEGMENT; 4].join(r"\.");
    let v6 = "([a-fA-F0-9]{0,4}:){1,8}(:[a-fA-F0-9]{0,4}){0,8}([a-fA-F0-9]{0,4})?";
    json!({
        "description": description,
        "type": "string",
        "anyOf": [
            { "title": "IPv4", "type": "string", "format": "ipv4" },
            { "title": "IPv4/CIDR", "type": "string", "pattern": format!("^{v4}/([12]?[0-9]|3[0-2])$") },
            { "title": "IPv6", "type": "string", "format": "ipv6" },
            { "title": "IPv6/CIDR", "type": "string", "pattern": format!("^{v6}/[0-9]{{1,3}}$") },
        ],
    })
}

/// Upstream timeouts in seconds, all three of them.
pub fn timeout() -> Value {
    let seconds = json!({ "type": "number", "exclusiveMinimum": 0 });
    json!({
        "type": "object",
        "properties": { "connect": seconds, "send": seconds, "read": seconds },
        "required": ["connect", "send", "read"],
    })
}

/// HTTP methods that routes and probes may name.
pub const METHODS: [&str; 10] =
    ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE", "PURGE"];

/// The `plugins` of a resource. Each plugin's own configuration is checked by the plugin.
pub fn plugins() -> Value {
    json!({ "type": "object" })
}

/// The switch between proxying websockets and not.
pub fn enable_websocket() -> Value {
    json!({ "description": "Whether `Upgrade: websocket` is passed on.", "type": "boolean" })
}

/// A PEM certificate, or chain of certificates.
pub fn certificate() -> Value {
    json!({ "type": "string", "minLength": 128, "maxLength": 65536 })
}

/// A PEM private key.
pub fn private_key() -> Value {
    json!({ "type": "string", "minLength": 64, "maxLength": 65536 })
}

/// The form that APISIX's dashboard left in `script`.
pub fn script() -> Value {
    json!({ "type": "string", "minLength": 10, "maxLength": 102_400 })
}
