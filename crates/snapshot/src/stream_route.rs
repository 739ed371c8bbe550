//! Stream routes, compiled: which session goes where.
//!
//! The order of choice is APISIX's: first the routes that name the server name which the client asks for, the exact one
//! before wildcards and longer wildcards before shorter, then the routes that name none; among equals by id.

use crate::{Broken, Upstream};
use ipnet::IpNet;
use model::ConfigError;
use model::resource::StreamRoute as Written;
use plugin::{Chain, RouteInfo};
use std::cmp::Reverse;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A stream route, compiled.
#[derive(Debug)]
pub struct StreamRoute {
    /// What plugins and logs may know of it.
    pub info: RouteInfo,
    /// Plugins of route and service, merged in this order of precedence.
    pub chain: Chain,
    /// Where sessions go, unless a plugin says otherwise.
    pub upstream: Option<Arc<Upstream>>,
    /// A resource that the route needs and that does not exist.
    pub broken: Option<Broken>,
}

/// What a session is known by when its route is chosen.
#[derive(Debug, Clone, Copy)]
pub struct StreamFacts<'a> {
    /// The client's address.
    pub client: IpAddr,
    /// The address and port that it came to.
    pub local: SocketAddr,
    /// The name that a TLS client asked for, in lower case.
    pub server_name: Option<&'a str>,
}

/// All stream routes, in the order in which they are tried.
#[derive(Debug, Clone, Default)]
pub struct StreamRoutes(pub(crate) Arc<[(StreamMatch, Arc<StreamRoute>)]>);

/// Which sessions a stream route takes; what it doesn't name may be anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StreamMatch {
    client: Option<IpNet>,
    server: Option<IpNet>,
    port: Option<u16>,
    name: Option<Name>,
}

/// A server name in lower case, or the end of those that a wildcard takes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    Exact(String),
    Suffix(String),
}

impl StreamRoutes {
    /// The first route that takes the session.
    #[must_use]
    pub fn find(&self, facts: StreamFacts<'_>) -> Option<&Arc<StreamRoute>> {
        self.0.iter().find(|(matches, _)| matches.takes(facts)).map(|(_, route)| route)
    }
}

impl StreamMatch {
    /// Compiles what `written` says of sessions.
    ///
    /// # Errors
    /// Addresses that are none, with their paths in the route.
    pub(crate) fn compile(written: &Written) -> Result<Self, Vec<ConfigError>> {
        let mut errors = Vec::new();
        let mut network = |text: &Option<String>, path: &str| {
            let text = text.as_deref()?;
            let parsed = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
            parsed
                .inspect_err(|_| {
                    let name = path.trim_start_matches('/');
                    errors.push(ConfigError::new(path, format!("invalid {name}: {text}")));
                })
                .ok()
        };
        let client = network(&written.remote_addr, "/remote_addr");
        let server = network(&written.server_addr, "/server_addr");
        if !errors.is_empty() {
            return Err(errors);
        }
        let name = written.sni.as_deref().map(|name| {
            let name = name.to_ascii_lowercase();
            match name.strip_prefix('*') {
                Some(suffix) => Name::Suffix(suffix.to_owned()),
                None => Name::Exact(name),
            }
        });
        Ok(Self { client, server, port: written.server_port, name })
    }

    fn takes(&self, facts: StreamFacts<'_>) -> bool {
        self.client.is_none_or(|net| net.contains(&facts.client))
            && self.server.is_none_or(|net| net.contains(&facts.local.ip()))
            && self.port.is_none_or(|port| port == facts.local.port())
            && match (&self.name, facts.server_name) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(Name::Exact(name)), Some(asked)) => name == asked,
                // Unlike in certificates any number of labels will do.
                (Some(Name::Suffix(suffix)), Some(asked)) => asked.ends_with(suffix.as_str()),
            }
    }

    /// Smaller ones are tried first.
    pub(crate) fn rank(&self) -> (u8, Reverse<usize>) {
        match &self.name {
            Some(Name::Exact(_)) => (0, Reverse(0)),
            Some(Name::Suffix(suffix)) => (1, Reverse(suffix.len())),
            None => (2, Reverse(0)),
        }
    }
}
