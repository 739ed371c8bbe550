//! What a Consul server knows: the services and their healthy instances.

use super::client::Client;
use crate::config::{ConsulConfig, SortType};
use model::resource::Node;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashSet};

/// The nodes of services by name.
pub(super) type Catalog = BTreeMap<String, Vec<Node>>;

/// A service that every Consul has: itself.
const ITSELF: &str = "consul";

/// The port of an instance that names none.
const PORT: u16 = 80;

/// Asks for everything.
pub(super) async fn fetch(client: &Client, config: &ConsulConfig) -> Result<Catalog, String> {
    let Value::Object(services) = client.get("catalog/services".to_owned()).await? else {
        return Err("catalog/services: not an object".to_owned());
    };
    let mut catalog = Catalog::new();
    for (name, _) in services {
        if name == ITSELF || config.skip_services.contains(&name) {
            continue;
        }
        let path = format!("health/service/{}?passing=true", utf8_percent_encode(&name, NON_ALPHANUMERIC));
        // All or nothing: with an answer missing its service would seem to be gone.
        let nodes = nodes(&client.get(path).await?, config);
        if !nodes.is_empty() {
            catalog.insert(name, nodes);
        }
    }
    Ok(catalog)
}

/// The nodes of `/v1/health/service/{name}`. What is no instance is left out.
fn nodes(instances: &Value, config: &ConsulConfig) -> Vec<Node> {
    let mut known = HashSet::new();
    let mut nodes: Vec<Node> = instances
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|instance| node(instance, config.weight))
        .filter(|node| known.insert((node.host.clone(), node.port)))
        .collect();
    match config.sort_type {
        SortType::Origin => {}
        SortType::HostSort => nodes.sort_by(|one, other| one.host.cmp(&other.host)),
        SortType::PortSort => nodes.sort_by_key(|node| node.port),
        SortType::CombineSort => {
            nodes.sort_by(|one, other| (&one.host, one.port).cmp(&(&other.host, other.port)));
        }
    }
    nodes
}

fn node(instance: &Value, weight: u32) -> Option<Node> {
    let service = instance.get("Service").filter(|service| service.is_object());
    let Some(service) = service else {
        tracing::warn!("an instance without `Service` is left out: {instance}");
        return None;
    };
    let address = |value: Option<&Value>| {
        value.and_then(Value::as_str).filter(|address| !address.is_empty()).map(str::to_owned)
    };
    // A service registered without an address is at its node's.
    let host = address(service.get("Address")).or_else(|| address(instance.pointer("/Node/Address")))?;
    let port = service.get("Port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
    Some(Node { host, port: Some(port.filter(|port| *port != 0).unwrap_or(PORT)), weight, priority: 0 })
}

/// As the control API and dump files have it.
pub(super) fn shown(catalog: &Catalog) -> Value {
    let node = |node: &Node| json!({ "host": node.host, "port": node.port, "weight": node.weight });
    let service = |(name, nodes): (&String, &Vec<Node>)| (name.clone(), nodes.iter().map(node).collect());
    Value::Object(catalog.iter().map(service).collect::<Map<_, Value>>())
}

/// The reverse of [`shown`]; what is no node is left out.
pub(super) fn read(shown: &Value) -> Catalog {
    let nodes = |nodes: &Value| {
        let list = nodes.as_array().into_iter().flatten();
        list.filter_map(|node| serde_json::from_value(node.clone()).ok()).collect()
    };
    let services = shown.as_object().into_iter().flatten();
    services.map(|(name, list)| (name.clone(), nodes(list))).collect()
}
