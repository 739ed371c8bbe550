//! Appends a log entry in JSON to a file for each request.
//!
//! ## When to use
//! Use it to log some routes to a file of their own, or in a format that the access log does not offer.
//!
//! ## Example
//! ```json
//! {
//!     "file-logger": {
//!         "path": "logs/orders.log",
//!         "log_format": {
//!             "@timestamp": "$time_iso8601",
//!             "client_ip": "$remote_addr"
//!         },
//!         "match": [[["status", ">=", 400]]]
//!     }
//! }
//! ```
//! The file and its directory are created if they are missing. A relative path starts in the data directory. SIGUSR1 reopens
//! the files. A `path` in the metadata is the default of all configurations.
//!
//! ## Differences from APISIX
//! - A thread of its own writes the lines, so that no worker waits for a disk. The differences of `http-logger` apply.
//! - The file has to be below a folder of `apisix.log_roots` in `config.yaml`, by default `logs` in the data directory.
//!   The Admin API refuses other paths; a stored configuration with one logs nothing, and the error log says so.
//! - A configuration without a `path` is accepted where the metadata has none either; it logs nothing, and the error log
//!   reports it.

use crate::logging::{Collector, Logger};
use delivery::{Destination, LogFile};
use model::ConfigError;
use plugin::{CompileContext, PluginDef};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Logger<FileLogger>>("file-logger", 399).on_access().on_response().on_log().build()
}

/// Writes to a file.
pub struct FileLogger;

/// What a user writes besides what all loggers have.
#[derive(Debug, Deserialize)]
pub struct Config {
    path: Option<String>,
}

impl Collector for FileLogger {
    type Config = Config;
    const NAME: &'static str = "file logger";
    const BATCHES: bool = false;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"description": "The file.", "type": "string"},
                "match": {
                    "description": "Lists of conditions, of which one has to hold.",
                    "type": "array", "maxItems": 20, "items": {"type": "array"}
                }
            }
        })
    }

    fn metadata_properties() -> Value {
        json!({"path": {"description": "The file of configurations that name none.", "type": "string"}})
    }

    fn compile(
        config: Config,
        _: bool,
        cx: &CompileContext<'_>,
    ) -> Result<(Self, Option<impl Destination>), Vec<ConfigError>> {
        let resource = cx.parent.resource_key;
        let general = || cx.metadata?.get("path")?.as_str().map(str::to_owned);
        let own = config.path.is_some();
        let Some(path) = config.path.or_else(general) else {
            if !resource.is_empty() {
                tracing::warn!(
                    resource,
                    "file-logger logs nothing: neither it nor its metadata has a `path`"
                );
            }
            return Ok((Self, None));
        };
        let file = LogFile::new(Path::new(&path), cx.shared.get(), &cx.files().log_roots);
        if file.is_none() {
            let message = format!("{path:?} is below none of the folders of apisix.log_roots in config.yaml");
            // A stored resource is served without its log rather than not at all.
            if own && resource.is_empty() {
                return Err(vec![ConfigError::new("/path", message)]);
            }
            tracing::error!(resource, "file-logger logs nothing: {message}");
        }
        Ok((Self, file))
    }
}
