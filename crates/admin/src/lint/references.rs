//! `dangling-reference`: what a resource names is not there. The Admin API refuses that, but for `force=true`, other
//! programs that write to the store, and fields of plugins.

use super::scene::{Item, Scene, each};
use crate::http::identity::text_of;
use document::diagnostic::Code;
use document::{Diagnostic, Severity, codes};
use model::Kind;
use serde_json::{Map, Value};

const RULE: (Code, Severity) = (codes::DANGLING_REFERENCE, Severity::Error);

pub(super) fn check(scene: &Scene<'_>, found: &mut Vec<Diagnostic>) {
    for item in scene.items() {
        named(scene, item, found);
        inside(scene, item, found);
    }
}

/// What the Admin API wants to exist too: resources that the fields of a resource name, and a credential's consumer.
pub(super) fn required(scene: &Scene<'_>) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for item in scene.items() {
        named(scene, item, &mut found);
        let prefix = if item.kind == Kind::Upstream { "" } else { "/upstream" };
        let upstream =
            if item.kind == Kind::Upstream { Some(item.fields) } else { object(item.fields, "upstream") };
        let id = upstream.and_then(|upstream| object(upstream, "tls")?.get("client_cert_id"));
        if let Some(id) = id.filter(|id| id.is_string() || id.is_number()) {
            expect(
                scene,
                item,
                (Kind::Ssl, &text_of(id)),
                format!("{prefix}/tls/client_cert_id"),
                &mut found,
            );
        }
    }
    found
}

fn object<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Map<String, Value>> {
    fields.get(name).and_then(Value::as_object)
}

fn named(scene: &Scene<'_>, item: &Item<'_>, found: &mut Vec<Diagnostic>) {
    let known: &[(&str, Kind)] = match item.kind {
        Kind::Route => &[
            ("upstream_id", Kind::Upstream),
            ("service_id", Kind::Service),
            ("plugin_config_id", Kind::PluginConfig),
        ],
        Kind::Service => &[("upstream_id", Kind::Upstream)],
        Kind::StreamRoute => &[("upstream_id", Kind::Upstream), ("service_id", Kind::Service)],
        Kind::Consumer => &[("group_id", Kind::ConsumerGroup)],
        _ => &[],
    };
    for (field, kind) in known {
        if let Some(id) = item.reference(field) {
            expect(scene, item, (*kind, &id), format!("/{field}"), found);
        }
    }
    let (parent, _) = item.kind.split_id(item.id).unzip();
    if let (Some(parent), Some(kind)) = (parent, item.kind.parent()) {
        expect(scene, item, (kind, parent), String::new(), found);
    }
}

/// Plugins' references, certificates of upstreams, and references to secret managers.
fn inside(scene: &Scene<'_>, item: &Item<'_>, found: &mut Vec<Diagnostic>) {
    for (name, value) in item.fields {
        each(value, &mut format!("/{name}"), &mut |path, field, value| {
            let in_plugin = name == "plugins";
            let kind = match field {
                "upstream_id" if in_plugin => Kind::Upstream,
                "proto_id" if in_plugin => Kind::Proto,
                "client_cert_id" => Kind::Ssl,
                "superior_id" if item.kind == Kind::StreamRoute => Kind::StreamRoute,
                _ => {
                    if let Some(manager) = value.as_str().and_then(manager) {
                        expect(scene, item, (Kind::Secret, &manager), path.to_owned(), found);
                    }
                    return;
                }
            };
            if value.is_string() || value.is_number() {
                expect(scene, item, (kind, &text_of(value)), path.to_owned(), found);
            }
        });
    }
}

/// The manager that `$secret://vault/1/path/key` names: `vault/1`.
fn manager(text: &str) -> Option<String> {
    let rest = text.get(.."$secret://".len()).filter(|start| start.eq_ignore_ascii_case("$secret://"));
    let mut parts = text[rest?.len()..].split('/');
    Some(format!("{}/{}", parts.next()?, parts.next()?))
}

fn expect(
    scene: &Scene<'_>,
    item: &Item<'_>,
    (kind, id): (Kind, &str),
    path: String,
    found: &mut Vec<Diagnostic>,
) {
    if scene.get(kind, id).is_none() {
        let message = format!("there is no {} {id}", kind.noun());
        let advice = format!("create {}, or change what refers to it", kind.key(id));
        found.push(item.finding(RULE, path, message, advice));
    }
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_there_is_found_wherever_it_is_named() {
        let resources = [
            ("/upstreams/1", json!({"tls": {"client_cert_id": "9"}})),
            ("/routes/1", json!({"upstream_id": 1, "service_id": "2"})),
            (
                "/routes/2",
                json!({"plugins": {"traffic-split": {"rules": [{"weighted_upstreams": [{"upstream_id": 3}]}]}}}),
            ),
            (
                "/consumers/a/credentials/c",
                json!({"plugins": {"key-auth": {"key": "$secret://vault/1/a/b"}}}),
            ),
        ];
        let places: Vec<_> = found(check, &resources).into_iter().collect();
        let expected = [
            ("/upstreams/1", "/tls/client_cert_id"),
            ("/routes/1", "/service_id"),
            ("/routes/2", "/plugins/traffic-split/rules/0/weighted_upstreams/0/upstream_id"),
            ("/consumers/a/credentials/c", ""),
            ("/consumers/a/credentials/c", "/plugins/key-auth/key"),
        ]
        .map(|(key, path)| (key.to_owned(), path.to_owned()));
        assert_eq!(places, expected);
    }
}
