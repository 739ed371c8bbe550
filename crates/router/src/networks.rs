//! Client addresses a route or an expression names: `127.0.0.1`, `10.0.0.0/8`, `::1`, `fe80::/16`.

use ipnet::IpNet;
use std::net::IpAddr;

/// A list of addresses and networks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks(Vec<IpNet>);

impl Networks {
    /// The list of `networks`.
    #[must_use]
    pub fn new(networks: Vec<IpNet>) -> Self {
        Self(networks)
    }

    /// Whether the list names nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `ip` lies in one of the networks. An IPv4 address that a dual-stack socket reports as IPv6 counts as
    /// the IPv4 address it is.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.0.iter().any(|network| network.contains(&ip))
    }
}

/// One entry of a list. The error is worded as lua-resty-ipmatcher's.
pub(crate) fn parse_network(text: &str) -> Result<IpNet, String> {
    let parsed = match text.split_once('/') {
        None => parse_ip(text).map(IpNet::from),
        Some((ip, bits)) => {
            let bits = bits.bytes().all(|byte| byte.is_ascii_digit()).then(|| bits.parse().ok()).flatten();
            parse_ip(ip).zip(bits).and_then(|(ip, bits)| IpNet::new(ip, bits).ok())
        }
    };
    parsed.ok_or_else(|| format!("invalid ip address: {text}"))
}

/// An address; one of IPv6 may stand in brackets.
pub(crate) fn parse_ip(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match bare {
        Some(bare) => bare.parse().ok().map(IpAddr::V6),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_networks_match_their_own_family() {
        let names = ["127.0.0.1", "192.168.0.0/16", "::2", "fe80::1/16", "[::7]"];
        let list = Networks::new(names.iter().map(|name| parse_network(name).expect(name)).collect());
        for (ip, expected) in [
            ("127.0.0.1", true),
            ("127.0.0.2", false),
            ("192.168.1.1", true),
            ("192.138.1.1", false),
            ("::2", true),
            ("::3", false),
            ("::7", true),
            ("fe80::9", true),
            ("fe81::1", false),
            ("::ffff:127.0.0.1", true),
        ] {
            assert_eq!(list.contains(ip.parse().expect(ip)), expected, "{ip}");
        }
        assert!(
            Networks::new(vec![parse_network("0.0.0.0/0").expect("any")])
                .contains(IpAddr::from([9, 9, 9, 9]))
        );
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "1.2.3", "1.2.3.4/33", "1.2.3.4/", "1.2.3.4/+8", "::1/129", "[1.2.3.4]", "localhost"]
        {
            assert_eq!(parse_network(text), Err(format!("invalid ip address: {text}")));
        }
    }
}
