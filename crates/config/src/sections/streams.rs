//! `apisix.stream_proxy`, `apisix.proxy_protocol` and `nginx_config.stream`: TCP and UDP.

use document::codes;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::listening::Ports;
use super::node_listening::Addresses;
use crate::reader::{Field, Section};
use crate::settings::{Listen, ProxyProtocol, StreamListen, Streams};
use document::Value;
use wire::proxy_protocol::Version;

/// Ports of one range. Each is a socket per worker, so a larger range is a mistake more often than a wish.
const RANGE_MAX: u16 = 1024;

const ADDRESS_HINT: &str = "write a port, an address with a port, or a range such as 127.0.0.1:2000-2100";

/// What `proxy_mode` asks for.
#[derive(Clone, Copy)]
pub(super) struct Mode {
    pub(super) http: bool,
    pub(super) streams: bool,
}

/// By the words of `proxy_mode`.
pub(super) const MODES: [(&str, Mode); 3] = [
    ("http", Mode { http: true, streams: false }),
    ("stream", Mode { http: false, streams: true }),
    ("http&stream", Mode { http: true, streams: true }),
];

/// The ports of streams, and whom they believe; none where the mode has no streams.
pub(super) fn streams<'a>(
    apisix: &Section<'a>,
    nginx: &Section<'a>,
    mode: Mode,
    ports: &mut Ports<'a>,
) -> Streams {
    let proxy = apisix.section("stream_proxy");
    let own = apisix.section("proxy_protocol");
    let default = StreamListen {
        address: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        tls: false,
        proxy_protocol: own.bool("enable_tcp_pp", false),
        proxy_protocol_to_upstream: header(&own, "enable_tcp_pp_to_upstream", None),
    };
    let mut streams = Streams {
        real_ip_from: nginx
            .section("stream")
            .list("real_ip_from")
            .unwrap_or_default()
            .iter()
            .filter_map(Field::network)
            .collect(),
        ..Streams::default()
    };
    for field in proxy.list("tcp").unwrap_or_default() {
        for listen in tcp(&field, default).unwrap_or_default() {
            if is_new(&field, listen.address, streams.tcp.iter().map(|known| known.address)) && mode.streams {
                ports.claim("the stream proxy", listen.address, Some(field.clone()));
            }
            streams.tcp.push(listen);
        }
    }
    for field in proxy.list("udp").unwrap_or_default() {
        for address in addresses(&field).unwrap_or_default() {
            is_new(&field, address, streams.udp.iter().copied());
            streams.udp.push(address);
        }
    }
    if mode.streams {
        return streams;
    }
    if let Some(field) =
        apisix.field("stream_proxy").filter(|_| !streams.tcp.is_empty() || !streams.udp.is_empty())
    {
        field.warn(
            codes::NO_EFFECT,
            "without effect: apisix.proxy_mode has no streams",
            "set it to http&stream",
        );
    }
    Streams::default()
}

/// The ports of HTTP that stand behind proxies which speak the PROXY protocol.
pub(super) fn proxy_protocol<'a>(apisix: &Section<'a>, ports: &mut Ports<'a>) -> ProxyProtocol {
    let section = apisix.section("proxy_protocol");
    let ipv6 = apisix.bool("enable_ipv6", true);
    let mut listen = |key: &str| -> Vec<Listen> {
        let mut addresses = Addresses::new("the PROXY protocol", ipv6);
        if let Some(field) = section.field(key)
            && let Some(port) = field.port()
        {
            addresses.add(None, port, Some(&field), ports);
        }
        addresses.listen
    };
    ProxyProtocol { http: listen("listen_http_port"), https: listen("listen_https_port") }
}

fn tcp(field: &Field<'_>, default: StreamListen) -> Option<Vec<StreamListen>> {
    let (addresses, listen) = if let Value::Map(_) = field.value() {
        let item = field.as_section();
        let Some(address) = item.field("addr") else {
            return field.fail("a port of streams needs `addr`", ADDRESS_HINT);
        };
        let listen = StreamListen {
            tls: item.bool("tls", false),
            proxy_protocol: item.bool("proxy_protocol", default.proxy_protocol),
            proxy_protocol_to_upstream: header(
                &item,
                "proxy_protocol_to_upstream",
                default.proxy_protocol_to_upstream,
            ),
            ..default
        };
        (addresses(&address)?, listen)
    } else {
        (addresses(field)?, default)
    };
    Some(addresses.into_iter().map(|address| StreamListen { address, ..listen }).collect())
}

/// The header that upstreams get: as in APISIX `true` is version 1; the versions' names are ours.
fn header(section: &Section<'_>, key: &str, default: Option<Version>) -> Option<Version> {
    let Some(field) = section.field(key) else { return default };
    match field.value() {
        Value::Text(text) | Value::Filled(text) if text.starts_with('v') => {
            field.choice(&[("v1", Version::V1), ("v2", Version::V2)])
        }
        _ => field.bool().unwrap_or(false).then_some(Version::V1),
    }
}

