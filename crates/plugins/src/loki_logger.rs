//! Pushes log entries to Grafana Loki in batches.
//!
//! ## When to use
//! Use it when logs are kept in Loki and no agent reads log files.
//!
//! ## Example
//! ```json
//! {
//!     "loki-logger": {
//!         "endpoint_addrs": ["http://127.0.0.1:3100"],
//!         "log_labels": {"job": "gateway", "route": "$route_name"}
//!     }
//! }
//! ```
//! Entries of a batch with the same labels form one stream. Labels can contain variables.
//!
//! ## Differences from APISIX
//! - Those of `http-logger`.
//! - Endpoints take turns, where APISIX picks one at random.
//! - `keepalive`, `keepalive_timeout` and `keepalive_pool` have no effect: connections are pooled as in `http-logger`.

use crate::logging::{Collector, Entry, Logger, began_s, checked_headers};
use delivery::{Destination, HttpCollector};
use model::ConfigError;
use model::var::{Template, VarSource};
use plugin::{CompileContext, PluginDef};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Secret;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Logger<LokiLogger>>("loki-logger", 414)
        .encrypt_fields(&["headers"])
        .on_access()
        .on_response()
        .on_log()
        .build()
}

/// Renders entries with the labels of their stream.
pub struct LokiLogger {
    labels: Vec<(String, String, Template)>,
}

/// What a user writes besides what all loggers have.
#[derive(Debug, Deserialize)]
pub struct Config {
    endpoint_addrs: Vec<String>,
    endpoint_uri: String,
    tenant_id: String,
    #[serde(default)]
    headers: BTreeMap<String, Secret>,
    log_labels: BTreeMap<String, String>,
    ssl_verify: bool,
    timeout: u64,
}

/// What stands between the labels, the time and the line of an entry: JSON and numbers have no such byte.
const SEPARATOR: u8 = 0;

impl Collector for LokiLogger {
    type Config = Config;
    const NAME: &'static str = "loki-logger";

    fn schema() -> Value {
        let texts =
            json!({"type": "object", "patternProperties": {".*": {"type": "string", "minLength": 1}}});
        let mut labels = texts.clone();
        labels["description"] = "The labels of the streams; values may have variables.".into();
        labels["default"] = json!({"job": "apisix"});
        json!({
            "type": "object",
            "properties": {
                "endpoint_addrs": {
                    "description": "Loki's addresses, which take turns.",
                    "type": "array", "minItems": 1,
                    "items": {"type": "string", "pattern": crate::logging::URI}
                },
                "endpoint_uri": {
                    "description": "The path of its push API.",
                    "type": "string", "minLength": 1, "default": "/loki/api/v1/push"
                },
                "tenant_id": {"description": "Its tenant.", "type": "string", "default": "fake"},
                "headers": texts,
                "log_labels": labels,
                "ssl_verify": {
                    "description": "Whether its certificate has to be valid.", "type": "boolean", "default": false
                },
                "timeout": {
                    "description": "Milliseconds for a batch.",
                    "type": "integer", "minimum": 1, "maximum": 60000, "default": 3000
                },
                "keepalive": {"description": "No effect.", "type": "boolean", "default": true},
                "keepalive_timeout": {
                    "description": "No effect.", "type": "integer", "minimum": 1000, "default": 60000
                },
                "keepalive_pool": {"description": "No effect.", "type": "integer", "minimum": 1, "default": 5}
            },
            "required": ["endpoint_addrs"]
        })
    }

    fn compile(
        config: Config,
        _: bool,
        _: &CompileContext<'_>,
    ) -> Result<(Self, Option<impl Destination>), Vec<ConfigError>> {
        let uris = config.endpoint_addrs.iter().map(|address| format!("{address}{}", config.endpoint_uri));
        let mut server =
            HttpCollector::new(uris.collect(), Duration::from_millis(config.timeout), config.ssl_verify)
                .failure_from(300)
                .header("Content-Type", "application/json")
                .header("X-Scope-OrgID", config.tenant_id);
        let own = ["content-type", "x-scope-orgid"];
        for (name, value) in checked_headers(config.headers)? {
            if !own.contains(&name.to_ascii_lowercase().as_str()) {
                server = server.header(name, value);
            }
        }
        let labels = config.log_labels.into_iter();
        let labels = labels.map(|(name, text)| {
            let template = Template::parse(&text);
            (name, text, template)
        });
        Ok((Self { labels: labels.collect() }, Some(Loki(server))))
    }

    fn render(&self, mut entry: Entry, source: &dyn VarSource) -> Vec<u8> {
        entry.fields.entry("route_id").or_insert_with(|| "no-matched".into());
        let labels: serde_json::Map<_, _> = self
            .labels
            .iter()
            .map(|(name, text, template)| {
                let mut value = Vec::new();
                // A label none of whose variables is known stays as it is written.
                let known = template.render(source, &mut value) > 0;
                let value = if known { String::from_utf8_lossy(&value).into_owned() } else { text.clone() };
                (name.clone(), value.into())
            })
            .collect();
        // Whole milliseconds; Loki wants nanoseconds.
        let nanoseconds = format!("{:.0}000000", began_s(source) * 1000.0);
        let (labels, line) = (Value::Object(labels).to_string(), Value::Object(entry.fields).to_string());
        [labels, nanoseconds, line].map(String::into_bytes).join(&SEPARATOR)
    }
}

/// The server: entries are gathered into streams by their labels.
struct Loki(HttpCollector);

impl Destination for Loki {
    fn send(&self, entries: &[Vec<u8>]) -> Result<(), String> {
        self.0.post(streams(entries).as_bytes())
    }
}

/// The body of a push: the streams in the order of their first entries.
fn streams(entries: &[Vec<u8>]) -> String {
    let mut streams: Vec<(&str, Vec<Value>)> = Vec::new();
    for entry in entries {
        let mut parts = entry.splitn(3, |byte| *byte == SEPARATOR).map(|part| std::str::from_utf8(part).ok());
        let [Some(labels), Some(time), Some(line)] = [(); 3].map(|()| parts.next().flatten()) else {
            continue;
        };
        let value = json!([time, line]);
        match streams.iter_mut().find(|(known, _)| *known == labels) {
            Some((_, values)) => values.push(value),
            None => streams.push((labels, vec![value])),
        }
    }
    let streams = streams.into_iter().map(|(labels, values)| {
        let labels: Value = serde_json::from_str(labels).unwrap_or_default();
        json!({ "stream": labels, "values": values })
    });
    json!({ "streams": streams.collect::<Vec<_>>() }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_the_same_labels_are_a_stream() {
        let entries = [
            b"{\"a\":\"1\"}\x001000000\x00{\"x\":1}".to_vec(),
            b"{\"a\":\"2\"}\x002000000\x00{\"x\":2}".to_vec(),
            b"{\"a\":\"1\"}\x003000000\x00{\"x\":3}".to_vec(),
        ];
        let body: Value = serde_json::from_str(&streams(&entries)).unwrap();
        assert_eq!(
            body,
            json!({ "streams": [
                { "stream": {"a": "1"}, "values": [["1000000", "{\"x\":1}"], ["3000000", "{\"x\":3}"]] },
                { "stream": {"a": "2"}, "values": [["2000000", "{\"x\":2}"]] },
            ] })
        );
    }
}
