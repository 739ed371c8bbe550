//! Sends metrics of requests to the Datadog agent over UDP (DogStatsD).
//!
//! ## When to use
//! Use it when metrics are kept in Datadog and its agent runs nearby.
//!
//! ## Example
//! ```json
//! {
//!     "datadog": {
//!         "include_method": true,
//!         "constant_tags": ["env:production"]
//!     }
//! }
//! ```
//! Each request has `request.counter`, `request.latency`, `upstream.latency`, `apisix.latency`, `ingress.size` and
//! `egress.size`, with the names of route, service and consumer among the tags. The agent's `host` and `port`, the
//! `namespace` before each metric and tags for all routes are in the plugin's metadata.
//!
//! ## Differences from APISIX
//! - Those of `http-logger`.
//! - Latencies are integers in milliseconds.

use crate::logging::{Collector, Entry, Logger, seconds};
use delivery::{Destination, Framing, UdpCollector};
use model::ConfigError;
use model::var::{Var, VarSource};
use plugin::{CompileContext, PluginDef};
use serde::Deserialize;
use serde_json::{Value, json};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Logger<Datadog>>("datadog", 495).on_log().build()
}

/// What the agent reads of a datagram (`dogstatsd_buffer_size`).
const DATAGRAM_BYTES_MAX: usize = 8192;

/// Renders metrics.
pub struct Datadog {
    /// What begins the name of each metric.
    prefix: String,
    /// The tags that every request has.
    tags: Vec<String>,
    prefer_name: bool,
    include_path: bool,
    include_method: bool,
}

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    prefer_name: bool,
    include_path: bool,
    include_method: bool,
    constant_tags: Vec<String>,
}

/// The metadata.
#[derive(Debug, Deserialize)]
#[serde(default)]
struct Agent {
    host: String,
    port: u64,
    namespace: String,
    constant_tags: Vec<String>,
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 8125,
            namespace: "apisix".to_owned(),
            constant_tags: vec!["source:apisix".to_owned()],
        }
    }
}

fn tag() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 200, "pattern": r"^[\p{L}][\p{L}\p{N}_.:/-]*(?<!:)$"})
}

impl Collector for Datadog {
    type Config = Config;
    const NAME: &'static str = "datadog";
    const ENTRIES: bool = false;

    fn schema() -> Value {
        let switch = |description: &str, default: bool| json!({"description": description, "type": "boolean", "default": default});
        json!({
            "type": "object",
            "properties": {
                "prefer_name": switch("Whether routes and services have their names in tags, and not their ids.", true),
                "include_path": switch("Whether the path pattern of the route is a tag.", false),
                "include_method": switch("Whether the method is a tag.", false),
                "constant_tags": {
                    "description": "Tags of every metric.", "type": "array", "items": tag(), "default": []
                }
            }
        })
    }

    fn metadata_properties() -> Value {
        let Agent { host, port, namespace, constant_tags } = Agent::default();
        json!({
            "host": {"description": "The agent's name or address.", "type": "string", "default": host},
            "port": {"description": "Its port.", "type": "integer", "minimum": 0, "default": port},
            "namespace": {"description": "What begins each metric's name.", "type": "string", "default": namespace},
            "constant_tags": {
                "description": "Tags of every metric.", "type": "array", "items": tag(), "default": constant_tags
            }
        })
    }

    fn compile(
        config: Config,
        _: bool,
        cx: &CompileContext<'_>,
    ) -> Result<(Self, Option<impl Destination>), Vec<ConfigError>> {
        let agent = cx.metadata.and_then(|metadata| Agent::deserialize(metadata).ok()).unwrap_or_default();
        let Config { prefer_name, include_path, include_method, constant_tags } = config;
        let prefix = if agent.namespace.is_empty() { String::new() } else { format!("{}.", agent.namespace) };
        let tags = [agent.constant_tags, constant_tags].concat();
        let port = crate::logging::port(agent.port)?;
        let server = Datagrams(UdpCollector { host: agent.host, port, framing: Framing::Plain });
        Ok((Self { prefix, tags, prefer_name, include_path, include_method }, Some(server)))
    }

    fn render(&self, _: Entry, source: &dyn VarSource) -> Vec<u8> {
        let text = |var: Var| {
            let value = source.var(&var).filter(|value| !value.is_empty())?;
            Some(String::from_utf8_lossy(&value).into_owned())
        };
        let named = |name: Var, id: Var| text(name).filter(|_| self.prefer_name).or_else(|| text(id));
        let status = text(Var::Status);
        let class = status.as_ref().and_then(|status| Some(format!("{}xx", status.get(..1)?)));
        let variable = [
            ("route_name", named(Var::RouteName, Var::RouteId)),
            ("path", self.include_path.then(|| text(Var::MatchedUri)).flatten()),
            ("method", self.include_method.then(|| text(Var::RequestMethod)).flatten()),
            ("service_name", named(Var::ServiceName, Var::ServiceId)),
            ("consumer", text(Var::ConsumerName)),
            ("balancer_ip", text(Var::BalancerIp)),
            ("response_status", status),
            ("response_status_class", class),
            ("scheme", text(Var::UpstreamScheme)),
        ];
        let variable = variable.into_iter().filter_map(|(name, value)| Some(format!("{name}:{}", value?)));
        let tags: Vec<String> = self.tags.iter().cloned().chain(variable).collect();
        let suffix = if tags.is_empty() { String::new() } else { format!("|#{}", tags.join(",")) };
        let total = seconds(source, &Var::RequestTime).unwrap_or_default() * 1000.0;
        let upstream = seconds(source, &Var::UpstreamResponseTime).map(|time| time * 1000.0);
        let number = |var: Var| text(var).unwrap_or_else(|| "0".to_owned());
        let metrics = [
            ("request.counter", Some("1".to_owned()), "c"),
            ("request.latency", Some(format!("{total:.0}")), "h"),
            ("upstream.latency", upstream.map(|time| format!("{time:.0}")), "h"),
            ("apisix.latency", Some(format!("{:.0}", (total - upstream.unwrap_or_default()).max(0.0))), "h"),
            ("ingress.size", Some(number(Var::RequestLength)), "ms"),
            ("egress.size", Some(number(Var::BytesSent)), "ms"),
        ];
        let lines = metrics.into_iter().filter_map(|(name, value, kind)| {
            Some(format!("{}{name}:{}|{kind}{suffix}", self.prefix, value?))
        });
        lines.collect::<Vec<_>>().join("\n").into_bytes()
    }
}

/// The agent. What doesn't fit into a datagram has one for each metric.
struct Datagrams(UdpCollector);

impl Destination for Datagrams {
    fn send(&self, entries: &[Vec<u8>]) -> Result<(), String> {
        let datagrams: Vec<Vec<u8>> = entries
            .iter()
            .flat_map(|entry| match entry.len() {
                ..=DATAGRAM_BYTES_MAX => vec![entry.clone()],
                _ => entry.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect(),
            })
            .collect();
        self.0.send(&datagrams)
    }
}
