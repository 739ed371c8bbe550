//! Sends log entries to SolarWinds Loggly, as syslog messages over UDP or in batches over HTTP.
//!
//! ## When to use
//! Use it when logs are kept in Loggly.
//!
//! ## Example
//! ```json
//! {
//!     "loggly": {
//!         "customer_token": "0e6fe4bf-376e-40f4-b25f-1d55cb29f5a2",
//!         "tags": ["gateway"],
//!         "severity_map": {"503": "err"}
//!     }
//! }
//! ```
//! The plugin's metadata names the destination: `host`, `port`, `protocol` (`syslog`, `http` or `https`) and `timeout`.
//!
//! ## Differences from APISIX
//! Those of `http-logger`.

use crate::logging::{Collector, Entry, Logger, zulu};
use delivery::{Destination, Framing, HttpCollector, UdpCollector};
use model::ConfigError;
use model::var::{Var, VarSource};
use plugin::{CompileContext, PluginDef};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Secret;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Logger<Loggly>>("loggly", 411)
        .encrypt_fields(&["customer_token"])
        .on_access()
        .on_response()
        .on_log()
        .build()
}

/// Syslog's severities by their numbers, with APISIX's names.
const SEVERITIES: [&str; 8] = ["EMEGR", "ALERT", "CRIT", "ERR", "WARNING", "NOTICE", "INFO", "DEBUG"];

/// Facility `USER`: RFC 5424 section 6.2.1.
const FACILITY: usize = 8;

/// Renders entries, as messages of syslog where that is the protocol.
pub struct Loggly {
    /// `None` where entries are sent as they are.
    syslog: Option<Syslog>,
}

struct Syslog {
    /// Token and tags: the structured data of each message.
    data: Secret,
    severity: usize,
    by_status: BTreeMap<String, usize>,
}

/// What a user writes besides what all loggers have.
#[derive(Debug, Deserialize)]
pub struct Config {
    customer_token: Secret,
    severity: String,
    tags: Vec<String>,
    ssl_verify: bool,
    #[serde(default)]
    severity_map: BTreeMap<String, String>,
}

/// The metadata.
#[derive(Debug, Deserialize)]
#[serde(default)]
struct Target {
    host: String,
    port: u64,
    protocol: String,
    timeout: u64,
}

impl Default for Target {
    fn default() -> Self {
        let (host, protocol) = ("logs-01.loggly.com".to_owned(), "syslog".to_owned());
        Self { host, port: 514, protocol, timeout: 5000 }
    }
}

fn severity(name: &str) -> usize {
    let info = 6;
    SEVERITIES.iter().position(|known| known.eq_ignore_ascii_case(name)).unwrap_or(info)
}

/// Loggly, over whichever protocol it is.
enum Server {
    Udp(UdpCollector),
    Http(HttpCollector),
}

impl Destination for Server {
    fn send(&self, entries: &[Vec<u8>]) -> Result<(), String> {
        match self {
            Self::Udp(server) => server.send(entries),
            Self::Http(server) => server.send(entries),
        }
    }
}

impl Collector for Loggly {
    type Config = Config;
    const NAME: &'static str = "loggly";

    fn schema() -> Value {
        let severities: Vec<String> =
            SEVERITIES.iter().flat_map(|name| [(*name).to_owned(), name.to_ascii_lowercase()]).collect();
        json!({
            "type": "object",
            "properties": {
                "customer_token": {"description": "The token of the account.", "type": "string"},
                "severity": {
                    "description": "The severity of messages.",
                    "type": "string", "default": "INFO", "enum": severities
                },
                "severity_map": {
                    "description": "The severity of messages by the response's status.",
                    "type": "object",
                    "patternProperties": {"^[1-5][0-9]{2}$": {"type": "string", "enum": severities}},
                    "additionalProperties": false
                },
                "tags": {
                    "description": "Tags of messages.",
                    "type": "array", "minItems": 1, "default": ["apisix"],
                    "items": {"type": "string", "pattern": "^(?!tag=)[ -~]*"}
                },
                "ssl_verify": {
                    "description": "Whether Loggly's certificate has to be valid, over HTTPS.",
                    "type": "boolean", "default": true
                }
            },
            "required": ["customer_token"]
        })
    }

    fn metadata_properties() -> Value {
        let Target { host, port, protocol, timeout } = Target::default();
        json!({
            "host": {"description": "Loggly's name.", "type": "string", "default": host},
            "port": {"description": "Its port for syslog.", "type": "integer", "default": port},
            "protocol": {
                "description": "How it is spoken with.",
                "type": "string", "default": protocol, "enum": ["syslog", "http", "https"]
            },
            "timeout": {
                "description": "Milliseconds for a batch.", "type": "integer", "minimum": 1, "default": timeout
            }
        })
    }

    fn compile(
        config: Config,
        _: bool,
        cx: &CompileContext<'_>,
    ) -> Result<(Self, Option<impl Destination>), Vec<ConfigError>> {
        let target = cx.metadata.and_then(|metadata| Target::deserialize(metadata).ok()).unwrap_or_default();
        let token = config.customer_token.as_str();
        if target.protocol == "syslog" {
            let tags: Vec<String> = config.tags.iter().map(|tag| format!("tag=\"{tag}\"")).collect();
            let syslog = Syslog {
                data: format!("[{token}@41058 {}]", tags.join(" ")).into(),
                severity: severity(&config.severity),
                by_status: config
                    .severity_map
                    .iter()
                    .map(|(status, name)| (status.clone(), severity(name)))
                    .collect(),
            };
            let port = crate::logging::port(target.port)?;
            let server = UdpCollector { host: target.host, port, framing: Framing::Plain };
            return Ok((Self { syslog: Some(syslog) }, Some(Server::Udp(server))));
        }
        let scheme =
            if target.host.starts_with("http") { String::new() } else { format!("{}://", target.protocol) };
        let uri = format!("{scheme}{}/bulk/{token}/tag/bulk", target.host);
        let server = HttpCollector::new(vec![uri], Duration::from_millis(target.timeout), config.ssl_verify)
            .failure_from(201)
            .header("Content-Type", "application/json")
            .header("X-LOGGLY-TAG", config.tags.join(","));
        Ok((Self { syslog: None }, Some(Server::Http(server))))
    }

    fn render(&self, entry: Entry, source: &dyn VarSource) -> Vec<u8> {
        let entry = Value::Object(entry.fields).to_string();
        let Some(syslog) = &self.syslog else { return entry.into_bytes() };
        let text = |var: &Var| {
            let value = source.var(var).filter(|value| !value.is_empty());
            value.map_or_else(|| "-".to_owned(), |value| String::from_utf8_lossy(&value).into_owned())
        };
        let severity = syslog.by_status.get(&text(&Var::Status)).copied().unwrap_or(syslog.severity);
        let (priority, time, host, pid) =
            (FACILITY + severity, zulu(source), text(&Var::Host), text(&Var::Pid));
        format!("<{priority}>1 {time} {host} apisix {pid} - {} {entry}", syslog.data.as_str()).into_bytes()
    }
}
