//! `no-node`: an upstream of which no node ever gets a request, since none has a weight, or there is none.

use super::scene::{Item, Scene};
use document::diagnostic::Code;
use document::{Diagnostic, Severity, codes};
use model::Kind;
use serde_json::{Map, Value};

const RULE: (Code, Severity) = (codes::NO_NODE, Severity::Error);

pub(super) fn check(scene: &Scene<'_>, found: &mut Vec<Diagnostic>) {
    for item in scene.items() {
        if item.kind == Kind::Upstream {
            check_upstream(item, item.fields, "", found);
        }
        if let Some(upstream) = item.fields.get("upstream").and_then(Value::as_object) {
            check_upstream(item, upstream, "/upstream", found);
        }
    }
}

fn check_upstream(item: &Item<'_>, upstream: &Map<String, Value>, place: &str, found: &mut Vec<Diagnostic>) {
    // Nodes that are discovered are not written down.
    if upstream.contains_key("service_name") {
        return;
    }
    let Some(nodes) = upstream.get("nodes") else { return };
    let weights: Vec<f64> = match nodes {
        Value::Object(nodes) => nodes.values().filter_map(Value::as_f64).collect(),
        Value::Array(nodes) => {
            nodes.iter().filter_map(|node| node.get("weight").and_then(Value::as_f64)).collect()
        }
        _ => return,
    };
    let (message, advice) = if weights.is_empty() {
        ("it has no node: every request gets a 503", "add a node, or delete what uses it")
    } else if weights.iter().all(|weight| *weight == 0.0) {
        ("every node has the weight 0: every request gets a 503", "give one of them a weight")
    } else {
        return;
    };
    found.push(item.finding(RULE, format!("{place}/nodes"), message, advice));
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;
    use serde_json::json;

    #[test]
    fn upstreams_without_a_node_are_found() {
        for (nodes, bad) in [
            (json!({"a:1": 0, "b:1": 0}), true),
            (json!({"a:1": 0, "b:1": 1}), false),
            (json!([{"host": "a", "port": 1, "weight": 0}]), true),
            (json!([{"host": "a", "port": 1, "weight": 2}]), false),
            (json!([]), true),
        ] {
            let inline = json!({"uri": "/", "upstream": {"nodes": nodes}});
            let resources = [("/upstreams/1", json!({"nodes": nodes})), ("/routes/1", inline)];
            let places = found(check, &resources);
            assert_eq!(places.len(), if bad { 2 } else { 0 }, "{nodes}");
        }
        assert!(found(check, &[("/upstreams/1", json!({"nodes": [], "service_name": "s"}))]).is_empty());
    }
}
