//! Name servers: who is asked for names, and how they are written in configurations.

use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::{TokioResolver, system_conf};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// Reads a name server: an address, with a port unless it is 53.
#[must_use]
pub fn parse_server(text: &str) -> Option<SocketAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let alone = || bare.parse().ok().map(|ip: IpAddr| SocketAddr::new(ip, 53));
    text.parse().ok().or_else(alone).filter(|server: &SocketAddr| server.port() != 0)
}

/// A resolver that asks `servers`, each if the one before didn't answer. To be made where an event loop runs.
///
/// # Errors
/// When the system doesn't let it be made.
pub fn asking(servers: &[SocketAddr]) -> io::Result<TokioResolver> {
    let config = servers.iter().map(|server| {
        let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
        connections.iter_mut().for_each(|connection| connection.port = server.port());
        NameServerConfig::new(server.ip(), true, connections)
    });
    build(ResolverConfig::from_name_servers(config.collect()), ResolverOpts::default())
}

/// The largest file of name servers in bytes.
const RESOLV_CONF_BYTES_MAX: u64 = 1 << 20;

/// A resolver that asks whom this file in the form of `/etc/resolv.conf` names. To be made where an event loop runs.
///
/// # Errors
/// When the file can't be read.
pub fn asking_as_in(file: &Path) -> io::Result<TokioResolver> {
    let (config, options) = system_conf::parse_resolv_conf(stdx::file::read(file, RESOLV_CONF_BYTES_MAX)?)
        .map_err(io::Error::other)?;
    build(config, options)
}

fn build(config: ResolverConfig, options: ResolverOpts) -> io::Result<TokioResolver> {
    TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        .with_options(options)
        .build()
        .map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_addresses_with_a_port_or_without() {
        for (text, expected) in [
            ("127.0.0.1", Some("127.0.0.1:53")),
            ("127.0.0.1:1053", Some("127.0.0.1:1053")),
            ("::1", Some("[::1]:53")),
            ("[::1]", Some("[::1]:53")),
            ("[::1]:1053", Some("[::1]:1053")),
            ("127.0.0.1:0", None),
            ("dns.example", None),
            ("", None),
        ] {
            assert_eq!(parse_server(text).map(|server| server.to_string()).as_deref(), expected, "{text}");
        }
    }
}
