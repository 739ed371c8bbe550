//! Sends log entries to a UDP server in batches of JSON.
//!
//! ## When to use
//! Use it when losing an entry matters less than waiting for a collector. A batch must fit into a datagram of 64 KiB,
//! so `batch_max_size` should be small.
//!
//! ## Example
//! ```json
//! {
//!     "udp-logger": {
//!         "host": "127.0.0.1",
//!         "port": 3000,
//!         "batch_max_size": 10
//!     }
//! }
//! ```
//! Each batch is a JSON array; with a `batch_max_size` of 1 it is the entry itself.
//!
//! ## Differences from APISIX
//! Those of `http-logger`; `timeout` has no effect, since sending a datagram does not wait.

use crate::logging::{Collector, Logger};
use delivery::{Destination, Framing, UdpCollector};
use model::ConfigError;
use plugin::{CompileContext, PluginDef};
use serde::Deserialize;
use serde_json::{Value, json};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Logger<UdpLogger>>("udp-logger", 400).on_access().on_response().on_log().build()
}

/// Tells a UDP server.
pub struct UdpLogger;

/// What a user writes besides what all loggers have.
#[derive(Debug, Deserialize)]
pub struct Config {
    host: String,
    port: u64,
}

impl Collector for UdpLogger {
    type Config = Config;
    const NAME: &'static str = "udp logger";

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "host": {"description": "The server's name or address.", "type": "string"},
                "port": {"description": "Its port.", "type": "integer", "minimum": 0},
                "timeout": {"description": "No effect.", "type": "integer", "minimum": 1, "default": 3}
            },
            "required": ["host", "port"]
        })
    }

    fn compile(
        config: Config,
        batched: bool,
        _: &CompileContext<'_>,
    ) -> Result<(Self, Option<impl Destination>), Vec<ConfigError>> {
        let framing = if batched { Framing::Array } else { Framing::Plain };
        let port = crate::logging::port(config.port)?;
        Ok((Self, Some(UdpCollector { host: config.host, port, framing })))
    }
}
