//! Engines for tests, and snapshots compiled from resources as the store would hold them.

use crate::config::{ClientLimits, EngineConfig, Listen, Serves, Streams};
use crate::{Bound, Context, Engine, RealIp};
use observe::Metrics;
use plugin::Registry;
use serde_json::Value;
use snapshot::{BuildOptions, Builder, Keepalive, Published};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use store::{Change, Entry};

const LIMIT: Duration = Duration::from_secs(60);

/// One worker on a port that the kernel chooses.
pub(crate) fn config() -> EngineConfig {
    EngineConfig {
        listen: vec![Listen {
            address: ([127, 0, 0, 1], 0).into(),
            optional: false,
            tls: false,
            proxy_protocol: false,
            serves: Serves::Http,
        }],
        workers: 1,
        exit_on_panic: false,
        worker_connections: 100,
        name_servers: Vec::new(),
        client: ClientLimits {
            keepalive_timeout: LIMIT,
            keepalive_requests: 1000,
            handshake_timeout: LIMIT,
            header_timeout: LIMIT,
            body_timeout: LIMIT,
            send_timeout: LIMIT,
            max_body_bytes: 0,
        },
        keepalive: Keepalive { size: 1, idle_timeout: None, requests: 1 },
        server: "test".to_owned(),
        show_upstream_status: false,
        trusted_addresses: Vec::new(),
        real_ip: RealIp::default(),
        paths: plugin::PathRules::default(),
        body_vars: plugin::BodyLimits::default(),
        http2: false,
        tls: None,
        upstream_tls: Arc::new(tls::Upstreams::new(tls::Trust::default()).expect("nothing to read")),
        gateway: plugin::Gateway::default(),
        mount: None,
        access_log: None,
        streams: Streams::default(),
    }
}

/// What the control plane is to the engine: a builder, and the snapshots that it publishes.
pub(crate) struct Control {
    builder: Builder,
    revision: u64,
    pub(crate) published: Arc<Published>,
}

impl Control {
    pub(crate) fn new(registry: Arc<Registry>) -> Self {
        let mut builder = Builder::new(registry, BuildOptions::default());
        let published = Arc::new(Published::new(builder.apply(0, [])));
        Self { builder, revision: 0, published }
    }

    pub(crate) fn put(&mut self, key: &str, value: &Value) {
        self.apply(Change::Put(Entry {
            key: key.into(),
            value: value.to_string().into_bytes().into(),
            create_revision: 0,
            mod_revision: 0,
            expires_at_ms: None,
        }));
    }

    pub(crate) fn delete(&mut self, key: &str) {
        self.apply(Change::Delete { key: key.into(), revision: self.revision });
    }

    fn apply(&mut self, change: Change) {
        self.revision += 1;
        let snapshot = self.builder.apply(self.revision, [&change]);
        assert_eq!(self.builder.problems().len(), 0, "{:?}", self.builder.problems());
        self.published.publish(snapshot);
    }

    /// Compiles everything by another registry.
    pub(crate) fn renew(&mut self, registry: Arc<Registry>) {
        let snapshot = self.builder.renew(self.revision, registry, BuildOptions::default());
        self.published.publish(snapshot);
    }

    /// Starts an engine for it: with its address.
    pub(crate) fn serve(&self, config: EngineConfig) -> (Engine, SocketAddr) {
        let bound = Bound::new(config).expect("a free port");
        let address = bound.addresses()[0];
        let published = Arc::clone(&self.published);
        let engine = bound.start(&Context { published, metrics: Arc::new(Metrics::default()) });
        (engine.expect("threads"), address)
    }
}
