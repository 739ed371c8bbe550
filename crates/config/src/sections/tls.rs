//! `apisix.ssl`: TLS with clients, and whom upstreams' certificates are trusted to be signed by.

use super::listening::Ports;
use super::node_listening::{self, Addresses};
use crate::reader::{Field, Section};
use crate::settings::defaults::TLS_PORT;
use crate::settings::{Tls, TrustedFile};
use document::Value;
use document::codes;
use tls::{Protocols, Refusal, Server, ServerOptions};

/// The settings of TLS.
pub(super) fn tls<'a>(apisix: &Section<'a>, ports: &mut Ports<'a>) -> Tls {
    let section = apisix.section("ssl");
    let ipv6 = apisix.bool("enable_ipv6", true);
    let mut addresses = Addresses::new("TLS with clients", ipv6);
    if section.bool("enable", true) {
        listen(&section, &mut addresses, ports);
    }
    let options = ServerOptions {
        protocols: protocols(&section),
        ciphers: section.text("ssl_ciphers").map(str::to_owned),
        tickets: section.bool("ssl_session_tickets", false),
        fallback_sni: section.text("fallback_sni").map(str::to_owned),
        alpn: match apisix.bool("enable_http2", true) {
            true => vec!["h2", "http/1.1"],
            false => vec!["http/1.1"],
        },
    };
    check(&section, &options);
    Tls { listen: addresses.listen, options, trusted: trusted(&section) }
}

fn listen<'a>(section: &Section<'a>, addresses: &mut Addresses, ports: &mut Ports<'a>) {
    let items = section.list("listen").unwrap_or_default();
    for field in &items {
        let Some((ip, port)) = node_listening::item(field, TLS_PORT) else { continue };
        addresses.add(ip, port, Some(field), ports);
    }
    if items.is_empty() {
        addresses.add(None, TLS_PORT, None, ports);
    }
}

/// In one text, as for nginx, or as a list.
fn protocols(section: &Section<'_>) -> Protocols {
    let Some(field) = section.field("ssl_protocols") else { return Protocols::default() };
    let texts = match field.value() {
        Value::List(_) => section.texts("ssl_protocols").unwrap_or_default(),
        _ => field.text().map(str::to_owned).into_iter().collect(),
    };
    let (protocols, refused) = Protocols::parse(texts.iter().flat_map(|text| text.split_whitespace()));
    warn(&field, &refused, "TLSv1.2 and TLSv1.3 are spoken");
    if protocols.is_empty() {
        field.fail::<()>("ssl_protocols leaves no supported version of TLS", "name TLSv1.2 or TLSv1.3");
        return Protocols::default();
    }
    protocols
}

/// Reports cipher suites that are asked for in vain, and settings that leave nothing.
fn check(section: &Section<'_>, options: &ServerOptions) {
    match (Server::new(options), section.field("ssl_ciphers")) {
        (Ok((_, refused)), Some(field)) => {
            warn(&field, &refused, "ECDHE with AES-GCM or ChaCha20-Poly1305 is spoken, and all of TLS 1.3");
        }
        (Err(_), Some(field)) => {
            field.fail::<()>(
                "ssl_ciphers leaves no supported cipher suite",
                "name one of TLS 1.2, or allow TLSv1.3",
            );
        }
        _ => {}
    }
}

fn warn(field: &Field<'_>, refused: &[Refusal], hint: &str) {
    for refusal in refused {
        field.warn(codes::NO_EFFECT, refusal.to_string(), hint);
    }
}

/// `system`, a file, or several with commas between them.
fn trusted(section: &Section<'_>) -> Vec<TrustedFile> {
    let text = section.text("ssl_trusted_certificate").unwrap_or("system");
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    let file = |name: &str| match name {
        "system" => TrustedFile::System,
        path => TrustedFile::Path(path.into()),
    };
    names.map(file).collect()
}
