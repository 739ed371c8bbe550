//! Schema of upstreams, alone and inside routes and services.

use super::health::checks;
use super::parts::{certificate, host, id, metadata, port, private_key, resource, timeout, with};
use serde_json::{Value, json};

/// An upstream.
pub fn upstream() -> Value {
    let nodes_or_discovery =
        json!({ "oneOf": [{ "required": ["nodes"] }, { "required": ["service_name", "discovery_type"] }] });
    with(resource(metadata(), with(balancing(), peers())), nodes_or_discovery)
}

/// The fields that say how requests are spread and retried.
fn balancing() -> Value {
    json!({
        "nodes": nodes(),
        "retries": { "type": "integer", "minimum": 0 },
        "retry_timeout": { "type": "number", "minimum": 0 },
        "timeout": timeout(),
        "tls": tls(),
        "keepalive_pool": {
            "type": "object",
            "properties": {
                "size": { "type": "integer", "default": 320, "minimum": 1 },
                "idle_timeout": { "type": "number", "default": 60, "minimum": 0 },
                "requests": { "type": "integer", "default": 1000, "minimum": 1 },
            },
        },
        "type": {
            "description": "How requests are spread over the nodes.",
            "type": "string",
            "default": "roundrobin",
        },
        "checks": checks(),
        "outlier_ejection": outlier_ejection(),
        "hash_on": {
            "type": "string",
            "default": "vars",
            "enum": ["vars", "header", "cookie", "consumer", "vars_combinations"],
        },
        "key": { "description": "What `chash` hashes, read as `hash_on` says.", "type": "string" },
    })
}

/// The fields that say what is spoken with whom.
fn peers() -> Value {
    json!({
        "scheme": {
            "default": "http",
            "enum": ["grpc", "grpcs", "http", "https", "tcp", "tls", "udp", "kafka"],
            "description": "The protocol spoken to the nodes: of routes one of http, https, grpc, grpcs and kafka, \
                            of stream routes one of tcp, tls and udp.",
        },
        "discovery_type": { "description": "The kind of service discovery.", "type": "string" },
        "discovery_args": {
            "type": "object",
            "properties": {
                "namespace_id": { "description": "A namespace's id.", "type": "string" },
                "group_name": { "description": "A group's name.", "type": "string" },
            },
        },
        "pass_host": {
            "description": "Which `Host` the nodes see.",
            "type": "string",
            "enum": ["pass", "node", "rewrite"],
            "default": "pass",
        },
        "upstream_host": host(),
        "service_name": { "type": "string", "maxLength": 256, "minLength": 1 },
    })
}

/// `nodes` in both forms: addresses with their weights, and a list.
fn nodes() -> Value {
    let weight =
        json!({ "description": "Share of requests; 0 takes none.", "type": "integer", "minimum": 0 });
    json!({
        "anyOf": [
            { "type": "object", "patternProperties": { ".*": weight } },
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "host": host(),
                        "port": port("By scheme where absent."),
                        "weight": weight,
                        "priority": {
                            "description": "Lower ones take requests only when no higher one can.",
                            "type": "integer",
                            "default": 0,
                        },
                        "metadata": { "description": "Anything; the gateway ignores it.", "type": "object" },
                    },
                    "required": ["host", "weight"],
                },
            },
        ]
    })
}

/// When nodes are put aside that stand out: ours.
fn outlier_ejection() -> Value {
    json!({
        "description": "When a node is put aside for what its own requests come to.",
        "type": "object",
        "properties": {
            "consecutive_errors": {
                "description": "Failed requests in a row that are enough; 0: none are.",
                "type": "integer", "default": 5, "minimum": 0, "maximum": 1_000_000,
            },
            "latency_factor": {
                "description": "How many times slower than the middle one of the nodes is enough; 0: slowness is not.",
                "type": "integer", "default": 4, "minimum": 0, "maximum": 1_000_000,
            },
            "latency_margin": {
                "description": "And by how many seconds at least.",
                "type": "number", "default": 0.05, "minimum": 0, "maximum": 3600,
            },
            "ejection_time": {
                "description": "Seconds for which a node is put aside; the second time in a row it is twice as long.",
                "type": "number", "default": 30, "exclusiveMinimum": 0, "maximum": 86400,
            },
            "ejected_percent_max": {
                "description": "The share of the nodes that is put aside at once at most.",
                "type": "integer", "default": 50, "minimum": 0, "maximum": 100,
            },
        },
    })
}

fn tls() -> Value {
    json!({
        "type": "object",
        "properties": {
            "client_cert_id": id(),
            "client_cert": certificate(),
            "client_key": private_key(),
            "verify": {
                "type": "boolean",
                "description": "Whether the nodes' certificates are verified.",
                "default": false,
            },
        },
        "dependencies": {
            "client_cert": { "required": ["client_key"] },
            "client_key": { "required": ["client_cert"] },
            "client_cert_id": { "not": { "required": ["client_cert", "client_key"] } },
        },
    })
}

/// The schema of `key` for one `hash_on`; `None` where it needs no key.
#[must_use]
pub fn hash_key(hash_on: &str) -> Option<Value> {
    match hash_on {
        "vars" => Some(json!({
            "type": "string",
            "pattern": "^((uri|server_name|server_addr|request_uri|remote_port|remote_addr|query_string|host|hostname\
                        |mqtt_client_id)|arg_[0-9a-zA-z_-]+)$",
        })),
        "header" | "cookie" => Some(json!({ "type": "string", "pattern": "^[a-zA-Z0-9-_]+$" })),
        "vars_combinations" => Some(json!({ "type": "string" })),
        _ => None,
    }
}
