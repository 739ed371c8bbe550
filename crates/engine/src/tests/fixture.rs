//! Engines for tests.

use crate::RealIp;
use crate::config::{ClientLimits, EngineConfig, Listen, Serves, Streams};
use snapshot::Keepalive;
use std::sync::Arc;
use std::time::Duration;

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
