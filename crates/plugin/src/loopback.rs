//! The gateway's own listeners, for plugins that send requests to the gateway itself.

use crate::upstreams;
use crate::{ApiContext, CompileUpstream, Exchange, Shared, UpstreamChoice};
use serde_json::json;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use stdx::LazyPerWorker;

/// The listeners that exchanges came in by, as upstreams. A request of a client chooses neither the address nor the port:
/// both are those of the socket that the gateway accepted it on.
pub struct Loopback {
    compile: CompileUpstream,
    shared: Arc<Shared>,
    /// By what tells listeners apart. Each worker has its own, so that none waits for another; there are no more entries
    /// than four times the listeners.
    known: LazyPerWorker<HashMap<Listener, UpstreamChoice>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Listener {
    ipv6: bool,
    port: u16,
    tls: bool,
    ssl_verify: bool,
}

impl ApiContext<'_> {
    /// The gateway's own listeners.
    #[must_use]
    pub fn loopback(&self) -> Loopback {
        Loopback {
            compile: self.compile_upstream,
            shared: Arc::clone(self.shared),
            known: LazyPerWorker::new(|_| HashMap::new()),
        }
    }
}

impl Loopback {
    /// The listener that `exchange` came in by, at this machine's loopback address; over TLS where the client's connection
    /// is. `ssl_verify` says whether its certificate must be valid for the request's host. `None` where it can't be used
    /// as an upstream.
    #[must_use]
    pub fn listener(&self, exchange: &Exchange<'_>, ssl_verify: bool) -> Option<UpstreamChoice> {
        let local = exchange.client.local;
        let ipv6 = local.ip().to_canonical().is_ipv6();
        let listener = Listener { ipv6, port: local.port(), tls: exchange.client.tls.is_some(), ssl_verify };
        self.known.with(exchange.worker, |known| {
            if let Some(choice) = known.get(&listener) {
                return Some(choice.clone());
            }
            let choice = self.compile(listener)?;
            known.insert(listener, choice.clone());
            Some(choice)
        })
    }

    fn compile(&self, listener: Listener) -> Option<UpstreamChoice> {
        let ip =
            if listener.ipv6 { IpAddr::V6(Ipv6Addr::LOCALHOST) } else { IpAddr::V4(Ipv4Addr::LOCALHOST) };
        let written = json!({
            "type": "roundrobin",
            "scheme": if listener.tls { "https" } else { "http" },
            "nodes": [{ "host": ip.to_string(), "port": listener.port, "weight": 1 }],
            "retries": 0,
            "tls": { "verify": listener.ssl_verify },
        });
        upstreams::compile(self.compile, &self.shared, &written).ok()
    }
}

impl std::fmt::Debug for Loopback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loopback").finish_non_exhaustive()
    }
}
