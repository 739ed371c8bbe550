//! Certificates, and what is asked of clients'.

use super::Out;
use super::known::Server;
use super::tree::Directive;
use crate::Verdict;
use serde_json::{Map, Value, json};

/// The name that stands for a server without one.
const NAMELESS: &str = "nameless";

/// The `ssl_` directives of a server, those of `http` before its own.
#[derive(Debug, Clone, Default)]
pub(super) struct Tls {
    cert: Option<String>,
    key: Option<String>,
    /// A second certificate, for another kind of key.
    more: Vec<(String, Option<String>)>,
    /// How clients' certificates are verified, if they are.
    client: Map<String, Value>,
    verifies: bool,
}

impl Tls {
    /// Takes a directive that stands in `http`: what it says holds for all servers.
    pub(super) fn take_for_all(&mut self, out: &mut Out, directive: &Directive) {
        if directive.name.starts_with("ssl_certificate") {
            return out.refuse(directive, "a certificate belongs to a server: move it there");
        }
        self.take(out, directive);
    }

    /// Takes a directive of a server.
    pub(super) fn take(&mut self, out: &mut Out, directive: &Directive) {
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
            "ssl_client_certificate" => match out.read(first) {
                Ok(text) => {
                    self.client.insert("ca".into(), json!(text));
                    out.taken(directive, "ssls: client.ca");
                }
                Err(error) => out.refuse(directive, format!("can't be read: {error}")),
            },
            "ssl_verify_client" if matches!(first, "on" | "off") => {
                self.verifies = first == "on";
                out.taken(directive, "ssls: client");
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
        let text = match out.read(directive.arg(0)) {
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

    /// Whether clients' certificates are to be verified, and there is nothing to verify them by.
    pub(super) fn lacks_authority(&self) -> bool {
        self.verifies && !self.client.contains_key("ca")
    }

    /// Makes a certificate's resource of it all, where there is a certificate.
    pub(super) fn finish(self, out: &mut Out, server: &Server<'_>, index: usize) {
        let (Some(cert), Some(key)) = (self.cert, self.key) else { return };
        let mut snis = server.names.clone();
        if !server.default.is_empty() {
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
        if self.verifies && self.client.contains_key("ca") {
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
