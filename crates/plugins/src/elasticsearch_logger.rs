//! Sends log entries to Elasticsearch in batches, with its bulk API.
//!
//! ## When to use
//! Use it when logs are kept in Elasticsearch or OpenSearch.
//!
//! ## Example
//! ```json
//! {
//!     "elasticsearch-logger": {
//!         "endpoint_addrs": ["http://127.0.0.1:9200"],
//!         "field": {"index": "gateway-{%Y.%m.%d}"}
//!     }
//! }
//! ```
//! The index can contain variables, and the time in braces in `strftime` format.
//!
//! ## Differences from APISIX
//! - Those of `http-logger`.
//! - Endpoints take turns, where APISIX picks one at random.
//! - The server's version is requested with the first batch, not with the first request.

use crate::logging::{Collector, Entry, Logger, checked_headers, now};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use delivery::{Destination, HttpCollector};
use model::ConfigError;
use model::var::{Template, VarSource};
use plugin::{CompileContext, PluginDef};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;
use stdx::Secret;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Logger<ElasticsearchLogger>>("elasticsearch-logger", 413)
        .encrypt_fields(&["auth.password", "headers"])
        .on_access()
        .on_response()
        .on_log()
        .build()
}

/// Renders entries with the index that they belong to.
pub struct ElasticsearchLogger {
    index: String,
}

/// What a user writes besides what all loggers have.
#[derive(Debug, Deserialize)]
pub struct Config {
    endpoint_addr: Option<String>,
    endpoint_addrs: Option<Vec<String>>,
    field: Field,
    auth: Option<Auth>,
    #[serde(default)]
    headers: BTreeMap<String, Secret>,
    timeout: u64,
    ssl_verify: bool,
}

#[derive(Debug, Deserialize)]
struct Field {
    index: String,
}

#[derive(Debug, Deserialize)]
struct Auth {
    username: String,
    password: Secret,
}

/// What stands between the index and the entry: JSON has no such byte.
const SEPARATOR: u8 = 0;

impl Collector for ElasticsearchLogger {
    type Config = Config;
    const NAME: &'static str = "elasticsearch-logger";

    fn schema() -> Value {
        let address = json!({"type": "string", "pattern": "[^/]$"});
        let text = json!({"type": "string", "minLength": 1});
        json!({
            "type": "object",
            "properties": {
                "endpoint_addr": address,
                "endpoint_addrs": {
                    "description": "The servers' addresses, which take turns.",
                    "type": "array", "minItems": 1, "items": address
                },
                "field": {
                    "type": "object",
                    "properties": {
                        "index": {
                            "description": "The index; it may have `$variable` and the time as `{%Y.%m.%d}`.",
                            "type": "string"
                        }
                    },
                    "required": ["index"]
                },
                "auth": {
                    "description": "Whom the servers know.",
                    "type": "object",
                    "properties": {"username": text, "password": text},
                    "oneOf": [{"required": ["username", "password"]}]
                },
                "headers": {
                    "description": "Further fields of the requests.",
                    "type": "object", "minProperties": 1,
                    "patternProperties": {"^[^:]+$": text},
                    "additionalProperties": false
                },
                "timeout": {"description": "Seconds for a batch.", "type": "integer", "minimum": 1, "default": 10},
                "ssl_verify": {
                    "description": "Whether a server's certificate has to be valid.", "type": "boolean", "default": true
                }
            },
            "oneOf": [
                {"required": ["endpoint_addr", "field"]},
                {"required": ["endpoint_addrs", "field"]}
            ]
        })
    }

    fn compile(
        config: Config,
        _: bool,
        _: &CompileContext<'_>,
    ) -> Result<(Self, Option<impl Destination>), Vec<ConfigError>> {
        let addresses = config.endpoint_addr.map(|address| vec![address]).or(config.endpoint_addrs);
        let addresses = addresses.unwrap_or_default();
        let headers = checked_headers(config.headers)?;
        let make = |uris: Vec<String>| {
            let mut server = HttpCollector::new(uris, Duration::from_secs(config.timeout), config.ssl_verify)
                .failure_from(201);
            if let Some(Auth { username, password }) = &config.auth {
                let credentials = STANDARD.encode(format!("{username}:{}", password.as_str()));
                server = server.header("Authorization", format!("Basic {credentials}"));
            }
            for (name, value) in &headers {
                server = server.header(name.as_str(), value.clone());
            }
            server
        };
        let bulk = make(addresses.iter().map(|address| format!("{address}/_bulk")).collect())
            .header("Content-Type", "application/x-ndjson")
            .header("Accept", "application/vnd.elasticsearch+json");
        let servers = Servers { root: make(addresses), bulk, typed: OnceLock::new() };
        Ok((Self { index: config.field.index }, Some(servers)))
    }

