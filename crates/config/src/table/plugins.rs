//! `plugins`, `stream_plugins`, `plugin_attr`, `discovery`, and sections for what isn't there.

use super::Kind::{Bool, Free, Integer, Ip, List, Number, Open, Port, Text};
use super::{Key, key, nothing, section};

const NO_LLM: &str = "there are no plugins for language models";

pub(super) const KEYS: &[Key] = &[
    key("plugins", List(&Text), "", "plugins that resources may use; all that are built in by default")
        .example("[limit-count, prometheus]"),
    key("stream_plugins", List(&Text), "", "likewise for streams").example("[ip-restriction]"),
    key("plugin_attr", Open, "", "by plugin, what it alone understands"),
    section("plugin_attr.prometheus", "the metrics' server"),
    key("plugin_attr.prometheus.export_uri", Text, "/apisix/prometheus/metrics", "the path of the metrics")
        .restart(),
    key("plugin_attr.prometheus.metric_prefix", Text, "apisix_", "what the metrics' names begin with"),
    key("plugin_attr.prometheus.enable_export_server", Bool, "true", "whether metrics are served").restart(),
    section("plugin_attr.prometheus.export_addr", "their address"),
    key("plugin_attr.prometheus.export_addr.ip", Ip, "127.0.0.1", "the address").restart(),
    key("plugin_attr.prometheus.export_addr.port", Port, "9091", "the port").restart(),
    nothing(
        "plugin_attr.prometheus.refresh_interval",
        Integer(0, i64::MAX),
        "metrics are counted at each scrape",
        &["15"],
    ),
    nothing("plugin_attr.prometheus.metrics", Free, "metrics have no extra labels and do not expire", &[]),
    key(
        "plugin_attr.prometheus.default_buckets",
        List(&Number),
        "[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000]",
        "bounds of the latency histograms in milliseconds, ascending",
    )
    .restart(),
    nothing("plugin_attr.prometheus.llm_latency_buckets", List(&Number), NO_LLM, &[]),
    nothing("plugin_attr.prometheus.llm_prompt_tokens_buckets", List(&Number), NO_LLM, &[]),
    nothing("plugin_attr.prometheus.llm_completion_tokens_buckets", List(&Number), NO_LLM, &[]),
    nothing(
        "plugin_attr.prometheus.allow_degradation",
        Bool,
        "metrics are never switched off under load",
        &["false"],
    ),
    nothing(
        "plugin_attr.prometheus.degradation_pause_steps",
        List(&Number),
        "metrics are never switched off under load",
        &[],
    ),
    key("discovery", Free, "", "by kind, where the nodes of services are known: dns and consul").restart(),
    nothing("ext-plugin", Free, "external plugin runners are not supported", &[]),
    nothing("wasm", Free, "WebAssembly plugins are not supported yet", &[]),
    nothing("xrpc", Free, "xRPC is not supported", &[]),
    nothing(
        "etcd",
        Free,
        "the section stands below deployment, as in APISIX since 3.0: deployment.etcd",
        &[],
    ),
];
