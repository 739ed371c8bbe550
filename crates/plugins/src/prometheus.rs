//! Counts requests, latencies and bytes, and exports them as Prometheus metrics.
//!
//! ## When to use
//! Use it to monitor, per route, service, consumer and upstream node, the statuses of responses, latencies (total,
//! upstream and gateway) and bytes. It is usually configured once, in a global rule. The metrics have APISIX's names
//! and labels and are exported at `plugin_attr.prometheus.export_addr` (127.0.0.1:9091) under
//! `/apisix/prometheus/metrics`, or, with `enable_export_server: false`, on a route with `public-api`. On stream
//! routes it counts sessions, their outcomes and bytes.
//!
//! ## Example
//! ```json
//! {
//!     "prometheus": {
//!         "prefer_name": true
//!     }
//! }
//! ```
//! With this plugin metadata, upstream nodes have no series of their own:
//! `{"disabled_labels": {"http_status": ["node"], "http_latency": ["node"], "bandwidth": ["node"]}}`.
//!
//! ## Differences from APISIX
//! - Latencies are measured in microseconds instead of milliseconds, so sums have decimals.
//! - Each metric has at most 10,000 series. Further ones are counted in one series with the label value `overflow`, and in
//!   `apisix_metric_series_overflow_total`.
//! - There are no shared dictionaries and so no `apisix_shared_dict_` metrics. The metrics of AI plugins are
//!   missing with these plugins.
//! - The bytes of a session of a stream route are counted when it ends. `stream_active_connections` is exported
//!   without this plugin.
//! - `extra_labels` and `expire` of `plugin_attr.prometheus.metrics` have no effect.

use model::ConfigError;
use observe::Metrics;
use observe::metrics::{DisabledLabels, HttpLabels, HttpSample, Metric, StreamSample};
use plugin::{
    ApiContext, CompileContext, Exchange, Flow, OnLog, OnStreamLog, Plugin, PluginDef, PublicApi, Reply,
    Session, schema_of,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Prometheus>("prometheus", 500)
        .prefer_route()
        .on_log()
        .on_stream_log()
        .public_apis(public_apis)
        .build()
}

/// What a user writes.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Show the names of routes and services instead of their ids.
    #[serde(default)]
    pub prefer_name: bool,
}

/// The compiled form.
pub struct Prometheus {
    metrics: Arc<Metrics>,
    prefer_name: bool,
    disabled: DisabledLabels,
}

/// The metrics that have labels to disable, and these labels. Beside those we keep, APISIX's others are named: a
/// metadata document that it takes is taken here.
const DISABLEABLE: &[(&str, &[&str])] = &[
    ("http_status", Metric::HttpStatus.labels()),
    ("http_latency", Metric::HttpLatency.labels()),
    ("bandwidth", Metric::Bandwidth.labels()),
    ("llm_latency", LLM_TYPED),
    ("llm_prompt_tokens", LLM),
    ("llm_completion_tokens", LLM),
    ("llm_active_connections", LLM_ACTIVE),
    ("llm_prompt_tokens_dist", LLM),
    ("llm_completion_tokens_dist", LLM),
    ("ai_cache_hits_total", AI_CACHE_HITS),
    ("ai_cache_misses_total", AI_CACHE),
    ("ai_cache_bypasses_total", AI_CACHE),
    ("ai_cache_embedding_latency", AI_CACHE),
];

/// Labels that make a series what it is and can't be disabled.
const STRUCTURAL: [&str; 3] = ["code", "type", "layer"];

const LLM: &[&str] =
    &["route_id", "service_id", "consumer", "node", "request_type", "request_llm_model", "llm_model"];
const LLM_TYPED: &[&str] =
    &["type", "route_id", "service_id", "consumer", "node", "request_type", "request_llm_model", "llm_model"];
#[rustfmt::skip]
const LLM_ACTIVE: &[&str] = &[
    "route", "route_id", "matched_uri", "matched_host", "service", "service_id", "consumer", "node", "request_type",
    "request_llm_model", "llm_model",
];
#[rustfmt::skip]
const AI_CACHE: &[&str] = &[
    "route", "route_id", "service", "service_id", "consumer", "node", "request_type", "request_llm_model", "llm_model",
];
#[rustfmt::skip]
const AI_CACHE_HITS: &[&str] = &[
    "layer", "route", "route_id", "service", "service_id", "consumer", "node", "request_type", "request_llm_model",
    "llm_model",
];

