//! Sends log entries of requests and stream sessions to a syslog server (RFC 5424) over TCP, TLS or UDP.
//!
//! ## When to use
//! Use it with rsyslog, syslog-ng or other collectors that accept syslog.
//!
//! ## Example
//! ```json
//! {
//!     "syslog": {
//!         "host": "127.0.0.1",
//!         "port": 514,
//!         "sock_type": "udp",
//!         "log_format": {
//!             "client_ip": "$remote_addr",
//!             "status": "$status"
//!         }
//!     }
//! }
//! ```
//! Each message is a line with severity `INFO`, facility `SYSLOG`, the request's host, `apisix`, the process id and the entry
//! in JSON. On stream routes, `log_format` here or in the metadata defines the entry.
//!
//! ## Differences from APISIX
//! - Those of `http-logger`.
//! - `"ssl_verify": false` disables the verification of the server's certificate.
//! - Over UDP, each message is a datagram of its own (RFC 5426).
//! - `flush_limit`, `drop_limit` and `pool_size` have no effect: entries are sent in batches, and pending entries are limited
//!   as in all loggers.
//! - Timestamps are local time with offset, with a resolution of one second.

use crate::logging::{Collector, Entry, Logger};
use delivery::{CollectorTls, Destination, Framing, TcpCollector, UdpCollector};
use model::ConfigError;
use model::var::{Var, VarSource};
use plugin::{CompileContext, PluginDef};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Logger<Syslog>>("syslog", 401).on_access().on_response().on_log().on_stream_log().build()
}

/// Facility `SYSLOG` (5) and severity `INFO` (6): RFC 5424 section 6.2.1.
const PRIORITY: u8 = 5 * 8 + 6;

/// Tells a syslog server.
pub struct Syslog;

/// What a user writes besides what all loggers have.
#[derive(Debug, Deserialize)]
pub struct Config {
    host: String,
    port: u64,
    timeout: u64,
    sock_type: Socket,
    tls: bool,
    ssl_verify: bool,
}

#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Socket {
    Tcp,
    Udp,
}

/// The server, over whichever it is.
enum Server {
    Tcp(TcpCollector),
    Udp(UdpCollector),
}

impl Destination for Server {
    fn send(&self, entries: &[Vec<u8>]) -> Result<(), String> {
        match self {
            Self::Tcp(server) => server.send(entries),
            Self::Udp(server) => server.send(entries),
        }
    }
}

impl Collector for Syslog {
    type Config = Config;
    const NAME: &'static str = "sys logger";

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "host": {"description": "The server's name or address.", "type": "string"},
                "port": {"description": "Its port.", "type": "integer"},
                "flush_limit": {"description": "No effect.", "type": "integer", "minimum": 1, "default": 4096},
                "drop_limit": {"description": "No effect.", "type": "integer", "default": 1_048_576},
                "timeout": {
                    "description": "Milliseconds for connecting, and for each write.",
                    "type": "integer", "minimum": 1, "default": 3000
                },
                "sock_type": {
                    "description": "What messages are sent over.",
                    "type": "string", "default": "tcp", "enum": ["tcp", "udp"]
                },
                "pool_size": {"description": "No effect.", "type": "integer", "minimum": 5, "default": 5},
                "tls": {"description": "Whether TLS is spoken over TCP.", "type": "boolean", "default": false},
                "ssl_verify": {
                    "description": "Whether the server's certificate is verified, where TLS is spoken.",
                    "type": "boolean", "default": true
                }
            },
            "required": ["host", "port"]
        })
    }

    fn compile(
        config: Config,
        _: bool,
        _: &CompileContext<'_>,
    ) -> Result<(Self, Option<impl Destination>), Vec<ConfigError>> {
        let (host, port, framing) = (config.host, crate::logging::port(config.port)?, Framing::Plain);
        let server = match config.sock_type {
            Socket::Udp => Server::Udp(UdpCollector { host, port, framing }),
            Socket::Tcp => {
                let timeout = Duration::from_millis(config.timeout);
                let tls = config
                    .tls
                    .then(|| CollectorTls::new(host.trim_matches(['[', ']']).to_owned(), config.ssl_verify));
                Server::Tcp(TcpCollector { host, port, timeout, tls, framing })
            }
        };
        Ok((Self, Some(server)))
    }

    fn render(&self, entry: Entry, exchange: &dyn VarSource) -> Vec<u8> {
        let text = |var: &Var| {
            let value = exchange.var(var).filter(|value| !value.is_empty());
            value.map_or_else(|| "-".to_owned(), |value| String::from_utf8_lossy(&value).into_owned())
        };
        let (time, host, pid) = (text(&Var::TimeIso8601), text(&Var::Host), text(&Var::Pid));
        format!("<{PRIORITY}>1 {time} {host} apisix {pid} - - {}\n", Value::Object(entry.fields)).into_bytes()
    }
}
