//! `server` blocks: listeners, names, certificates.

use super::Out;
use super::known::Server;
use super::location::{self, Site};
use super::scope::Scope;
use super::tls::Tls;
use super::tree::Directive;
use super::upstream::{Group, host_port};
use crate::Verdict;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// A `listen` directive.
#[derive(Debug, PartialEq)]
struct Listen {
    ip: Option<String>,
    port: u16,
    tls: bool,
    http2: bool,
    default: bool,
}

/// Translates all servers of `http`; `tls` is what that says for all of them.
pub(super) fn translate_all(
    out: &mut Out,
    scope: &Scope,
    tls: &Tls,
    blocks: &[&Directive],
    groups: &[Group],
) {
    let mut servers: Vec<_> = blocks.iter().map(|block| outline(block)).collect();
    // The first server of a port takes what no name matches, unless another says that it does.
    let all_ports: BTreeSet<u16> = servers.iter().flat_map(|server| server.ports.clone()).collect();
    for port in &all_ports {
        if !servers.iter().any(|server| server.default.contains(port))
            && let Some(first) = servers.iter_mut().find(|server| server.ports.contains(port))
        {
            first.default.insert(*port);
        }
    }
    let alike = servers.iter().all(|server| server.ports == all_ports);
    for (index, server) in servers.iter().enumerate() {
        translate(out, scope.inherited(server.block), tls.clone(), server, groups, index, alike);
    }
    close_defaults(out);
}

/// Shuts what Tidegate has open by default and nginx has not, and opens what is the other way round.
fn close_defaults(out: &mut Out) {
    if !out.has("/apisix/node_listen") {
        out.set("apisix.node_listen", json!([]));
    }
    if !out.has("/apisix/ssl/listen") {
        out.set("apisix.ssl.enable", json!(false));
    } else if !out.has("/apisix/ssl/ssl_session_tickets") {
        out.set("apisix.ssl.ssl_session_tickets", json!(true));
    }
}

fn outline(block: &Directive) -> Server<'_> {
    let mut server = Server { block, ports: BTreeSet::new(), names: Vec::new(), default: BTreeSet::new() };
    for directive in block.block() {
        match directive.name.as_str() {
            "listen" => {
                if let Ok(listen) = Listen::parse(directive) {
                    server.ports.insert(listen.port);
                    server.default.extend(listen.default.then_some(listen.port));
                }
            }
            "server_name" => server.names.extend(directive.args.iter().flat_map(|name| hosts(name))),
            _ => {}
        }
    }
    if server.ports.is_empty() {
        server.ports.insert(80);
    }
    server
}

/// The host patterns of a name; none for one that matches everything or can't be translated.
fn hosts(name: &str) -> Vec<String> {
    match name {
        "_" | "" => Vec::new(),
        regex if regex.starts_with('~') || regex.ends_with(".*") => Vec::new(),
        name => match name.strip_prefix('.') {
            Some(domain) => vec![domain.to_owned(), format!("*.{domain}")],
            None => vec![name.to_owned()],
        },
    }
}

fn translate(
    out: &mut Out,
    mut scope: Scope,
    mut tls: Tls,
    server: &Server<'_>,
    groups: &[Group],
    index: usize,
    alike: bool,
) {
    out.taken(server.block, "");
    let http2 =
        server.block.block().iter().any(|directive| directive.name == "http2" && directive.arg(0) == "on");
    if !server.block.block().iter().any(|directive| directive.name == "listen") {
        out.add("apisix.node_listen", json!({ "port": 80 }));
    }
    for directive in server.block.block() {
        match directive.name.as_str() {
            "location" => {}
            "listen" => listen(out, directive, http2),
            "http2" => out.taken(directive, ""),
            "server_name" => names(out, directive),
            name if name.starts_with("ssl_") => tls.take(out, directive),
            _ if scope.take(out, directive) => {}
            "access_log" if directive.arg(0) == "off" => {
                out.note(directive, Verdict::Ignored, "one access log for all servers");
            }
            "access_log" | "error_log" => out.refuse(directive, "one log for all servers"),
            "client_max_body_size"
            | "keepalive_timeout"
            | "keepalive_requests"
            | "client_body_timeout"
            | "client_header_timeout"
            | "send_timeout"
            | "server_tokens" => {
                out.refuse(directive, "one setting for all servers: move it to `http`");
            }
            answer if location::ANSWERS.contains(&answer) => {}
            other => {
                out.refuse(directive, format!("`{other}` has no counterpart"));
                if other == "if" && turns_away(directive) {
                    scope.bar(directive);
                }
            }
        }
    }
    if tls.lacks_authority() {
        out.refuse(server.block, "`ssl_verify_client` without an `ssl_client_certificate`: 501 is answered");
        scope.bar(server.block);
    }
    tls.finish(out, server, index);
    let locations = location::translate_all(out, &scope, server.block, groups);
    for site in sites(server, index, alike) {
        site.push_all(out, &locations);
    }
}

