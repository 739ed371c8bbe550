//! `upstream` blocks.

use super::Out;
use super::tree::Directive;
use crate::Verdict;
use serde_json::{Map, Value, json};

/// A named group of servers. Each route that uses it gets a copy: which `Host` the nodes see is said there.
pub(super) struct Group {
    pub(super) name: String,
    pub(super) upstream: Map<String, Value>,
}

/// Translates a block.
pub(super) fn translate(out: &mut Out, block: &Directive) -> Group {
    let name = block.arg(0).to_owned();
    out.taken(block, "");
    let mut nodes = Vec::new();
    let mut upstream = Map::from_iter([("name".into(), json!(name)), ("type".into(), json!("roundrobin"))]);
    for directive in block.block() {
        match directive.name.as_str() {
            "server" => server(out, directive, &mut nodes),
            "least_conn" => {
                upstream.insert("type".into(), json!("least_conn"));
                out.taken(directive, "type: least_conn");
            }
            "ip_hash" => {
                upstream.insert("type".into(), json!("chash"));
                upstream.insert("key".into(), json!("remote_addr"));
                out.taken(directive, "type: chash on remote_addr");
            }
            "hash" => match directive.arg(0).strip_prefix('$').filter(|key| !key.contains('$')) {
                Some(key) => {
                    upstream.insert("type".into(), json!("chash"));
                    upstream.insert("key".into(), json!(key));
                    out.taken(directive, "type: chash");
                }
                None => out.refuse(directive, "only one variable can be hashed"),
            },
            "random" => out.note(directive, Verdict::Equivalent, "spread by weighted round robin"),
            "keepalive" => match directive.arg(0).parse::<u32>() {
                Ok(size) if size > 0 => {
                    upstream.insert("keepalive_pool".into(), json!({ "size": size }));
                    out.taken(directive, "keepalive_pool.size");
                }
                _ => out.refuse(directive, "not a number of connections"),
            },
            "zone" => out.note(directive, Verdict::Ignored, ""),
            "keepalive_timeout" | "keepalive_requests" | "keepalive_time" => {
                out.note(
                    directive,
                    Verdict::Ignored,
                    "the gateway's own settings hold: nginx_config.http.upstream",
                );
            }
            other => out.refuse(directive, format!("`{other}` has no counterpart")),
        }
    }
    upstream.insert("nodes".into(), Value::Array(nodes));
    Group { name, upstream }
}

fn server(out: &mut Out, directive: &Directive, nodes: &mut Vec<Value>) {
    let address = directive.arg(0);
    if address.starts_with("unix:") {
        out.refuse(directive, "nodes are reached by address and port, not by a unix socket");
        return;
    }
    let Some((host, port)) = host_port(address, 80) else {
        out.refuse(directive, "no address and port");
        return;
    };
    let mut node = json!({ "host": host, "port": port, "weight": 1 });
    let mut reason = String::new();
    for arg in directive.args.iter().skip(1) {
        match arg.split_once('=') {
            Some(("weight", number)) => match number.parse::<u32>() {
                Ok(weight) => node["weight"] = json!(weight),
                Err(_) => return out.refuse(directive, format!("{arg} is no weight")),
            },
            None if arg == "backup" => node["priority"] = json!(-1),
            None if arg == "down" => node["weight"] = json!(0),
            None if arg == "resolve" => {}
            Some(("max_fails" | "fail_timeout" | "max_conns" | "slow_start", _)) => {
                reason = format!("{arg} is left out: see `checks` of an upstream");
            }
            _ => return out.refuse(directive, format!("{arg} is not understood")),
        }
    }
    nodes.push(node);
    out.note(directive, Verdict::Taken, reason);
}

/// `host`, `host:port` or `[address]:port`.
pub(super) fn host_port(text: &str, default: u16) -> Option<(String, u16)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (address, after) = rest.split_once(']')?;
        let port = match after.strip_prefix(':') {
            Some(port) => port.parse().ok()?,
            None => default,
        };
        return Some((format!("[{address}]"), port));
    }
    match text.rsplit_once(':') {
        Some((host, port)) => Some((host.to_owned(), port.parse().ok()?)),
        None if text.is_empty() => None,
        None => Some((text.to_owned(), default)),
    }
}
