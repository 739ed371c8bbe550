//! The values that hold where `config.yaml` says nothing.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use discovery::names::Asking;
use observe::access_log::{BUFFER_DEFAULT, DEFAULT_FORMAT};
use observe::error_log::Level;
use plugin::BodyLimits;

use super::{
    AccessLog, Admin, AdminVersion, Escape, Files, Http, Listen, Logs, Metrics, Process, Proxy, RouterKind,
    Tls, TrustedFile, UpstreamPool, loopback,
};

/// The data plane's port.
pub const PROXY_PORT: u16 = 9080;
/// The data plane's port for TLS.
pub const TLS_PORT: u16 = 9443;
/// The Admin API's port.
pub const ADMIN_PORT: u16 = 9180;
/// The control API's port.
pub const CONTROL_PORT: u16 = 9090;
/// The port of `/status`.
pub const STATUS_PORT: u16 = 7085;
/// The metrics' port.
pub const METRICS_PORT: u16 = 9091;

/// The memory in bytes of one Lua VM.
pub const LUA_MEMORY: usize = 128 << 20;
/// How long Lua code may run without waiting.
pub const LUA_TIME_SLICE: Duration = Duration::from_millis(50);

/// The access log of streams.
pub const STREAM_LOG: &str = "logs/access_stream.log";
/// What it says of a session.
pub const STREAM_FORMAT: &str =
    "$remote_addr [$time_local] $protocol $status $bytes_sent $bytes_received $session_time";

/// The latency histogram's bounds, in milliseconds.
const BUCKETS_MS: [f64; 15] = [
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0, 30_000.0,
    60_000.0,
];

impl Default for Tls {
    fn default() -> Self {
        Self {
            listen: vec![Listen {
                address: SocketAddr::from((Ipv4Addr::UNSPECIFIED, TLS_PORT)),
                implied: false,
            }],
            options: tls::ServerOptions { alpn: vec!["h2", "http/1.1"], ..tls::ServerOptions::default() },
            trusted: vec![TrustedFile::System],
        }
    }
}

impl Default for Proxy {
    fn default() -> Self {
        Self {
            id: None,
            listen: vec![Listen {
                address: SocketAddr::from((Ipv4Addr::UNSPECIFIED, PROXY_PORT)),
                implied: false,
            }],
            http2: true,
            server_tokens: true,
            show_upstream_status: false,
            delete_uri_tail_slash: false,
            normalize_uri_like_servlet: false,
            match_uri_encoded_slash: false,
            max_post_args_size: BodyLimits::default().fields,
            graphql_max_size: BodyLimits::default().graphql,
            router: RouterKind::HostUri,
            names: Asking::default(),
            trusted_addresses: Vec::new(),
            disable_healthcheck: false,
        }
    }
}

impl Default for Process {
    fn default() -> Self {
        Self {
            workers: None,
            cpu_affinity: false,
            open_files: 20_480,
            shutdown_timeout: Duration::from_secs(240),
            exits_on_panic: false,
            worker_connections: 10_620,
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self {
            keepalive_timeout: Duration::from_secs(60),
            keepalive_requests: 1_000,
            // As Envoy's and HAProxy's guides advise: a handshake is two round trips, and holds a session's memory.
            ssl_handshake_timeout: Duration::from_secs(10),
            // nginx's and APISIX's: browsers open connections ahead, and drop a pool whose connections end early.
            client_header_timeout: Duration::from_secs(60),
            client_body_timeout: Duration::from_secs(60),
            client_max_body_size: 0,
            send_timeout: Duration::from_secs(10),
            underscores_in_headers: true,
            real_ip_header: "X-Real-IP".into(),
            real_ip_recursive: false,
            real_ip_from: vec![std::net::IpAddr::from(Ipv4Addr::LOCALHOST).into()],
            upstream: UpstreamPool {
                keepalive: 320,
                keepalive_requests: 1_000,
                keepalive_timeout: Duration::from_secs(60),
            },
        }
    }
}

impl Default for Logs {
    fn default() -> Self {
        Self {
            error_log: "logs/error.log".into(),
            error_log_named: false,
            level: Level::Notice,
            access: Some(AccessLog::default()),
            streams: None,
        }
    }
}

impl Default for AccessLog {
    fn default() -> Self {
        Self {
            path: "logs/access.log".into(),
            buffer: BUFFER_DEFAULT,
            format: DEFAULT_FORMAT.into(),
            escape: Escape::Default,
        }
    }
}

impl Default for Files {
    fn default() -> Self {
        Self { static_roots: Some(Vec::new()), log_roots: Some(vec!["logs".into()]) }
    }
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            listen: loopback(ADMIN_PORT),
            on_data_ports: false,
            key_required: true,
            keys: Vec::new(),
            allow: vec![ipnet::Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 24).into()],
            version: AdminVersion::V3,
            cors: false,
            streams: false,
            tls: None,
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            listen: Some(loopback(METRICS_PORT)),
            uri: "/apisix/prometheus/metrics".into(),
            prefix: "apisix_".into(),
            buckets: BUCKETS_MS.to_vec(),
        }
    }
}