/// Whether an `if` keeps clients out: without it they would get in.
fn turns_away(condition: &Directive) -> bool {
    condition.block().iter().any(|inner| inner.name == "return" && inner.arg(0).starts_with('4'))
}

/// Where a server's requests come from: by its names, and all others of the ports whose default it is. None where no
/// request reaches it.
fn sites(server: &Server<'_>, index: usize, alike: bool) -> Vec<Site> {
    let Server { names, default, .. } = server;
    let name = names.first().cloned().unwrap_or_else(|| "_".to_owned());
    let named: Vec<u16> = server.ports.difference(default).copied().collect();
    let mut sites = Vec::new();
    if !default.is_empty() {
        let ports = if alike && named.is_empty() { Vec::new() } else { default.iter().copied().collect() };
        sites.push(Site { id: index.to_string(), hosts: Vec::new(), ports, name: name.clone() });
    }
    if !named.is_empty() && !names.is_empty() {
        let ports = if alike && default.is_empty() { Vec::new() } else { named };
        let id = if default.is_empty() { index.to_string() } else { format!("{index}-named") };
        sites.push(Site { id, hosts: names.clone(), ports, name });
    }
    sites
}

fn names(out: &mut Out, directive: &Directive) {
    for name in &directive.args {
        if name.starts_with('~') || name.ends_with(".*") {
            out.refuse(directive, format!("{name}: a name is exact or begins with `*.`"));
            return;
        }
    }
    out.taken(directive, "hosts");
}

fn listen(out: &mut Out, directive: &Directive, http2_on: bool) {
    let listen = match Listen::parse(directive) {
        Ok(listen) => listen,
        Err(reason) => return out.refuse(directive, reason),
    };
    let path = if listen.tls { "apisix.ssl.listen" } else { "apisix.node_listen" };
    if listen.http2 || http2_on {
        // One switch for all ports, as in APISIX.
        out.set("apisix.enable_http2", json!(true));
    }
    if listen.ip.as_deref() == Some("::") {
        out.set("apisix.enable_ipv6", json!(true));
        out.add(path, Listen { ip: None, ..listen }.entry());
    } else {
        out.add(path, listen.entry());
    }
    if path == "apisix.ssl.listen" {
        out.set("apisix.ssl.enable", json!(true));
    }
    out.taken(directive, path);
}

impl Listen {
    fn parse(directive: &Directive) -> Result<Self, &'static str> {
        const UNKNOWN: &str = "only an address with a port, or a port";
        let address = directive.arg(0);
        let flag = |name: &str| directive.args.iter().any(|arg| arg == name);
        if address.starts_with("unix:") || address.is_empty() {
            return Err(UNKNOWN);
        }
        if flag("quic") {
            return Err("HTTP/3 is not spoken");
        }
        if flag("proxy_protocol") {
            return Err("see `apisix.proxy_protocol` in the configuration file");
        }
        let (ip, port) = match address.parse::<u16>() {
            Ok(port) => (None, port),
            Err(_) => {
                let (host, port) = host_port(address, 80).ok_or(UNKNOWN)?;
                let host = host.trim_start_matches('[').trim_end_matches(']');
                let host = if host == "localhost" { "127.0.0.1" } else { host };
                if host != "*" && host.parse::<IpAddr>().is_err() {
                    return Err(UNKNOWN);
                }
                (Some(host.to_owned()).filter(|host| host != "*" && host != "0.0.0.0"), port)
            }
        };
        let default = flag("default_server") || flag("default");
        Ok(Self { ip, port, tls: flag("ssl"), http2: flag("http2"), default })
    }

    fn entry(&self) -> Value {
        let mut entry = Map::new();
        if let Some(ip) = &self.ip {
            entry.insert("ip".into(), json!(ip));
        }
        entry.insert("port".into(), json!(self.port));
        Value::Object(entry)
    }
}
