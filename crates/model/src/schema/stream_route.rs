//! Schema of stream routes.

use super::parts::{HOST, address, id, metadata, plugins, port, resource};
use super::upstream::upstream;
use serde_json::{Value, json};

/// A stream route.
pub(super) fn stream_route() -> Value {
    resource(
        metadata(),
        json!({
            "remote_addr": address("A client's address or CIDR block."),
            "server_addr": address("The gateway's address or CIDR block."),
            "server_port": port("The gateway's port."),
            "sni": {
                "description": "The server name that a TLS client asks for.",
                "type": "string",
                "pattern": HOST,
            },
            "upstream": upstream(),
            "upstream_id": id(),
            "service_id": id(),
            "plugins": plugins(),
            "protocol": protocol(),
        }),
    )
}

/// The protocol spoken inside the stream.
fn protocol() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "superior_id": id(),
            "conf": { "description": "What the protocol itself is told.", "type": "object" },
            "logger": {
                "type": "array",
                "items": {
                    "properties": {
                        "name": { "type": "string" },
                        "filter": { "description": "Which requests are logged.", "type": "array" },
                        "conf": { "description": "What the logger is told.", "type": "object" },
                    },
                    "dependencies": { "name": ["conf"] },
                    "additionalProperties": false,
                },
            },
        },
        "required": ["name"],
    })
}