/// The addresses that a port, an address with one, or one with a range of ports stands for. A port alone is one of all
/// IPv4 addresses, as for nginx.
fn addresses(field: &Field<'_>) -> Option<Vec<SocketAddr>> {
    let text = match field.value() {
        Value::Int(_) => return Some(vec![SocketAddr::from((Ipv4Addr::UNSPECIFIED, field.port()?))]),
        _ => field.text()?,
    };
    let (ip, ports) = text.rsplit_once(':').unwrap_or(("0.0.0.0", text));
    let bare = ip.strip_prefix('[').and_then(|ip| ip.strip_suffix(']')).unwrap_or(ip);
    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
    let parsed = (bare.parse::<IpAddr>(), first.trim().parse::<u16>(), last.trim().parse::<u16>());
    let (Ok(ip), Ok(first), Ok(last)) = parsed else {
        return field.fail(format!("expected an address of streams, found {text:?}"), ADDRESS_HINT);
    };
    if last < first || last - first >= RANGE_MAX {
        let message = format!("expected a range of 1 to {RANGE_MAX} ports, found {ports}");
        return field.fail(message, "the first port stands before the last");
    }
    Some((first..=last).map(|port| SocketAddr::new(ip, port)).collect())
}

/// Whether `address` is not among `known`; a second listener could never be told from the first.
fn is_new(field: &Field<'_>, address: SocketAddr, mut known: impl Iterator<Item = SocketAddr>) -> bool {
    let new = address.port() == 0 || known.all(|other| other != address);
    if !new {
        field.fail::<()>(format!("{address} stands here twice"), "name it once");
    }
    new
}

#[cfg(test)]
mod tests {
    use crate::read_text;
    use crate::settings::Settings;

    fn settings(text: &str) -> Settings {
        read_text("f", text, &|_| None).unwrap_or_else(|report| panic!("{report}")).settings
    }

    fn shown(settings: &Settings) -> (Vec<String>, Vec<String>) {
        let flags = |on: bool, flag: &str| if on { format!(" {flag}") } else { String::new() };
        let tcp = settings.streams.tcp.iter().map(|listen| {
            let (tls, proxy) = (flags(listen.tls, "tls"), flags(listen.proxy_protocol, "in"));
            let out = listen.proxy_protocol_to_upstream.map(|version| format!(" out {version:?}"));
            format!("{}{tls}{proxy}{}", listen.address, out.unwrap_or_default())
        });
        (tcp.collect(), settings.streams.udp.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn ports_of_streams_are_written_in_many_ways() {
        let text = "apisix:\n  proxy_mode: http&stream\n  proxy_protocol: {enable_tcp_pp: true}\n  stream_proxy:\n    \
                    tcp: [9100, '127.0.0.1:9101', '2000-2001', {addr: '[::1]:9103', tls: true, proxy_protocol: false},\n      \
                    {addr: 9104, proxy_protocol_to_upstream: true}, {addr: 9105, proxy_protocol_to_upstream: v2}]\n    udp: [9200, '127.0.0.1:9300-9301']\n";
        let (tcp, udp) = shown(&settings(text));
        let expected = [
            "0.0.0.0:9100 in",
            "127.0.0.1:9101 in",
            "0.0.0.0:2000 in",
            "0.0.0.0:2001 in",
            "[::1]:9103 tls",
            "0.0.0.0:9104 in out V1",
            "0.0.0.0:9105 in out V2",
        ];
        assert_eq!(tcp, expected);
        assert_eq!(udp, ["0.0.0.0:9200", "127.0.0.1:9300", "127.0.0.1:9301"]);
    }

    #[test]
    fn the_mode_decides_what_is_listened_on() {
        let ports = "  stream_proxy: {tcp: [9100]}\n";
        let stream = settings(&format!("apisix:\n  proxy_mode: stream\n{ports}"));
        assert_eq!((stream.streams.tcp.len(), stream.proxy.listen.len(), stream.tls.listen.len()), (1, 0, 0));
        assert!(stream.admin.unwrap().streams);
        let loaded = read_text("f", &format!("apisix:\n{ports}"), &|_| None).unwrap();
        assert!(loaded.settings.streams.tcp.is_empty());
        let warning = &loaded.warnings.diagnostics[0];
        let at = warning.at.unwrap();
        assert_eq!((at.line, at.column, warning.path.as_str()), (2, 17, "apisix.stream_proxy"));
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (value, path, column) in [
            ("{tcp: [nowhere:1]}", "apisix.stream_proxy.tcp[0]", 24),
            ("{tcp: [{tls: true}]}", "apisix.stream_proxy.tcp[0]", 24),
            ("{tcp: [{addr: 1-9999}]}", "apisix.stream_proxy.tcp[0].addr", 31),
            ("{tcp: ['9-8']}", "apisix.stream_proxy.tcp[0]", 24),
            (
                "{tcp: [{addr: 1, proxy_protocol_to_upstream: v3}]}",
                "apisix.stream_proxy.tcp[0].proxy_protocol_to_upstream",
                62,
            ),
            ("{tcp: [91000]}", "apisix.stream_proxy.tcp[0]", 24),
            ("{udp: [9200, 9200]}", "apisix.stream_proxy.udp[1]", 30),
        ] {
            let text = format!("apisix:\n  proxy_mode: stream\n  stream_proxy: {value}\n");
            let report = read_text("f", &text, &|_| None).expect_err(value);
            let problem = &report.diagnostics[0];
            let at = problem.at.unwrap();
            assert_eq!((problem.path.as_str(), at.line, at.column), (path, 3, column), "{report}");
        }
    }

    #[test]
    fn ports_behind_proxies_are_ports_of_http() {
        let text =
            "apisix: {enable_ipv6: false, proxy_protocol: {listen_http_port: 9181, listen_https_port: 9182}}";
        let read = settings(text).proxy_protocol;
        assert_eq!((read.http[0].address.port(), read.https[0].address.port()), (9181, 9182));
    }
}
