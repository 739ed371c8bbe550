//! Addresses of the data plane as they are written: a port, or `{ip, port}`. A port without an address is on all.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::listening::Ports;
use crate::reader::Field;
use crate::settings::Listen;
use document::Value;

/// The addresses of one server, none twice.
pub(super) struct Addresses {
    server: &'static str,
    ipv6: bool,
    /// Those added.
    pub(super) listen: Vec<Listen>,
}

impl Addresses {
    /// None yet. With `ipv6` a port without an address is taken on IPv6 addresses too.
    pub(super) fn new(server: &'static str, ipv6: bool) -> Self {
        Self { server, ipv6, listen: Vec::new() }
    }

    /// One more; `field` is where it stands.
    pub(super) fn add<'a>(
        &mut self,
        ip: Option<IpAddr>,
        port: u16,
        field: Option<&Field<'a>>,
        ports: &mut Ports<'a>,
    ) {
        // Port 0 with two wildcards would give two different ports.
        let both = ip.is_none() && self.ipv6 && port != 0;
        let first = ip.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let second = both.then_some(IpAddr::from(Ipv6Addr::UNSPECIFIED));
        for (ip, implied) in [(Some(first), false), (second, true)] {
            let Some(ip) = ip else { continue };
            let address = SocketAddr::new(ip, port);
            // An address that stands twice is opened once, as in APISIX.
            if port == 0 || !self.listen.iter().any(|known| known.address == address) {
                self.listen.push(Listen { address, implied });
            }
            if !implied {
                ports.claim(self.server, address, field.cloned());
            }
        }
    }
}

/// The address that `field` names, its port `default_port` where it names none.
pub(super) fn item(field: &Field<'_>, default_port: u16) -> Option<(Option<IpAddr>, u16)> {
    if !matches!(field.value(), Value::Map(_)) {
        return field.port().map(|port| (None, port));
    }
    let item = field.as_section();
    let ip = match item.field("ip") {
        Some(ip) => Some(ip.ip()?),
        None => None,
    };
    let port = match item.field("port") {
        Some(port) => port.port()?,
        None => default_port,
    };
    Some((ip, port))
}
