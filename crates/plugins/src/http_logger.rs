//! Sends log entries to an HTTP server in batches of JSON.
//!
//! ## When to use
//! Use it with collectors that accept POST requests, such as Vector, Fluent Bit, Logstash or your own service.
//!
//! ## Example
//! ```json
//! {
//!     "http-logger": {
//!         "uri": "http://127.0.0.1:8080/logs",
//!         "log_format": {
//!             "@timestamp": "$time_iso8601",
//!             "client_ip": "$remote_addr",
//!             "status": "$status"
//!         },
//!         "batch_max_size": 100
//!     }
//! }
//! ```
//! A `log_format` in the plugin's metadata is the default of all configurations.
//!
//! ## Differences from APISIX
//! - Separate threads send the batches. When the process ends, incomplete batches are sent at once.
//! - Pending entries are limited to 64 MiB in addition to `max_pending_entries`.
//! - A request body longer than `max_req_body_bytes` is omitted, not truncated.
//! - If `log_format` contains `$request_body`, the body is read before the request is forwarded.

use crate::logging::{Collector, Logger};
use delivery::{Destination, Framing, HttpCollector};
use model::ConfigError;
use plugin::{CompileContext, PluginDef};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use stdx::Secret;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Logger<HttpLogger>>("http-logger", 410)
        .encrypt_fields(&["auth_header"])
        .on_access()
        .on_response()
        .on_log()
        .build()
}

/// Tells an HTTP server.
pub struct HttpLogger;

/// What a user writes besides what all loggers have.
#[derive(Debug, Deserialize)]
pub struct Config {
    uri: String,
    auth_header: Option<Secret>,
    timeout: u64,
    concat_method: Concat,
    ssl_verify: bool,
}

#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Concat {
    Json,
    NewLine,
}

impl Collector for HttpLogger {
    type Config = Config;
    const NAME: &'static str = "http logger";

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "uri": {
                    "description": "Where batches are sent.",
                    "type": "string",
                    "pattern": r"^[^\/]+:\/\/([\da-zA-Z.-]+|\[[\da-fA-F:]+\])(:\d+)?"
                },
                "auth_header": {"description": "The `Authorization` to send them with.", "type": "string"},
                "timeout": {
                    "description": "Seconds for a batch.", "type": "integer", "minimum": 1, "default": 3
                },
                "concat_method": {
                    "description": "Whether a batch is a JSON array or lines of JSON.",
                    "type": "string", "default": "json", "enum": ["json", "new_line"]
                },
                "ssl_verify": {
                    "description": "Whether the server's certificate has to be valid.",
                    "type": "boolean", "default": false
                }
            },
            "required": ["uri"]
        })
    }

    fn compile(
        config: Config,
        batched: bool,
        _: &CompileContext<'_>,
    ) -> Result<(Self, Option<impl Destination>), Vec<ConfigError>> {
        let lines = config.concat_method == Concat::NewLine;
        let media_type = if lines { "text/plain" } else { "application/json" };
        // A batch of one, where there are no others, is that entry.
        let framing = if batched && !lines { Framing::Array } else { Framing::Lines };
        let timeout = Duration::from_secs(config.timeout);
        let server = HttpCollector::new(vec![config.uri], timeout, config.ssl_verify)
            .header("Content-Type", media_type)
            .framing(framing);
        let server = match config.auth_header {
            Some(value) => server.header("Authorization", value),
            None => server,
        };
        Ok((Self, Some(server)))
    }
}
