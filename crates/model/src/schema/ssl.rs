//! Schema of ssls.

use super::parts::{HOST, certificate, description, id, labels, private_key, resource, timestamp, with};
use serde_json::{Value, json};

/// A certificate with its key.
pub(super) fn ssl() -> Value {
    let metadata = json!({
        "id": id(),
        "desc": description(),
        "labels": labels(),
        "create_time": timestamp(),
        "update_time": timestamp(),
    });
    with(resource(metadata, fields()), conditions())
}

fn fields() -> Value {
    let server_name = json!({ "type": "string", "pattern": HOST });
    json!({
        "type": {
            "description": "Whom the certificate is shown to: server, to clients; client, to upstreams.",
            "type": "string",
            "default": "server",
            "enum": ["server", "client"],
        },
        "cert": certificate(),
        "key": private_key(),
        "sni": server_name,
        "snis": { "type": "array", "items": server_name, "minItems": 1 },
        "certs": { "type": "array", "items": certificate() },
        "keys": { "type": "array", "items": private_key() },
        "client": client(),
        "status": {
            "description": "1: in use; 0: kept but not shown.",
            "type": "integer",
            "enum": [1, 0],
            "default": 1,
        },
        "ssl_protocols": {
            "description": "The versions of TLS that are spoken.",
            "type": "array",
            "maxItems": 3,
            "uniqueItems": true,
            "items": { "enum": ["TLSv1.1", "TLSv1.2", "TLSv1.3"] },
        },
    })
}

/// Whose certificates are taken of clients.
fn client() -> Value {
    json!({
        "type": "object",
        "properties": {
            "ca": certificate(),
            "depth": { "type": "integer", "minimum": 0, "default": 1 },
            "skip_mtls_uri_regex": {
                "type": "array",
                "minItems": 1,
                "uniqueItems": true,
                "items": { "description": "Paths that match need no client certificate.", "type": "string" },
            },
        },
        "required": ["ca"],
    })
}

/// A server's certificate is for names.
fn conditions() -> Value {
    json!({
        "if": { "properties": { "type": { "enum": ["server"] } } },
        "then": {
            "oneOf": [{ "required": ["sni", "key", "cert"] }, { "required": ["snis", "key", "cert"] }]
        },
        "else": { "required": ["key", "cert"] },
    })
}
