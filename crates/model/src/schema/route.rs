//! Schema of routes.

use super::parts::{
    METHODS, address, enable_websocket, host, hosts, id, metadata, plugins, resource, script, timeout, with,
};
use super::static_files::static_files;
use super::upstream::upstream;
use serde_json::{Value, json};

/// A route.
pub(super) fn route() -> Value {
    with(resource(metadata(), with(matching(), handling())), combinations())
}

/// The fields that say which requests it takes.
fn matching() -> Value {
    let client = address("A client's address or CIDR block.");
    json!({
        "uri": { "type": "string", "minLength": 1, "maxLength": 4096 },
        "uris": {
            "type": "array",
            "items": { "description": "A path; a prefix where it ends in `*`.", "type": "string" },
            "minItems": 1,
            "uniqueItems": true,
        },
        "priority": { "type": "integer", "default": 0 },
        "methods": {
            "type": "array",
            "items": { "description": "An HTTP method.", "type": "string", "enum": METHODS },
            "uniqueItems": true,
        },
        "host": host(),
        "hosts": hosts(),
        "remote_addr": client,
        "remote_addrs": { "type": "array", "items": client, "minItems": 1, "uniqueItems": true },
        "timeout": timeout(),
        "vars": { "type": "array" },
        "filter_func": { "type": "string", "minLength": 10, "pattern": "^function" },
    })
}

/// The fields that say what happens to them.
fn handling() -> Value {
    json!({
        "script": script(),
        "script_id": id(),
        "plugins": plugins(),
        "plugin_config_id": id(),
        "upstream": upstream(),
        "static": static_files(),
        "service_id": id(),
        "upstream_id": id(),
        "enable_websocket": enable_websocket(),
        "status": {
            "description": "1: in use; 0: kept but not matched.",
            "type": "integer",
            "enum": [1, 0],
            "default": 1,
        },
    })
}

/// Which fields go together.
fn combinations() -> Value {
    let at_most_one_of = |one: &str, many: &str| {
        json!({
            "oneOf": [
                { "not": { "anyOf": [{ "required": [one] }, { "required": [many] }] } },
                { "required": [one] },
                { "required": [many] },
            ]
        })
    };
    let pairs = |field: &str, path: &str| json!({ "required": [field, path] });
    let mut handled: Vec<_> = ["uri", "uris"]
        .into_iter()
        .flat_map(|path| {
            ["plugins", "upstream", "upstream_id", "service_id", "static"].map(|field| pairs(field, path))
        })
        .collect();
    handled.extend([pairs("script", "uri"), pairs("script", "uris")]);
    json!({
        "allOf": [
            { "oneOf": [{ "required": ["uri"] }, { "required": ["uris"] }] },
            at_most_one_of("host", "hosts"),
            at_most_one_of("remote_addr", "remote_addrs"),
        ],
        "anyOf": handled,
        "not": {
            "anyOf": [
                { "required": ["script", "plugins"] },
                { "required": ["script", "plugin_config_id"] },
                { "required": ["static", "upstream"] },
                { "required": ["static", "upstream_id"] },
            ]
        },
    })
}
