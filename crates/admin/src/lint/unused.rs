//! `unused`: a resource that only means something where another one names it, and none does.

use super::scene::{Scene, each};
use crate::http::identity::text_of;
use document::diagnostic::Code;
use document::{Diagnostic, Severity, codes};
use model::Kind;
use serde_json::Value;
use std::collections::HashSet;

const RULE: (Code, Severity) = (codes::UNUSED, Severity::Warning);

/// The kinds, and the field by which each is named.
const NAMED_BY: [(Kind, &str); 6] = [
    (Kind::Upstream, "upstream_id"),
    (Kind::Service, "service_id"),
    (Kind::PluginConfig, "plugin_config_id"),
    (Kind::ConsumerGroup, "group_id"),
    (Kind::Proto, "proto_id"),
    (Kind::Ssl, "client_cert_id"),
];

pub(super) fn check(scene: &Scene<'_>, found: &mut Vec<Diagnostic>) {
    let mut used: HashSet<(Kind, String)> = HashSet::new();
    for item in scene.items() {
        for (name, value) in item.fields {
            note(name, value, &mut used);
            each(value, &mut String::new(), &mut |_, name, value| note(name, value, &mut used));
        }
    }
    for item in scene.items() {
        // Certificates for clients to see need no one to name them.
        let own = item.kind != Kind::Ssl || item.fields.get("type") == Some(&Value::from("client"));
        let named = NAMED_BY.iter().any(|(kind, _)| *kind == item.kind) && own;
        if named && !used.contains(&(item.kind, item.id.to_owned())) {
            let message = format!("nothing refers to this {}", item.kind.noun());
            found.push(item.finding(RULE, "", message, "delete it, or refer to it"));
        }
    }
}

fn note(name: &str, value: &Value, used: &mut HashSet<(Kind, String)>) {
    if let Some((kind, _)) = NAMED_BY.iter().find(|(_, field)| *field == name)
        && (value.is_string() || value.is_number())
    {
        used.insert((*kind, text_of(value)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;
    use serde_json::json;

    #[test]
    fn what_nothing_names_is_found() {
        let resources = [
            ("/upstreams/1", json!({})),
            ("/upstreams/2", json!({})),
            ("/upstreams/3", json!({})),
            ("/services/1", json!({"upstream_id": 1})),
            ("/plugin_configs/1", json!({})),
            ("/consumer_groups/g", json!({})),
            ("/ssls/1", json!({"type": "client"})),
            ("/ssls/2", json!({})),
            ("/consumers/a", json!({"group_id": "g"})),
            (
                "/routes/1",
                json!({"plugins": {"traffic-split": {"rules": [{"weighted_upstreams": [{"upstream_id": "2"}]}]}}}),
            ),
        ];
        let keys: Vec<String> = found(check, &resources).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["/upstreams/3", "/services/1", "/plugin_configs/1", "/ssls/1"]);
    }
}