impl Plugin for Prometheus {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(Self {
            metrics: cx.shared.get(),
            prefer_name: config.prefer_name,
            disabled: disabled_labels(cx.metadata),
        })
    }

    fn schema() -> Value {
        schema_of::<Config>()
    }

    fn metadata_schema() -> Option<Value> {
        let properties: Map<String, Value> = DISABLEABLE
            .iter()
            .map(|(metric, labels)| {
                let labels: Vec<_> = labels.iter().filter(|label| !STRUCTURAL.contains(label)).collect();
                ((*metric).to_owned(), json!({"type": "array", "items": {"type": "string", "enum": labels}}))
            })
            .collect();
        Some(json!({
            "type": "object",
            "properties": {
                "disabled_labels": {
                    "description": "By metric, the labels whose values are left empty.",
                    "type": "object",
                    "properties": properties,
                    "additionalProperties": false
                }
            }
        }))
    }
}

/// The metadata's `disabled_labels`, of the metrics there are.
fn disabled_labels(metadata: Option<&Value>) -> DisabledLabels {
    let mut disabled = DisabledLabels::default();
    for metric in [Metric::HttpStatus, Metric::HttpLatency, Metric::Bandwidth] {
        let labels =
            metadata.and_then(|metadata| metadata.get("disabled_labels")?.get(metric.name())?.as_array());
        for label in labels.into_iter().flatten().filter_map(Value::as_str) {
            disabled.disable(metric, label);
        }
    }
    disabled
}

impl OnLog for Prometheus {
    fn log(&self, exchange: &Exchange<'_>) {
        let labels = || {
            let (route, service) = exchange.route.map_or(("", ""), |route| {
                (self.shown(&route.name, &route.id), self.shown(&route.service_name, &route.service_id))
            });
            HttpLabels {
                code: exchange.status,
                response_source: exchange.source.as_str(),
                route,
                service,
                consumer: exchange.consumer.as_ref().map_or("", |consumer| &consumer.name),
                node: exchange.upstream.ip(),
                source_serial: exchange.route.map_or(0, |route| route.serial),
                matched_uri: exchange.matched_uri,
                matched_host: exchange.matched_host,
            }
        };
        let sample = HttpSample {
            request_us: micros(exchange.timing.total),
            upstream_us: exchange.upstream.time.map(micros),
            ingress_bytes: exchange.timing.request_bytes,
            egress_bytes: exchange.timing.sent_bytes,
        };
        self.metrics.record_http(exchange.worker, labels, self.disabled, &sample);
    }
}

impl OnStreamLog for Prometheus {
    fn log_stream(&self, session: &Session<'_>) {
        let traffic = session.traffic;
        let sample = StreamSample {
            route: session.route.map_or("", |route| self.shown(&route.name, &route.id)),
            code: session.status,
            listen_addr: &session.listener.to_string(),
            node: session.upstream.addr(),
            bytes: [
                ("ingress", "downstream", traffic.received),
                ("egress", "downstream", traffic.sent),
                ("egress", "upstream", traffic.upstream_sent),
                ("ingress", "upstream", traffic.upstream_received),
            ],
        };
        self.metrics.record_stream(session.worker, &sample);
    }
}

/// The metrics, for routes that open them. Where a server of their own exports them, clients are not to have them.
fn public_apis(cx: ApiContext<'_>) -> Vec<PublicApi> {
    let attribute = |name: &str| cx.attributes?.get(name);
    if attribute("enable_export_server").and_then(Value::as_bool).unwrap_or(true) {
        return Vec::new();
    }
    let uri = attribute("export_uri").and_then(Value::as_str).unwrap_or("/apisix/prometheus/metrics");
    let metrics: Arc<Metrics> = cx.shared.get();
    let answer = move |_: &Exchange<'_>| {
        let metrics = Arc::clone(&metrics);
        // Thousands of series take milliseconds.
        Flow::elsewhere(move || {
            Reply::text(200, observe::exposition(&metrics))
                .with_header("Content-Type", observe::EXPOSITION_TYPE)
        })
    };
    vec![PublicApi::get(uri, answer)]
}

impl Prometheus {
    /// The name, if that is preferred and there is one; else the id.
    fn shown<'r>(&self, name: &'r str, id: &'r str) -> &'r str {
        if self.prefer_name && !name.is_empty() { name } else { id }
    }
}

