//! Schema of an upstream's health checks.

use super::parts::{METHODS, host, port};
use serde_json::{Value, json};

/// `checks` of an upstream.
pub(super) fn checks() -> Value {
    json!({
        "type": "object",
        "properties": { "active": active(), "passive": passive() },
        "anyOf": [{ "required": ["active"] }, { "required": ["active", "passive"] }],
    })
}

/// Probes sent to the nodes.
pub(super) fn active() -> Value {
    let interval = json!({ "type": "integer", "minimum": 1, "default": 1 });
    json!({
        "type": "object",
        "properties": {
            "type": protocol(),
            "timeout": { "type": "number", "default": 1 },
            "concurrency": { "type": "integer", "default": 10 },
            "host": host(),
            "port": port("The port probed; the node's own where absent."),
            "http_method": { "type": "string", "enum": METHODS, "default": "GET" },
            "http_path": { "type": "string", "default": "/" },
            "http_req_body": { "type": "string", "default": "" },
            "https_verify_certificate": { "type": "boolean", "default": true },
            "healthy": {
                "type": "object",
                "properties": {
                    "interval": interval,
                    "http_statuses": statuses(&[200, 302]),
                    "successes": times(1, 2),
                },
            },
            "unhealthy": {
                "type": "object",
                "properties": {
                    "interval": interval,
                    "http_statuses": statuses(&[429, 404, 500, 501, 502, 503, 504, 505]),
                    "http_failures": times(1, 5),
                    "tcp_failures": times(1, 2),
                    "timeouts": times(1, 3),
                },
            },
            "req_headers": {
                "type": "array",
                "minItems": 1,
                "items": { "type": "string", "uniqueItems": true },
            },
        },
    })
}

/// What is concluded from the clients' own requests.
pub(super) fn passive() -> Value {
    let good: Vec<u16> = (200..=208).chain([226]).chain(300..=308).collect();
    json!({
        "type": "object",
        "properties": {
            "type": protocol(),
            "healthy": {
                "type": "object",
                "properties": { "http_statuses": statuses(&good), "successes": times(0, 5) },
            },
            "unhealthy": {
                "type": "object",
                "properties": {
                    "http_statuses": statuses(&[429, 500, 503]),
                    "tcp_failures": times(0, 2),
                    "timeouts": times(0, 7),
                    "http_failures": times(0, 5),
                },
            },
        },
    })
}

fn protocol() -> Value {
    json!({ "type": "string", "enum": ["http", "https", "tcp"], "default": "http" })
}

fn statuses(default: &[u16]) -> Value {
    json!({
        "type": "array",
        "minItems": 1,
        "items": { "type": "integer", "minimum": 200, "maximum": 599 },
        "uniqueItems": true,
        "default": default,
    })
}

/// How often something happens in a row before it counts.
fn times(least: u8, default: u8) -> Value {
    json!({ "type": "integer", "minimum": least, "maximum": 254, "default": default })
}
