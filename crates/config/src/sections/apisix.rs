//! `apisix.*`: the data plane, and the addresses of the control and status servers.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use discovery::names::Asking;
use ipnet::IpNet;

use super::listening::Ports;
use super::node_listening::{self, Addresses};
use crate::reader::{Field, Section};
use crate::settings::defaults::{CONTROL_PORT, PROXY_PORT, STATUS_PORT};
use crate::settings::{Files, Listen, Proxy, RouterKind, loopback};
use document::Value;

/// The data plane's settings.
pub(super) fn proxy<'a>(apisix: &Section<'a>, graphql: &Section<'a>, ports: &mut Ports<'a>) -> Proxy {
    let default = Proxy::default();
    let ipv6 = apisix.bool("enable_ipv6", true);
    let routers = [
        ("radixtree_host_uri", RouterKind::HostUri),
        ("radixtree_uri", RouterKind::Uri),
        ("radixtree_uri_with_parameter", RouterKind::UriWithParameter),
    ];
    Proxy {
        listen: node_listen(apisix, ipv6, ports),
        http2: apisix.bool("enable_http2", default.http2),
        id: apisix.text("id").map(str::to_owned),
        server_tokens: apisix.bool("enable_server_tokens", default.server_tokens),
        show_upstream_status: apisix
            .bool("show_upstream_status_in_response_header", default.show_upstream_status),
        delete_uri_tail_slash: apisix.bool("delete_uri_tail_slash", default.delete_uri_tail_slash),
        normalize_uri_like_servlet: apisix
            .bool("normalize_uri_like_servlet", default.normalize_uri_like_servlet),
        match_uri_encoded_slash: apisix.bool("match_uri_encoded_slash", default.match_uri_encoded_slash),
        max_post_args_size: post_args_size(apisix).unwrap_or(default.max_post_args_size),
        graphql_max_size: graphql
            .field("max_size")
            .and_then(|field| field.integer(1..=i64::from(u32::MAX)))
            .and_then(|bytes| usize::try_from(bytes).ok())
            .unwrap_or(default.graphql_max_size),
        router: apisix.section("router").choice("http", &routers, default.router),
        names: names(apisix),
        trusted_addresses: trusted_addresses(apisix),
        disable_healthcheck: apisix.bool("disable_upstream_healthcheck", default.disable_healthcheck),
    }
}

/// `trusted_addresses`; as in APISIX's schema an empty list is a mistake.
fn trusted_addresses(apisix: &Section<'_>) -> Vec<IpNet> {
    let Some(items) = apisix.list("trusted_addresses") else { return Vec::new() };
    if let (true, Some(field)) = (items.is_empty(), apisix.field("trusted_addresses")) {
        field.fail::<()>("no address is named", "name one, such as 10.0.0.0/8, or remove the key");
    }
    items.iter().filter_map(Field::network).collect()
}

/// The files that resources may name.
pub(super) fn files(apisix: &Section<'_>) -> Files {
    let default = Files::default();
    let paths = |key: &str, relative: bool| {
        let items = apisix.list(key)?;
        Some(items.iter().filter_map(|item| folder(item, relative)).collect())
    };
    Files {
        static_roots: paths("static_roots", false).or(default.static_roots),
        log_roots: paths("log_roots", true).or(default.log_roots),
    }
}

fn folder(field: &Field<'_>, relative: bool) -> Option<PathBuf> {
    let path = PathBuf::from(field.text()?);
    if path.as_os_str().is_empty() || !(relative || path.is_absolute()) {
        return field.fail(format!("{path:?} is no absolute path"), "write it from the root, like /srv/www");
    }
    Some(path)
}

/// How names are resolved. A timeout of zero would be no name at all.
fn names(apisix: &Section<'_>) -> Asking {
    let default = Asking::default();
    let servers = apisix.list("dns_resolver").unwrap_or_default();
    Asking {
        servers: servers.iter().filter_map(name_server).collect(),
        timeout: apisix.duration("resolver_timeout", default.timeout).max(Duration::from_millis(100)),
        valid: apisix
            .field("dns_resolver_valid")
            .and_then(|field| field.integer(1..=i64::from(u32::MAX)))
            .map(|seconds| Duration::from_secs(seconds.unsigned_abs())),
        search: apisix.bool("enable_resolv_search_opt", default.search),
    }
}

fn name_server(field: &Field<'_>) -> Option<SocketAddr> {
    let text = field.text()?;
    if text.is_empty() && matches!(field.value(), Value::Filled(_)) {
        // A variable that is not set: told of already.
        return None;
    }
    discovery::names::parse_server(text).or_else(|| {
        field.fail(format!("{text:?} is no name server"), "write it like 1.1.1.1 or 127.0.0.1:8600")
    })
}

/// `max_post_args_readable_size`, which counts megabytes; 0 is without limit.
fn post_args_size(apisix: &Section<'_>) -> Option<usize> {
    let megabytes = apisix.field("max_post_args_readable_size")?.integer(0..=i64::from(u32::MAX))?;
    let bytes = usize::try_from(megabytes).ok()?.saturating_mul(1 << 20);
    Some(if bytes == 0 { usize::MAX } else { bytes })
}

/// The control API's address.
pub(super) fn control<'a>(apisix: &Section<'a>, ports: &mut Ports<'a>) -> Option<SocketAddr> {
    server(apisix, "enable_control", "control", "the control API", CONTROL_PORT, ports)
}

/// The status server's address.
pub(super) fn status<'a>(apisix: &Section<'a>, ports: &mut Ports<'a>) -> Option<SocketAddr> {
    server(apisix, "enable_status", "status", "the status server", STATUS_PORT, ports)
}

fn server<'a>(
    apisix: &Section<'a>,
    switch: &str,
    key: &str,
    name: &'static str,
    port: u16,
    ports: &mut Ports<'a>,
) -> Option<SocketAddr> {
    let (address, field) = apisix.section(key).address(loopback(port));
    if !apisix.bool(switch, true) {
        return None;
    }
    ports.claim(name, address, field);
    Some(address)
}

/// A port, a list of ports, or a list of `{ip, port}`. A port without an address is on all addresses. An empty list is
/// no port at all, as in APISIX: TLS alone.
fn node_listen<'a>(apisix: &Section<'a>, ipv6: bool, ports: &mut Ports<'a>) -> Vec<Listen> {
    let mut addresses = Addresses::new("the data plane", ipv6);
    let fields = match apisix.field("node_listen") {
        None => Vec::new(),
        Some(field) => match field.value() {
            Value::List(_) => field.list().unwrap_or_default(),
            _ => vec![field],
        },
    };
    for field in &fields {
        let Some((ip, port)) = listen_item(field) else { continue };
        addresses.add(ip, port, Some(field), ports);
    }
    if apisix.field("node_listen").is_none() {
        addresses.add(None, PROXY_PORT, None, ports);
    }
    addresses.listen
}

fn listen_item(field: &Field<'_>) -> Option<(Option<IpAddr>, u16)> {
    if let Value::Map(_) = field.value()
        && let Some(http2) = field.as_section().field("enable_http2")
    {
        return http2
            .fail("HTTP/2 is not switched for one port", "use apisix.enable_http2, as in APISIX since 3.9");
    }
    node_listening::item(field, PROXY_PORT)
}
