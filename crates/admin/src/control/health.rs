//! `/v1/healthcheck`: what health checks have found out.

use super::{Control, dump};
use crate::AdminResponse;
use crate::http::respond::Answer;
use model::Kind;
use serde_json::{Value, json};
use std::fmt::Write;

/// What a checker knows of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeHealth {
    /// The node's address; its name where that has not been resolved yet.
    pub ip: String,
    /// Its port.
    pub port: u16,
    /// The name that it is asked by, where that is not the address.
    pub hostname: Option<String>,
    /// `healthy`, `unhealthy`, `mostly_healthy` or `mostly_unhealthy`.
    pub status: &'static str,
    /// Checks that went well in a row.
    pub success: u32,
    /// Failures in a row: to connect.
    pub tcp_failures: u32,
    /// By the status of the answer.
    pub http_failures: u32,
    /// For want of an answer.
    pub timeout_failures: u32,
}

/// Who knows how the nodes are: the data plane.
pub trait Health: Send + Sync {
    /// The nodes that are checked for the resource of this store key (`/upstreams/1`); none where nothing is checked
    /// yet.
    fn nodes(&self, key: &str) -> Vec<NodeHealth>;
}

/// A data plane that checks no node.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHealth;

impl Health for NoHealth {
    fn nodes(&self, _: &str) -> Vec<NodeHealth> {
        Vec::new()
    }
}

/// The kinds that may have checks, in APISIX's order.
const KINDS: [Kind; 4] = [Kind::Route, Kind::StreamRoute, Kind::Service, Kind::Upstream];

/// Every resource that has checks.
pub(super) async fn all(control: &Control, html: bool) -> Answer {
    let mut found = Vec::new();
    for kind in KINDS {
        for entry in dump::entries(control, kind).await? {
            found.extend(checker(control, &entry.key, &dump::filled(kind, &entry)));
        }
    }
    // An empty table of Lua is an object in JSON: what APISIX's clients know.
    let list = if found.is_empty() { json!({}) } else { Value::from(found.as_slice()) };
    Ok(if html { page(&found) } else { AdminResponse::json(200, &list) })
}

/// One resource.
pub(super) async fn one(control: &Control, html: bool, collection: &str, id: &str) -> Answer {
    if id.is_empty() {
        return Err(AdminResponse::error(404, format!("missing src id for src type {collection}")));
    }
    let Some(kind) = Kind::from_collection(collection).filter(|kind| KINDS.contains(kind)) else {
        return Err(AdminResponse::error(400, format!("invalid src type {collection}")));
    };
    let Some(entry) = control.store.get(&kind.key(id)).await? else {
        return Err(AdminResponse::error(404, format!("{collection}[{id}] not found")));
    };
    match checker(control, &entry.key, &dump::filled(kind, &entry)) {
        Some(found) if html => Ok(page(&[found])),
        Some(found) => Ok(AdminResponse::json(200, &found)),
        None => Err(AdminResponse::error(404, format!("no checker for {collection}[{id}]"))),
    }
}

/// What is known of a resource's nodes; `None` for one without checks.
fn checker(control: &Control, key: &str, value: &Value) -> Option<Value> {
    let checks = value.get("checks").or_else(|| value.get("upstream")?.get("checks"))?;
    let of = |side: &str| checks.get(side)?.get("type");
    let kind = of("active").or_else(|| of("passive"));
    let nodes: Vec<Value> = control.health.nodes(key).iter().map(node).collect();
    Some(json!({ "name": control.shown_key(key), "type": kind, "nodes": nodes }))
}

fn node(node: &NodeHealth) -> Value {
    let mut shown = json!({
        "ip": node.ip,
        "port": node.port,
        "status": node.status,
        "counter": {
            "success": node.success,
            "tcp_failure": node.tcp_failures,
            "http_failure": node.http_failures,
            "timeout_failure": node.timeout_failures,
        },
    });
    if let Some(name) = &node.hostname {
        shown["hostname"] = name.as_str().into();
    }
    shown
}

/// The same for people.
fn page(checkers: &[Value]) -> AdminResponse {
    let mut rows = String::new();
    let nodes = checkers.iter().flat_map(|checker| {
        let nodes = checker["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        nodes.iter().map(move |node| (checker, node))
    });
    for (index, (checker, node)) in nodes.enumerate() {
        let status = text(&node["status"]);
        let color = if status.ends_with("unhealthy") { " bgcolor=\"#FF0000\"" } else { "" };
        let counter = &node["counter"];
        let cells = [
            (index + 1).to_string(),
            text(&checker["name"]),
            text(&checker["type"]),
            format!("{}:{}", text(&node["ip"]), text(&node["port"])),
            status,
            text(&counter["success"]),
            text(&counter["tcp_failure"]),
            text(&counter["http_failure"]),
            text(&counter["timeout_failure"]),
        ];
        let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
        // Writing to a string can't fail.
        let _ = writeln!(rows, "<tr{color}>{cells}</tr>");
    }
    let heads = [
        "Index",
        "Upstream",
        "Check type",
        "Host",
        "Status",
        "Success",
        "TCP failures",
        "HTTP failures",
        "Timeouts",
    ];
    let heads: String = heads.iter().map(|head| format!("<th>{head}</th>")).collect();
    let body = format!(
        "<!DOCTYPE html>\n<html><head><title>Upstream check status</title></head><body>\n\
         <h1>Upstream check status</h1>\n<table border=\"1\">\n<tr>{heads}</tr>\n{rows}</table></body></html>\n"
    );
    AdminResponse::text(200, &body).with("Content-Type", "text/html")
}

/// A value's text, safe within HTML.
fn text(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
