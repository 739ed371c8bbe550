//! What APISIX checks of stream routes beyond their schema.

use crate::Admin;
use crate::http::identity::text_of;
use crate::read::stored;
use crate::validate::mistakes::Mistakes;
use crate::validate::plugins::{self, Side};
use ipnet::IpNet;
use model::{Kind, PluginMap};
use plugin::Registry;
use serde_json::{Map, Value};
use std::net::IpAddr;
use store::StoreError;

/// Checks plugins, addresses and protocol, in APISIX's order.
pub(crate) fn check(
    registry: &Registry,
    fields: &Map<String, Value>,
    plugins: &PluginMap,
    found: &mut Mistakes,
    unknown: &mut Vec<String>,
) {
    if let Some(streams) = registry.streams() {
        plugins::check(streams, plugins, Side::Stream, found, unknown);
    }
    for name in ["remote_addr", "server_addr"] {
        let Some(address) = fields.get(name).and_then(Value::as_str) else { continue };
        if address.parse::<IpAddr>().is_err() && address.parse::<IpNet>().is_err() {
            found.push(format!("/{name}"), format!("invalid {name}: {address}"));
        }
    }
    // There are no protocols inside of streams yet.
    if let Some(name) = protocol(fields).and_then(|protocol| protocol.get("name")?.as_str()) {
        found.push("/protocol/name", format!("unknown protocol [{name}]"));
    }
}

/// Checks the route whose sessions this one takes requests of: another one, there, and of the same protocol.
pub(crate) async fn check_superior(
    admin: &Admin,
    id: Option<&str>,
    fields: &Map<String, Value>,
    found: &mut Mistakes,
) -> Result<(), StoreError> {
    let Some(own) = protocol(fields) else { return Ok(()) };
    let Some(superior) = own.get("superior_id").map(text_of) else { return Ok(()) };
    let mut wrong = |message: String| found.push("/protocol/superior_id", message);
    if id == Some(superior.as_str()) {
        wrong("stream route can not set itself as superior_id".to_owned());
        return Ok(());
    }
    let Some(entry) = stored::entry(admin, &Kind::StreamRoute.key(&superior)).await? else {
        wrong(format!("failed to fetch stream routes[{superior}], response code: 404"));
        return Ok(());
    };
    let route = serde_json::from_slice::<Map<String, Value>>(&entry.value).unwrap_or_default();
    let name = |protocol: &Map<String, Value>| {
        protocol.get("name").and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    if let Some(other) = protocol(&route).map(name).filter(|other| *other != name(own)) {
        wrong(format!(
            "protocol mismatch: subordinate protocol [{}] does not match superior protocol [{other}]",
            name(own)
        ));
    }
    Ok(())
}

fn protocol(fields: &Map<String, Value>) -> Option<&Map<String, Value>> {
    fields.get("protocol").and_then(Value::as_object)
}
