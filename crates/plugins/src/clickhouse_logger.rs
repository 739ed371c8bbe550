//! Inserts log entries into a ClickHouse table over its HTTP interface.
//!
//! ## When to use
//! Use it when logs are analysed in ClickHouse. The table must have the columns that the entries name.
//!
//! ## Example
//! ```json
//! {
//!     "clickhouse-logger": {
//!         "endpoint_addrs": ["http://127.0.0.1:8123"],
//!         "user": "default",
//!         "password": "",
//!         "database": "default",
//!         "logtable": "requests"
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - Those of `http-logger`.
//! - Endpoints take turns, where APISIX picks one at random.

use crate::logging::{Collector, Logger};
use delivery::{Destination, HttpCollector};
use model::ConfigError;
use plugin::{CompileContext, PluginDef};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use stdx::Secret;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Logger<ClickhouseLogger>>("clickhouse-logger", 398)
        .encrypt_fields(&["password"])
        .on_access()
        .on_response()
        .on_log()
        .build()
}

/// Inserts into a table.
pub struct ClickhouseLogger;

/// What a user writes besides what all loggers have.
#[derive(Debug, Deserialize)]
pub struct Config {
    endpoint_addr: Option<String>,
    endpoint_addrs: Option<Vec<String>>,
    user: String,
    password: Secret,
    database: String,
    logtable: String,
    timeout: u64,
    ssl_verify: bool,
}

impl Collector for ClickhouseLogger {
    type Config = Config;
    const NAME: &'static str = "clickhouse logger";

    fn schema() -> Value {
        let uri = json!({"type": "string", "pattern": crate::logging::URI});
        let text = |description: &str| json!({"description": description, "type": "string", "default": ""});
        json!({
            "type": "object",
            "properties": {
                "endpoint_addr": uri,
                "endpoint_addrs": {
                    "description": "The servers' addresses, which take turns.",
                    "type": "array", "minItems": 1, "items": uri
                },
                "user": text("The user's name."),
                "password": text("The user's password."),
                "database": text("The database."),
                "logtable": text("The table."),
                "timeout": {"description": "Seconds for a batch.", "type": "integer", "minimum": 1, "default": 3},
                "ssl_verify": {
                    "description": "Whether a server's certificate has to be valid.", "type": "boolean", "default": true
                }
            },
            "oneOf": [
                {"required": ["endpoint_addr", "user", "password", "database", "logtable"]},
                {"required": ["endpoint_addrs", "user", "password", "database", "logtable"]}
            ]
        })
    }

    fn compile(
        config: Config,
        _: bool,
        _: &CompileContext<'_>,
    ) -> Result<(Self, Option<impl Destination>), Vec<ConfigError>> {
        let uris = config.endpoint_addr.map(|address| vec![address]).or(config.endpoint_addrs);
        let server = HttpCollector::new(
            uris.unwrap_or_default(),
            Duration::from_secs(config.timeout),
            config.ssl_verify,
        )
        .header("Content-Type", "application/json")
        .header("X-ClickHouse-User", config.user)
        .header("X-ClickHouse-Key", config.password)
        .header("X-ClickHouse-Database", config.database);
        Ok((
            Self,
            Some(Table { server, insert: format!("INSERT INTO {} FORMAT JSONEachRow ", config.logtable) }),
        ))
    }
}

/// A table of a server.
struct Table {
    server: HttpCollector,
    /// The statement that rows follow.
    insert: String,
}

impl Destination for Table {
    fn send(&self, entries: &[Vec<u8>]) -> Result<(), String> {
        self.server.post(&[self.insert.as_bytes(), &entries.join(&b' ')].concat())
    }
}
