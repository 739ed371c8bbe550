//! Name servers: who is asked for names, and how they are written in configurations.

use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::{TokioResolver, system_conf};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

/// Reads a name server: an address, with a port unless it is 53.
#[must_use]
pub fn parse_server(text: &str) -> Option<SocketAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let alone = || bare.parse().ok().map(|ip: IpAddr| SocketAddr::new(ip, 53));
    text.parse().ok().or_else(alone).filter(|server: &SocketAddr| server.port() != 0)
}

/// How names are resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asking {
    /// Name servers, each asked if the one before didn't answer; empty: those of the system.
    pub servers: Vec<SocketAddr>,
    /// How long an answer of one server is waited for.
    pub timeout: Duration,
    /// How long an answer is valid; `None`: as its TTL says.
    pub valid: Option<Duration>,
    /// Whether the system's search list completes names.
    pub search: bool,
}

impl Default for Asking {
    /// The system's servers, and APISIX's `resolver_timeout` of 5 seconds.
    fn default() -> Self {
        Self { servers: Vec::new(), timeout: Duration::from_secs(5), valid: None, search: true }
    }
}

impl Asking {
    /// Returns a resolver, to be made where an event loop runs.
    ///
    /// # Errors
    /// When the system's configuration can't be read and no server is named, or the system doesn't let it be made.
    pub fn resolver(&self) -> io::Result<TokioResolver> {
        let (config, options) = self.options(system_conf::read_system_conf().map_err(io::Error::other))?;
        build(config, options)
    }

    fn options(
        &self,
        system: io::Result<(ResolverConfig, ResolverOpts)>,
    ) -> io::Result<(ResolverConfig, ResolverOpts)> {
        let (config, mut options) = match (self.servers.is_empty(), system) {
            (true, system) => system?,
            (false, Ok(system)) => system,
            (false, Err(_)) => {
                (ResolverConfig::from_parts(None, Vec::new(), Vec::new()), ResolverOpts::default())
            }
        };
        let (domain, search, found) = config.into_parts();
        let servers = if self.servers.is_empty() { found } else { name_servers(&self.servers) };
        let (domain, search) = if self.search { (domain, search) } else { (None, Vec::new()) };
        options.timeout = self.timeout;
        if self.valid.is_some() {
            (options.positive_min_ttl, options.positive_max_ttl) = (self.valid, self.valid);
        }
        Ok((ResolverConfig::from_parts(domain, search, servers), options))
    }
}

/// A resolver that asks `servers`, each if the one before didn't answer. To be made where an event loop runs.
///
/// # Errors
/// When the system doesn't let it be made.
pub fn asking(servers: &[SocketAddr]) -> io::Result<TokioResolver> {
    build(ResolverConfig::from_name_servers(name_servers(servers)), ResolverOpts::default())
}

fn name_servers(servers: &[SocketAddr]) -> Vec<NameServerConfig> {
    let server = |server: &SocketAddr| {
        let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
        connections.iter_mut().for_each(|connection| connection.port = server.port());
        NameServerConfig::new(server.ip(), true, connections)
    };
    servers.iter().map(server).collect()
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
    fn the_settings_go_before_the_systems_and_keep_its_search_list() {
        let system = || {
            let text = "nameserver 192.0.2.1\nsearch a.test b.test\noptions ndots:3 timeout:9\n";
            system_conf::parse_resolv_conf(text).map_err(io::Error::other)
        };
        let names = |config: &ResolverConfig| -> Vec<String> {
            config.search().iter().map(|name| name.to_utf8()).collect()
        };
        let (config, options) = Asking::default().options(system()).expect("options");
        assert_eq!(config.name_servers()[0].ip.to_string(), "192.0.2.1");
        assert_eq!((names(&config).len(), options.ndots, options.timeout.as_secs()), (2, 3, 5));
        assert_eq!(options.positive_max_ttl, None);
        let asking = Asking {
            servers: vec!["192.0.2.9:5353".parse().expect("an address")],
            timeout: Duration::from_secs(1),
            valid: Some(Duration::from_secs(30)),
            search: false,
        };
        let (config, options) = asking.options(system()).expect("options");
        assert_eq!(config.name_servers()[0].connections[0].port, 5353);
        assert!(names(&config).is_empty() && config.domain().is_none());
        assert_eq!((options.timeout, options.positive_min_ttl), (asking.timeout, asking.valid));
        let nothing = || Err(io::Error::other("no file"));
        assert!(asking.options(nothing()).is_ok() && Asking::default().options(nothing()).is_err());
    }

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
