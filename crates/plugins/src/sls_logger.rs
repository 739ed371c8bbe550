//! Sends log entries to Alibaba Cloud's Simple Log Service, as syslog messages (RFC 5424) over TLS.
//!
//! ## When to use
//! Use it when logs are kept in Alibaba Cloud.
//!
//! ## Example
//! ```json
//! {
//!     "sls-logger": {
//!         "host": "project.region.log.aliyuncs.com",
//!         "port": 10009,
//!         "project": "gateway",
//!         "logstore": "requests",
//!         "access_key_id": "id",
//!         "access_key_secret": "secret"
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! Those of `http-logger`.

use crate::logging::{Collector, Entry, Logger, zulu};
use delivery::{CollectorTls, Destination, Framing, TcpCollector};
use model::ConfigError;
use model::var::{Var, VarSource};
use plugin::{CompileContext, PluginDef};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use stdx::Secret;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Logger<SlsLogger>>("sls-logger", 406)
        .encrypt_fields(&["access_key_secret"])
        .on_access()
        .on_response()
        .on_log()
        .build()
}

/// Facility `SYSLOG` (5) and severity `INFO` (6): RFC 5424 section 6.2.1.
const PRIORITY: u8 = 5 * 8 + 6;

/// Renders messages.
pub struct SlsLogger {
    /// The structured data of each message: the store and the key.
    data: Secret,
}

/// What a user writes besides what all loggers have.
#[derive(Debug, Deserialize)]
pub struct Config {
    host: String,
    port: u64,
    timeout: u64,
    project: String,
    logstore: String,
    access_key_id: String,
    access_key_secret: Secret,
    ssl_verify: bool,
}

impl Collector for SlsLogger {
    type Config = Config;
    const NAME: &'static str = "sls-logger";

    fn schema() -> Value {
        let text = |description: &str| json!({"description": description, "type": "string"});
        json!({
            "type": "object",
            "properties": {
                "host": text("The service's name."),
                "port": {"description": "Its port.", "type": "integer"},
                "timeout": {
                    "description": "Milliseconds for connecting, and for each write.",
                    "type": "integer", "minimum": 1, "default": 5000
                },
                "project": text("The project."),
                "logstore": text("The log store."),
                "access_key_id": text("The key's id."),
                "access_key_secret": text("The key."),
                "ssl_verify": {
                    "description": "Whether the service's certificate has to be valid.", "type": "boolean", "default": true
                }
            },
            "required": ["host", "port", "project", "logstore", "access_key_id", "access_key_secret"]
        })
    }

    fn compile(
        config: Config,
        _: bool,
        _: &CompileContext<'_>,
    ) -> Result<(Self, Option<impl Destination>), Vec<ConfigError>> {
        let data = [
            ("project", config.project.as_str()),
            ("logstore", config.logstore.as_str()),
            ("access-key-id", config.access_key_id.as_str()),
            ("access-key-secret", config.access_key_secret.as_str()),
        ]
        .map(|(name, value)| format!(" {name}=\"{}\"", escaped(value)));
        let name = config.host.trim_matches(['[', ']']).to_owned();
        let server = TcpCollector {
            port: crate::logging::port(config.port)?,
            timeout: Duration::from_millis(config.timeout),
            tls: Some(CollectorTls::new(name, config.ssl_verify)),
            framing: Framing::Plain,
            host: config.host,
        };
        Ok((Self { data: format!("[logservice{}]", data.concat()).into() }, Some(server)))
    }

    fn render(&self, entry: Entry, source: &dyn VarSource) -> Vec<u8> {
        let text = |var: &Var| {
            let value = source.var(var).filter(|value| !value.is_empty());
            value.map_or_else(|| "-".to_owned(), |value| String::from_utf8_lossy(&value).into_owned())
        };
        let (time, host, pid) = (zulu(source), text(&Var::Host), text(&Var::Pid));
        let entry = Value::Object(entry.fields);
        format!("<{PRIORITY}>1 {time} {host} apisix {pid} - {} {entry}\n", self.data.as_str()).into_bytes()
    }
}

/// A value of structured data: RFC 5424 section 6.3.3.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace(']', "\\]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_end_where_they_should() {
        assert_eq!(escaped(r#"a"b]c\d"#), r#"a\"b\]c\\d"#);
    }
}
