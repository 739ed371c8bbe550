//! `proxy_pass`: which nodes are asked, and what they are told.

use super::Out;
use super::scope::Scope;
use super::tree::Directive;
use super::upstream::{Group, host_port};
use crate::Verdict;
use serde_json::{Map, Value, json};

/// Translates `proxy_pass` of a location at `path`; `None` where it is refused.
pub(super) fn translate(
    out: &mut Out,
    scope: &Scope,
    directive: &Directive,
    path: &str,
    groups: &[Group],
    route: &mut Map<String, Value>,
    plugins: &mut Map<String, Value>,
) -> Option<()> {
    let url = directive.arg(0);
    let parsed = url.split_once("://").filter(|(scheme, rest)| {
        matches!(*scheme, "http" | "https") && !rest.contains('$') && !rest.starts_with("unix:")
    });
    let Some((scheme, rest)) = parsed else {
        out.refuse(directive, "only http:// or https:// with a fixed address");
        return None;
    };
    let (authority, uri) = match rest.find('/') {
        Some(at) => (&rest[..at], Some(&rest[at..])),
        None => (rest, None),
    };
    let mut upstream = match groups.iter().find(|group| group.name == authority) {
        Some(group) => group.upstream.clone(),
        None => {
            let Some((host, port)) = host_port(authority, if scheme == "https" { 443 } else { 80 }) else {
                out.refuse(directive, format!("{authority} is no address"));
                return None;
            };
            let nodes = json!([{ "host": host, "port": port, "weight": 1 }]);
            Map::from_iter([("type".into(), json!("roundrobin")), ("nodes".into(), nodes)])
        }
    };
    upstream.insert("scheme".into(), json!(scheme));
    let mut rewrite = Map::new();
    headers(scope, authority, &mut upstream, route, &mut rewrite);
    if let Some(uri) = uri.filter(|uri| *uri != path) {
        if path.is_empty() {
            out.refuse(directive, "a path behind the address, below a regex");
            return None;
        }
        rewrite.insert("regex_uri".into(), json!([format!("^{}(.*)", escaped(path)), format!("{uri}$1")]));
    }
    if !rewrite.is_empty() {
        plugins.insert("proxy-rewrite".into(), Value::Object(rewrite));
    }
    route.insert("upstream".into(), Value::Object(upstream));
    if !scope.timeout.is_empty() {
        let mut timeout = scope.timeout.clone();
        for key in ["connect", "send", "read"] {
            timeout.entry(key).or_insert_with(|| json!(60));
        }
        route.insert("timeout".into(), Value::Object(timeout));
    }
    out.note(directive, Verdict::Taken, "upstream");
    Some(())
}

/// What the node is told: `Host`, and the fields of `proxy_set_header` that the gateway doesn't set by itself.
fn headers(
    scope: &Scope,
    authority: &str,
    upstream: &mut Map<String, Value>,
    route: &mut Map<String, Value>,
    rewrite: &mut Map<String, Value>,
) {
    let mut set = Map::new();
    // nginx's default is the name in `proxy_pass`.
    let mut host = authority.to_owned();
    for (name, value) in &scope.set_headers {
        match (name.to_ascii_lowercase().as_str(), value.as_str()) {
            ("host", value) => host = value.to_owned(),
            ("connection", "") => {}
            ("upgrade" | "connection", _) => {
                route.insert("enable_websocket".into(), json!(true));
            }
            ("x-real-ip", "$remote_addr")
            | ("x-forwarded-for", "$proxy_add_x_forwarded_for")
            | ("x-forwarded-proto", "$scheme")
            | ("x-forwarded-host", "$host" | "$http_host")
            | ("x-forwarded-port", "$server_port") => {}
            _ => {
                set.insert(name.clone(), json!(value));
            }
        }
    }
    let pass = match host.as_str() {
        "$host" | "$http_host" => "pass",
        "$proxy_host" => "node",
        host if host == authority && upstream.get("name").is_none() => "node",
        host => {
            upstream.insert("upstream_host".into(), json!(host));
            "rewrite"
        }
    };
    upstream.insert("pass_host".into(), json!(pass));
    if !set.is_empty() {
        rewrite.insert("headers".into(), json!({ "set": set }));
    }
}

fn escaped(path: &str) -> String {
    let special = |c: char| ".+*?()[]{}|^$\\".contains(c);
    path.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}
