//! Who a request comes from where a proxy stands before the gateway: nginx's realip module.

use ipnet::IpNet;
use std::net::{IpAddr, SocketAddr};
use wire::RequestView;

/// The `real_ip_header` that is none: the PROXY protocol's header is meant.
const PROXY_PROTOCOL: &str = "proxy_protocol";

/// Which proxies are believed, and where they say who their client is (`real_ip_from`, `real_ip_header`,
/// `real_ip_recursive`).
#[derive(Debug, Clone, Default)]
pub struct RealIp {
    /// The proxies; empty: nobody is believed.
    pub from: Vec<IpNet>,
    /// The field that names the client: one address, or a list of which the last is taken.
    pub header: String,
    /// Whether proxies in that list are passed over, from its end on.
    pub recursive: bool,
}

impl RealIp {
    /// Whether a peer at `address` is believed.
    pub(crate) fn believes(&self, address: IpAddr) -> bool {
        self.from.iter().any(|net| net.contains(&address))
    }

    /// Whether a request may have the field: what is asked first, because most have none.
    #[inline]
    pub(crate) fn may_name(&self, request: RequestView<'_>) -> bool {
        request.head.fields.iter().any(|field| field.name.len() == self.header.len())
    }

    /// Whether a peer at `address` is believed in what its PROXY protocol header says, and not in a field.
    pub(crate) fn believes_proxy_protocol(&self, address: IpAddr) -> bool {
        self.header == PROXY_PROTOCOL && self.believes(address)
    }

    /// The client that a believed peer names; `None` where it names none that can be read.
    pub(crate) fn client(&self, request: RequestView<'_>) -> Option<SocketAddr> {
        if self.header == PROXY_PROTOCOL {
            return None;
        }
        // Several fields of the name are one list (RFC 9110 section 5.3); looked at from its end.
        let fields: Vec<&[u8]> = request.headers(self.header.as_bytes()).collect();
        let mut found = None;
        for item in fields.iter().rev().flat_map(|field| field.rsplit(|byte| *byte == b',')) {
            let Some(address) = parse(item) else { break };
            found = Some(address);
            if !self.recursive || !self.believes(address.ip()) {
                break;
            }
        }
        found
    }
}

/// An address, with its port or without (0 then); IPv6 with a port in brackets.
fn parse(item: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(item).ok()?.trim();
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let alone = || bare.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, 0));
    alone().or_else(|| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::RequestHead;

    fn named(real_ip: &RealIp, fields: &str) -> Option<String> {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let mut head = RequestHead::default();
        assert!(head.parse(text.as_bytes()).unwrap());
        let view = RequestView { head: &head, bytes: text.as_bytes() };
        real_ip.client(view).map(|address| address.to_string())
    }

    #[test]
    fn the_last_client_that_is_no_known_proxy_is_taken() {
        let from = vec!["10.0.0.0/8".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
        let one = RealIp { from: from.clone(), header: "X-Real-IP".into(), recursive: false };
        let cases = [
            ("", None),
            ("X-Real-IP: 1.2.3.4\r\n", Some("1.2.3.4:0")),
            ("x-real-ip:  1.2.3.4:80 \r\n", Some("1.2.3.4:80")),
            ("X-Real-IP: 2001:db8::1\r\n", Some("[2001:db8::1]:0")),
            ("X-Real-IP: [2001:db8::1]:8\r\n", Some("[2001:db8::1]:8")),
            ("X-Real-IP: [::1]\r\n", Some("[::1]:0")),
            ("X-Real-IP: 9.9.9.9, 1.2.3.4\r\n", Some("1.2.3.4:0")),
            ("X-Real-IP: me\r\n", None),
            ("X-Real-IP: 1.2.3.4, \r\n", None),
        ];
        for (fields, expected) in cases {
            assert_eq!(named(&one, fields).as_deref(), expected, "{fields:?}");
        }
        let list = RealIp { from, header: "X-Forwarded-For".into(), recursive: true };
        let cases = [
            ("X-Forwarded-For: 9.9.9.9, 1.2.3.4, 10.0.0.1\r\n", Some("1.2.3.4:0")),
            ("X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-For: 10.0.0.1, 10.0.0.2\r\n", Some("1.2.3.4:0")),
            ("X-Forwarded-For: 10.0.0.2, 10.0.0.1\r\n", Some("10.0.0.2:0")),
            ("X-Forwarded-For: 1.2.3.4, junk, 10.0.0.1\r\n", Some("10.0.0.1:0")),
        ];
        for (fields, expected) in cases {
            assert_eq!(named(&list, fields).as_deref(), expected, "{fields:?}");
        }
        assert!(list.believes("10.1.2.3".parse().unwrap()) && !list.believes("1.2.3.4".parse().unwrap()));
    }
}