    fn render(&self, entry: Entry, source: &dyn VarSource) -> Vec<u8> {
        let now = now(source).to_zoned(jiff::tz::TimeZone::system());
        let index = with_times(&self.index, &now);
        let mut rendered = Vec::new();
        Template::parse(&index).render(source, &mut rendered);
        rendered.push(SEPARATOR);
        rendered.extend_from_slice(Value::Object(entry.fields).to_string().as_bytes());
        rendered
    }
}

/// `text` with the local time in place of `{...}`, but not of a variable's `${...}`. What is no time leaves nothing.
fn with_times(text: &str, now: &jiff::Zoned) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let Some(length) = rest[open..].find('}') else { break };
        let (before, braced) = (&rest[..open], &rest[open + 1..open + length]);
        out.push_str(before);
        if before.ends_with('$') {
            out.push_str(&rest[open..=open + length]);
        } else {
            let time = jiff::fmt::strtime::format(braced, now);
            out.push_str(&time.unwrap_or_default());
        }
        rest = &rest[open + length + 1..];
    }
    out.push_str(rest);
    out
}

/// The servers.
struct Servers {
    root: HttpCollector,
    bulk: HttpCollector,
    /// Whether documents have a type: those of versions 5 and 6. Known once a server has said its version.
    typed: OnceLock<bool>,
}

impl Servers {
    /// A server that doesn't say its version is taken for one of today's.
    fn typed(&self) -> bool {
        if let Some(typed) = self.typed.get() {
            return *typed;
        }
        let version = self.root.get("").and_then(|answer| {
            let answer: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
            let number = answer["version"]["number"].as_str();
            number.map(str::to_owned).ok_or_else(|| "no version in the answer".to_owned())
        });
        match version {
            Ok(version) => *self.typed.get_or_init(|| matches!(version.split('.').next(), Some("5" | "6"))),
            Err(error) => {
                tracing::warn!(error, "elasticsearch-logger: the server's version is not known");
                false
            }
        }
    }
}

impl Destination for Servers {
    fn send(&self, entries: &[Vec<u8>]) -> Result<(), String> {
        self.bulk.post(&bulk(entries, self.typed()))
    }
}

/// The body of a bulk request: two lines for each entry.
fn bulk(entries: &[Vec<u8>], typed: bool) -> Vec<u8> {
    let mut body = Vec::new();
    for entry in entries {
        let mut parts = entry.splitn(2, |byte| *byte == SEPARATOR);
        let (Some(index), Some(document)) = (parts.next(), parts.next()) else { continue };
        let mut action = json!({"index": {"_index": String::from_utf8_lossy(index)}});
        if typed {
            action["index"]["_type"] = "_doc".into();
        }
        body.extend_from_slice(action.to_string().as_bytes());
        body.push(b'\n');
        body.extend_from_slice(document);
        body.push(b'\n');
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_has_the_time_and_leaves_variables_alone() {
        let now = jiff::Timestamp::UNIX_EPOCH.to_zoned(jiff::tz::TimeZone::UTC);
        let year = "1970";
        for (index, expected) in [
            ("plain", "plain".to_owned()),
            ("a-{%Y}-b", format!("a-{year}-b")),
            ("${host}-{%Y}", format!("${{host}}-{year}")),
            ("{%Y}{%%}", format!("{year}%")),
            ("open-{%Y", "open-{%Y".to_owned()),
        ] {
            assert_eq!(with_times(index, &now), expected, "{index}");
        }
    }

    #[test]
    fn a_batch_has_two_lines_for_each_entry() {
        let entries = [b"one\x00{\"a\":1}".to_vec(), b"two\x00{\"b\":2}".to_vec()];
        let plain =
            "{\"index\":{\"_index\":\"one\"}}\n{\"a\":1}\n{\"index\":{\"_index\":\"two\"}}\n{\"b\":2}\n";
        assert_eq!(bulk(&entries, false), plain.as_bytes());
        let typed = bulk(&entries[..1], true);
        assert_eq!(typed, b"{\"index\":{\"_index\":\"one\",\"_type\":\"_doc\"}}\n{\"a\":1}\n");
    }
}
