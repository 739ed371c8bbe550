//! The resources as the data plane uses them: defaults filled in, nodes as a list.

use super::Control;
use crate::AdminResponse;
use crate::http::respond::Answer;
use model::Kind;
use model::schema::validator;
use plugin::Registry;
use serde_json::{Map, Value, json};
use std::net::IpAddr;
use store::Entry;

/// All resources of `kind`.
pub(super) async fn all(control: &Control, kind: Kind) -> Answer {
    let registry = control.current().registry;
    let entries = entries(control, kind).await?;
    let shown: Vec<Value> = entries.iter().map(|entry| show(control, &registry, kind, entry)).collect();
    Ok(AdminResponse::json(200, &Value::from(shown)))
}

/// The resource `id` of `kind`.
pub(super) async fn one(control: &Control, kind: Kind, id: &str) -> Answer {
    match control.store.get(&kind.key(id)).await? {
        Some(entry) => {
            Ok(AdminResponse::json(200, &show(control, &control.current().registry, kind, &entry)))
        }
        None => Err(AdminResponse::error(404, format!("{}[{id}] not found", kind.noun()))),
    }
}

/// The metadata of all plugins that run here.
pub(super) async fn metadatas(control: &Control) -> Answer {
    let registry = control.current().registry;
    let mut shown = Vec::new();
    for entry in entries(control, Kind::PluginMetadata).await? {
        let name = Kind::parse_key(&entry.key).map(|(_, name)| name).unwrap_or_default();
        if registry.get(name).is_some() {
            shown.push(with_id(value(&entry), name));
        }
    }
    Ok(AdminResponse::json(200, &Value::from(shown)))
}

/// The metadata of one plugin.
pub(super) async fn metadata(control: &Control, name: &str) -> Answer {
    match control.store.get(&Kind::PluginMetadata.key(name)).await? {
        Some(entry) => Ok(AdminResponse::json(200, &with_id(value(&entry), name))),
        None => Err(AdminResponse::error(404, format!("plugin metadata[{name}] not found"))),
    }
}

/// All stored resources of `kind`, and of no kind below it.
pub(super) async fn entries(control: &Control, kind: Kind) -> Result<Vec<Entry>, AdminResponse> {
    let listing = control.store.list(&kind.key("")).await?;
    let of_kind = |entry: &Entry| Kind::parse_key(&entry.key).is_some_and(|(found, _)| found == kind);
    Ok(listing.entries.into_iter().filter(of_kind).collect())
}

/// What an entry holds, with the defaults of its schema.
pub(super) fn filled(kind: Kind, entry: &Entry) -> Value {
    let mut filled = value(entry);
    validator(kind).apply_defaults(&mut filled);
    match kind {
        Kind::Upstream => list_nodes(&mut filled),
        _ => filled.get_mut("upstream").into_iter().for_each(list_nodes),
    }
    filled
}

fn show(control: &Control, registry: &Registry, kind: Kind, entry: &Entry) -> Value {
    let mut value = filled(kind, entry);
    fill_plugins(registry, &mut value);
    let upstream = if kind == Kind::Upstream { Some(&value) } else { value.get("upstream") };
    json!({
        "has_domain": upstream.is_some_and(has_domain),
        "createdIndex": entry.create_revision,
        "modifiedIndex": entry.mod_revision,
        "key": control.shown_key(&entry.key),
        "value": value,
    })
}

/// Plugins with the defaults of their schemas, and with `_meta`, which APISIX gives to each.
fn fill_plugins(registry: &Registry, value: &mut Value) {
    let plugins = value.get_mut("plugins").and_then(Value::as_object_mut);
    for (name, config) in plugins.into_iter().flatten() {
        registry.apply_defaults(name, config);
        if let Value::Object(config) = config {
            config.entry("_meta").or_insert_with(|| json!({}));
        }
    }
}

fn value(entry: &Entry) -> Value {
    serde_json::from_slice(&entry.value)
        .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&entry.value)))
}

fn with_id(mut value: Value, id: &str) -> Value {
    if let Value::Object(members) = &mut value {
        members.entry("id").or_insert_with(|| id.into());
    }
    value
}

/// Whether a node is known by a name.
fn has_domain(upstream: &Value) -> bool {
    let nodes = upstream.get("nodes").and_then(Value::as_array);
    nodes
        .into_iter()
        .flatten()
        .filter_map(|node| node.get("host")?.as_str())
        .any(|host| host.trim_matches(['[', ']']).parse::<IpAddr>().is_err())
}

/// `{"host:port": weight}` as `[{"host", "port", "weight"}]`, the form in which APISIX keeps nodes.
fn list_nodes(upstream: &mut Value) {
    let scheme = upstream.get("scheme").and_then(Value::as_str).unwrap_or("http").to_owned();
    let Some(Value::Object(nodes)) = upstream.get("nodes") else { return };
    let list: Vec<Value> = nodes.iter().map(|(address, weight)| node(address, weight, &scheme)).collect();
    upstream["nodes"] = list.into();
}

fn node(address: &str, weight: &Value, scheme: &str) -> Value {
    let split = address.rsplit_once(':').filter(|(host, _)| !host.contains(':') || host.ends_with(']'));
    let port = split.and_then(|(_, port)| port.parse::<u16>().ok());
    let default = if matches!(scheme, "https" | "grpcs") { 443 } else { 80 };
    let mut node = Map::new();
    node.insert("host".to_owned(), split.filter(|_| port.is_some()).map_or(address, |(host, _)| host).into());
    node.insert("port".to_owned(), port.unwrap_or(default).into());
    node.insert("weight".to_owned(), weight.clone());
    Value::Object(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ConfigError;
    use plugin::{CompileContext, Plugin, PluginDef};

    #[test]
    fn nodes_become_a_list() {
        for (scheme, address, host, port) in [
            ("http", "127.0.0.1:1980", "127.0.0.1", 1980),
            ("http", "foo.com", "foo.com", 80),
            ("https", "foo.com", "foo.com", 443),
            ("http", "[::1]:81", "[::1]", 81),
            ("http", "[::1]", "[::1]", 80),
        ] {
            let mut upstream = json!({"scheme": scheme, "nodes": {address: 3}});
            list_nodes(&mut upstream);
            assert_eq!(upstream["nodes"], json!([{"host": host, "port": port, "weight": 3}]), "{address}");
            assert_eq!(has_domain(&upstream), host == "foo.com");
        }
    }

    struct Limit;

    impl Plugin for Limit {
        type Config = Value;

        fn compile(_: Value, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
            Ok(Self)
        }

        fn schema() -> Value {
            json!({"type": "object", "properties": {"rejected_code": {"type": "integer", "default": 503}}})
        }
    }

    #[test]
    fn plugins_are_shown_with_their_defaults() {
        let limit = PluginDef::new::<Limit>("limit", 1).build();
        let registry = Registry::new([limit], Map::new()).unwrap();
        let mut service = json!({"plugins": {"limit": {"count": 1}, "other": {"_meta": {"disable": true}}}});
        fill_plugins(&registry, &mut service);
        let expected = json!({
            "limit": {"count": 1, "rejected_code": 503, "_meta": {}}, "other": {"_meta": {"disable": true}}
        });
        assert_eq!(service["plugins"], expected);
    }
}
