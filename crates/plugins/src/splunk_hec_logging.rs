//! Sends log entries to Splunk's HTTP Event Collector (HEC) in batches.
//!
//! ## When to use
//! Use it when logs are kept in Splunk.
//!
//! ## Example
//! ```json
//! {
//!     "splunk-hec-logging": {
//!         "endpoint": {
//!             "uri": "https://splunk.example.com:8088/services/collector",
//!             "token": "BD274822-96AA-4DA6-90EC-18940FB2414C"
//!         }
//!     }
//! }
//! ```
//! An event has the request's URL, method, headers, query and size, the response's status, headers and size, the latency and
//! the upstream; or what a `log_format` says.
//!
//! ## Differences from APISIX
//! - Those of `http-logger`.
//! - `keepalive_timeout` has no effect: connections are kept as `http-logger` keeps them.

use crate::logging::{Collector, Entry, Logger};
use delivery::{Destination, Framing, HttpCollector};
use model::ConfigError;
use model::var::{Var, VarSource};
use plugin::{CompileContext, PluginDef};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::time::Duration;
use stdx::Secret;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Logger<SplunkHecLogging>>("splunk-hec-logging", 409)
        .encrypt_fields(&["endpoint.token"])
        .on_access()
        .on_response()
        .on_log()
        .build()
}

/// Renders events.
pub struct SplunkHecLogging;

/// What a user writes besides what all loggers have.
#[derive(Debug, Deserialize)]
pub struct Config {
    endpoint: Endpoint,
    ssl_verify: bool,
}

#[derive(Debug, Deserialize)]
struct Endpoint {
    uri: String,
    token: Secret,
    channel: Option<String>,
    timeout: u64,
}

/// The members of the default entry that an event doesn't have as they are.
const TAKEN_APART: &[&str] = &[
    "request",
    "response",
    "server",
    "service_id",
    "route_id",
    "consumer",
    "client_ip",
    "start_time",
    "upstream_latency",
    "apisix_latency",
];

impl Collector for SplunkHecLogging {
    type Config = Config;
    const NAME: &'static str = "splunk-hec-logging";

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "endpoint": {
                    "description": "The collector.",
                    "type": "object",
                    "properties": {
                        "uri": {"description": "Its address.", "type": "string", "pattern": crate::logging::URI},
                        "token": {"description": "The token that it knows.", "type": "string"},
                        "channel": {"description": "The channel of the requests.", "type": "string"},
                        "timeout": {
                            "description": "Seconds for a batch.", "type": "integer", "minimum": 1, "default": 10
                        },
                        "keepalive_timeout": {
                            "description": "No effect.", "type": "integer", "minimum": 1000, "default": 60000
                        }
                    },
                    "required": ["uri", "token"]
                },
                "ssl_verify": {
                    "description": "Whether the collector's certificate has to be valid.",
                    "type": "boolean", "default": true
                }
            },
            "required": ["endpoint"]
        })
    }

    fn compile(
        config: Config,
        _: bool,
        _: &CompileContext<'_>,
    ) -> Result<(Self, Option<impl Destination>), Vec<ConfigError>> {
        let Endpoint { uri, token, channel, timeout } = config.endpoint;
        let mut server = HttpCollector::new(vec![uri], Duration::from_secs(timeout), config.ssl_verify)
            .framing(Framing::Plain)
            .failure_from(201)
            .header("Content-Type", "application/json")
            .header("Authorization", format!("Splunk {}", token.as_str()));
        if let Some(channel) = channel {
            server = server.header("X-Splunk-Request-Channel", channel);
        }
        Ok((Self, Some(server)))
    }

    fn render(&self, entry: Entry, source: &dyn VarSource) -> Vec<u8> {
        let text = |var: &Var| source.var(var).map(|value| String::from_utf8_lossy(&value).into_owned());
        let time: f64 = text(&Var::Msec).and_then(|time| time.parse().ok()).unwrap_or_default();
        json!({
            "time": time,
            "host": text(&Var::Hostname).unwrap_or_default(),
            "source": "apache-apisix-splunk-hec-logging",
            "sourcetype": "_json",
            "event": if entry.custom { entry.fields } else { event(entry.fields) },
        })
        .to_string()
        .into_bytes()
    }
}

/// An event of the default entry.
fn event(mut entry: Map<String, Value>) -> Map<String, Value> {
    let mut event = Map::new();
    for (member, parts) in [
        ("request", &["url", "method", "headers", "query", "size"][..]),
        ("response", &["headers", "status", "size"]),
    ] {
        let Some(Value::Object(mut whole)) = entry.remove(member) else { continue };
        for part in parts {
            let name = if *part == "query" { "querystring" } else { part };
            if let Some(value) = whole.remove(name) {
                event.insert(format!("{member}_{part}"), value);
            }
        }
    }
    // The latency, the upstream, and what `log_format_extra` adds.
    let others = entry.into_iter().filter(|(name, _)| !TAKEN_APART.contains(&name.as_str()));
    for (name, value) in others {
        event.entry(name).or_insert(value);
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_entry_is_taken_apart() {
        let Value::Object(entry) = json!({
            "request": {"url": "http://a/", "method": "GET", "headers": {}, "querystring": {"a": "b"}, "size": 1, "uri": "/"},
            "response": {"status": 200, "headers": {"x": "y"}, "size": 2},
            "server": {"hostname": "h"}, "client_ip": "127.0.0.1", "latency": 3.5, "upstream": "127.0.0.1:80", "more": 1,
        }) else {
            panic!("an object")
        };
        let expected = json!({
            "request_url": "http://a/", "request_method": "GET", "request_headers": {}, "request_query": {"a": "b"},
            "request_size": 1, "response_headers": {"x": "y"}, "response_status": 200, "response_size": 2,
            "latency": 3.5, "upstream": "127.0.0.1:80", "more": 1,
        });
        assert_eq!(Value::Object(event(entry)), expected);
    }
}
