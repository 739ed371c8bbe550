//! `server` blocks: listeners, names, certificates.

use super::Out;
use super::location::{self, Site};
use super::scope::Scope;
use super::tree::Directive;
use super::upstream::{Group, host_port};
use crate::Verdict;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fs;

/// The name that stands for a server without one.
const NAMELESS: &str = "nameless";

/// What is known of a server before its locations are looked at.
struct Server<'d> {
    block: &'d Directive,
    ports: BTreeSet<u16>,
    names: Vec<String>,
    /// Whether it takes what no other server's name matches.
    default: bool,
}

/// A `listen` directive.
#[derive(Debug, PartialEq)]
struct Listen {
    ip: Option<String>,
    port: u16,
    tls: bool,
    http2: bool,
    default: bool,
}

/// Translates all servers of `http`.
pub(super) fn translate_all(out: &mut Out, scope: &Scope, blocks: &[&Directive], groups: &[Group]) {
    let mut servers: Vec<_> = blocks.iter().map(|block| outline(block)).collect();
    // The first server of a port takes what no name matches, unless another says that it does.
    let all_ports: BTreeSet<u16> = servers.iter().flat_map(|server| server.ports.clone()).collect();
    for port in &all_ports {
        let on_port = |server: &&mut Server<'_>| server.ports.contains(port);
        if !servers.iter().any(|server| server.default && server.ports.contains(port))
            && let Some(first) = servers.iter_mut().find(on_port)
        {
            first.default = true;
        }
    }
    let alike = servers.iter().all(|server| server.ports == all_ports);
    for (index, server) in servers.iter().enumerate() {
        translate(out, scope.clone(), server, groups, index, alike);
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
    let mut server = Server { block, ports: BTreeSet::new(), names: Vec::new(), default: false };
    for directive in block.block() {
        match directive.name.as_str() {
            "listen" => {
                if let Some(listen) = Listen::parse(directive) {
                    server.ports.insert(listen.port);
                    server.default |= listen.default;
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
    server: &Server<'_>,
    groups: &[Group],
    index: usize,
    alike: bool,
) {
    out.taken(server.block, "");
    let mut tls = Tls::default();
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
            other => location::action(out, directive).unwrap_or_else(|| {
                out.refuse(directive, format!("`{other}` has no counterpart"));
            }),
        }
    }
    tls.finish(out, server, index);
    let site = Site {
        index,
        hosts: if server.default { Vec::new() } else { server.names.clone() },
        ports: if alike { Vec::new() } else { server.ports.iter().copied().collect() },
        name: server.names.first().cloned().unwrap_or_else(|| "_".to_owned()),
    };
    location::translate_all(out, &scope, &site, server.block, groups);
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
    let Some(listen) = Listen::parse(directive) else {
        out.refuse(directive, "only an address with a port, or a port");
        return;
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
    fn parse(directive: &Directive) -> Option<Self> {
        let address = directive.arg(0);
        let flag = |name: &str| directive.args.iter().any(|arg| arg == name);
        if address.starts_with("unix:") || address.is_empty() {
            return None;
        }
        let (ip, port) = match address.parse::<u16>() {
            Ok(port) => (None, port),
            Err(_) => {
                let (host, port) = host_port(address, 80)?;
                let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                (Some(host).filter(|host| host != "*" && host != "0.0.0.0"), port)
            }
        };
        Some(Self { ip, port, tls: flag("ssl"), http2: flag("http2"), default: flag("default_server") })
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

/// Takes an `ssl_` directive that stands in `http`: what it says holds for all servers.
pub(super) fn tls_of_all(out: &mut Out, directive: &Directive) {
    if directive.name.starts_with("ssl_certificate") {
        return out.refuse(directive, "a certificate belongs to a server: move it there");
    }
    Tls::default().take(out, directive);
}

/// The `ssl_` directives of a server.
#[derive(Default)]
struct Tls {
    cert: Option<String>,
    key: Option<String>,
    /// A second certificate, for another kind of key.
    more: Vec<(String, Option<String>)>,
    client: Map<String, Value>,
}

impl Tls {
    fn take(&mut self, out: &mut Out, directive: &Directive) {
        let first = directive.arg(0);
        match directive.name.as_str() {
            "ssl_certificate" | "ssl_certificate_key" => self.pair(out, directive),
            "ssl_protocols" => protocols(out, directive),
            "ssl_ciphers" => {
                out.set("apisix.ssl.ssl_ciphers", json!(directive.args.join(" ")));
                out.taken(directive, "apisix.ssl.ssl_ciphers");
            }
            "ssl_session_tickets" => {
                out.set("apisix.ssl.ssl_session_tickets", json!(first != "off"));
                out.taken(directive, "apisix.ssl.ssl_session_tickets");
            }
            "ssl_prefer_server_ciphers" => {
                out.note(directive, Verdict::Equivalent, "all ciphers left are good ones");
            }
            "ssl_session_cache" | "ssl_session_timeout" => {
                out.note(directive, Verdict::Equivalent, "sessions are resumed by tickets");
            }
            "ssl_dhparam" | "ssl_ecdh_curve" | "ssl_buffer_size" | "ssl_early_data" => {
                out.note(directive, Verdict::Ignored, "");
            }
            "ssl_client_certificate" => match fs::read_to_string(out.absolute(first)) {
                Ok(text) => {
                    self.client.insert("ca".into(), json!(text));
                    out.taken(directive, "ssls: client.ca");
                }
                Err(error) => out.refuse(directive, format!("can't be read: {error}")),
            },
            "ssl_verify_client" if first == "on" => out.taken(directive, "ssls: client"),
            "ssl_verify_client" if first == "off" => {
                self.client.insert("off".into(), json!(true));
                out.taken(directive, "");
            }
            "ssl_verify_depth" => match first.parse::<u32>() {
                Ok(depth) => {
                    self.client.insert("depth".into(), json!(depth));
                    out.taken(directive, "ssls: client.depth");
                }
                Err(_) => out.refuse(directive, "not a number"),
            },
            other => out.refuse(directive, format!("`{other}` has no counterpart")),
        }
    }

    fn pair(&mut self, out: &mut Out, directive: &Directive) {
        let text = match fs::read_to_string(out.absolute(directive.arg(0))) {
            Ok(text) => text,
            Err(error) => return out.refuse(directive, format!("can't be read: {error}")),
        };
        match (directive.name == "ssl_certificate", &mut self.cert, &mut self.key) {
            (true, cert @ None, _) => *cert = Some(text),
            (true, Some(_), _) => self.more.push((text, None)),
            (false, _, key @ None) => *key = Some(text),
            (false, _, Some(_)) => match self.more.last_mut() {
                Some((_, key @ None)) => *key = Some(text),
                _ => return out.refuse(directive, "a key without its certificate before it"),
            },
        }
        out.taken(directive, "ssls");
    }

    fn finish(self, out: &mut Out, server: &Server<'_>, index: usize) {
        let (Some(cert), Some(key)) = (self.cert, self.key) else { return };
        let mut snis = server.names.clone();
        if server.default {
            // Clients that name nobody, or somebody else, get this certificate.
            let fallback = snis.first().cloned().unwrap_or_else(|| NAMELESS.to_owned());
            out.set("apisix.ssl.fallback_sni", json!(fallback.replace('*', "any")));
            snis.push("*".to_owned());
        }
        let mut ssl = json!({ "id": format!("nginx-{index}"), "snis": snis, "cert": cert, "key": key });
        let pairs: Vec<_> = self.more.into_iter().filter_map(|(cert, key)| Some((cert, key?))).collect();
        if !pairs.is_empty() {
            ssl["certs"] = pairs.iter().map(|(cert, _)| json!(cert)).collect();
            ssl["keys"] = pairs.iter().map(|(_, key)| json!(key)).collect();
        }
        if self.client.contains_key("ca") && !self.client.contains_key("off") {
            ssl["client"] = Value::Object(self.client);
        }
        out.ssls.push(ssl);
    }
}

fn protocols(out: &mut Out, directive: &Directive) {
    let (new, old): (Vec<_>, Vec<_>) =
        directive.args.iter().partition(|name| matches!(name.as_str(), "TLSv1.2" | "TLSv1.3"));
    if !new.is_empty() {
        let list = new.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ");
        out.set("apisix.ssl.ssl_protocols", json!(list));
        out.taken(directive, "apisix.ssl.ssl_protocols");
    }
    if !old.is_empty() {
        let list = old.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
        out.refuse(directive, format!("{list}: broken protocols that are not spoken (RFC 8996)"));
    }
}