/// Microseconds without the 128-bit arithmetic of `as_micros`.
#[inline]
fn micros(time: Duration) -> u64 {
    time.as_secs() * 1_000_000 + u64::from(time.subsec_micros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench};
    use plugin::{Chain, ConsumerInfo, Ingredients, Parent, Registry, ResponseSource, RouteInfo};

    fn registry() -> Registry {
        Registry::new([def()], Map::new()).expect("a valid schema")
    }

    /// Logs one request and shows the lines that begin with `start`.
    fn logged(
        registry: &Registry,
        chain: &Chain,
        start: &str,
        change: impl FnOnce(&mut Exchange<'_>),
    ) -> Vec<String> {
        let bench = Bench::new("GET /hello").on_route(RouteInfo {
            id: "1".to_owned(),
            name: "hello".to_owned(),
            service_id: "s1".to_owned(),
            ..RouteInfo::default()
        });
        let mut exchange = bench.exchange();
        exchange.status = 200;
        change(&mut exchange);
        for step in &chain.log {
            step.hook.log(&exchange);
        }
        let text = observe::exposition(&registry.shared.get::<Metrics>());
        text.lines().filter(|line| line.starts_with(start)).map(str::to_owned).collect()
    }

    #[test]
    fn a_proxied_request_is_counted_under_its_route_and_node() {
        let registry = registry();
        let chain = testkit::chain(&registry, &json!({"prometheus": {}})).expect("valid");
        let lines = logged(&registry, &chain, "apisix_http_status", |exchange| {
            exchange.upstream.addr = Some("10.0.0.9:80".into());
            exchange.upstream.ip_len = "10.0.0.9".len();
            exchange.source = ResponseSource::Upstream;
            exchange.consumer = Some(Box::leak(Box::new(ConsumerInfo {
                name: "jack".to_owned(),
                ..ConsumerInfo::default()
            })));
        });
        let expected = r#"apisix_http_status{code="200",route="1",matched_uri="/*",matched_host="",service="s1",consumer="jack",node="10.0.0.9",request_type="traditional_http",request_llm_model="",llm_model="",response_source="upstream"} 1"#;
        assert_eq!(lines, [expected]);
    }

    #[test]
    fn names_stand_for_ids_where_asked_and_there() {
        let registry = registry();
        let chain = testkit::chain(&registry, &json!({"prometheus": {"prefer_name": true}})).expect("valid");
        let lines = logged(&registry, &chain, "apisix_bandwidth", |_| {});
        assert!(lines.iter().all(|line| line.contains(r#"route="hello",service="s1""#)), "{lines:?}");
    }

    #[test]
    fn a_request_that_matched_no_route_has_empty_labels() {
        let registry = registry();
        let chain = testkit::chain(&registry, &json!({"prometheus": {}})).expect("valid");
        let lines = logged(&registry, &chain, "apisix_http_status", |exchange| {
            exchange.route = None;
            exchange.matched_uri = "";
            exchange.status = 404;
        });
        assert!(
            lines[0].starts_with(r#"apisix_http_status{code="404",route="",matched_uri="""#),
            "{lines:?}"
        );
    }

    #[test]
    fn metadata_disables_labels() {
        let registry = registry();
        let metadata =
            json!({"disabled_labels": {"http_status": ["route", "node"], "llm_latency": ["node"]}});
        assert!(registry.check_metadata("prometheus", &metadata).is_some_and(|report| report.is_ok()));
        let parent = Parent { resource_key: "/routes/1", config_version: 1 };
        let ingredients = Ingredients { metadata: Some(&metadata), definitions: None };
        let compiled = registry.compile_one("prometheus", &json!({}), ingredients, parent).expect("valid");
        let lines = logged(&registry, &Chain::new(vec![compiled]), "apisix_", |_| {});
        let of = |start: &str| lines.iter().find(|line| line.starts_with(start)).cloned().unwrap_or_default();
        assert!(of("apisix_http_status").contains(r#"route="",matched_uri="/*""#), "{lines:?}");
        assert!(of("apisix_bandwidth").contains(r#"route="1""#), "{lines:?}");
    }

    #[test]
    fn structural_labels_and_unknown_metrics_are_refused() {
        let registry = registry();
        for metadata in [
            json!({"disabled_labels": {"http_status": ["code"]}}),
            json!({"disabled_labels": {"http_latency": ["type"]}}),
            json!({"disabled_labels": {"ai_cache_hits_total": ["layer"]}}),
            json!({"disabled_labels": {"unknown": ["node"]}}),
        ] {
            let report = registry.check_metadata("prometheus", &metadata).expect("known");
            assert!(!report.is_ok(), "{metadata}");
        }
        assert!(testkit::chain(&registry, &json!({"prometheus": {"prefer_name": "yes"}})).is_err());
    }
}
