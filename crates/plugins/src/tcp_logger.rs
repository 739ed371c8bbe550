//! Sends log entries to a TCP server in batches of JSON.
//!
//! ## When to use
//! Use it with collectors that listen on a TCP port, with or without TLS, such as Logstash, Fluentd or Vector.
//!
//! ## Example
//! ```json
//! {
//!     "tcp-logger": {
//!         "host": "127.0.0.1",
//!         "port": 5044,
//!         "batch_max_size": 100
//!     }
//! }
//! ```
//! Each batch is a JSON array on a connection of its own; with `batch_max_size` 1 it is the entry itself.
//!
//! ## Differences from APISIX
//! Those of `http-logger`. With `tls` the server's certificate is verified for `tls_options`, or else `host`, against
//! `apisix.ssl.ssl_trusted_certificate`; APISIX accepts any certificate, as `"ssl_verify": false` does here.

use crate::logging::{Collector, Logger};
use delivery::{CollectorTls, Destination, Framing, TcpCollector};
use model::ConfigError;
use plugin::{CompileContext, PluginDef};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Logger<TcpLogger>>("tcp-logger", 405).on_access().on_response().on_log().build()
}

/// Tells a TCP server.
pub struct TcpLogger;

/// What a user writes besides what all loggers have.
#[derive(Debug, Deserialize)]
pub struct Config {
    host: String,
    port: u64,
    tls: bool,
    tls_options: Option<String>,
    ssl_verify: bool,
    timeout: u64,
}

impl Collector for TcpLogger {
    type Config = Config;
    const NAME: &'static str = "tcp logger";

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "host": {"description": "The server's name or address.", "type": "string"},
                "port": {"description": "Its port.", "type": "integer", "minimum": 0},
                "tls": {"description": "Whether TLS is spoken with it.", "type": "boolean", "default": false},
                "tls_options": {
                    "description": "The name to ask for in the handshake, where that is not `host`.", "type": "string"
                },
                "ssl_verify": {
                    "description": "Whether the server's certificate is verified, where TLS is spoken.",
                    "type": "boolean", "default": true
                },
                "timeout": {
                    "description": "Milliseconds for connecting, and for each write.",
                    "type": "integer", "minimum": 1, "default": 1000
                }
            },
            "required": ["host", "port"]
        })
    }

    fn compile(
        config: Config,
        batched: bool,
        _: &CompileContext<'_>,
    ) -> Result<(Self, Option<impl Destination>), Vec<ConfigError>> {
        let server = TcpCollector {
            port: crate::logging::port(config.port)?,
            timeout: Duration::from_millis(config.timeout),
            tls: config.tls.then(|| {
                let name =
                    config.tls_options.unwrap_or_else(|| config.host.trim_matches(['[', ']']).to_owned());
                CollectorTls::new(name, config.ssl_verify)
            }),
            framing: if batched { Framing::Array } else { Framing::Plain },
            host: config.host,
        };
        Ok((Self, Some(server)))
    }
}
