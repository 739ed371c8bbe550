//! Every metric of the gateway's own: name, kind, help and labels, in one place; plugins register theirs. Names and labels are APISIX's, so that its
//! dashboards show our numbers.

/// A metric. The variants stand in the order of their names, which is the order of the exposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Bytes in and out.
    Bandwidth,
    /// Ours: whether what etcd holds is rejected; absent where the configuration doesn't come from etcd.
    ConfigSourceRejected,
    /// Ours: stored values that can't be used and are passed over, or whose earlier version is in use.
    ConfigValuesSkipped,
    /// Revision of the store at which resources of a kind changed last.
    EtcdModifyIndexes,
    /// Whether etcd answers; absent where the configuration doesn't come from etcd.
    EtcdReachable,
    /// Ours: HTTP/2 connections that were ended for what clients did on them.
    Http2ConnectionsRefusedTotal,
    /// Time per request.
    HttpLatency,
    /// Requests since the start. A gauge, as in APISIX.
    HttpRequestsTotal,
    /// Responses by status.
    HttpStatus,
    /// Ours: label sets that got no series of their own.
    MetricSeriesOverflowTotal,
    /// Client connections by state.
    NginxHttpCurrentConnections,
    /// APISIX's count of failures in metric-keeping; here the sum of `metric_series_overflow_total`.
    NginxMetricErrorsTotal,
    /// Host name and version.
    NodeInfo,
    /// Ours: what plugins that are only observed would have answered.
    PluginObservedTotal,
    /// Sessions that go on.
    StreamActiveConnections,
    /// Bytes of sessions.
    StreamBandwidth,
    /// Sessions of stream routes since the start.
    StreamConnectionTotal,
    /// Sessions by how they ended.
    StreamStatus,
    /// What health checks say of nodes: 1 healthy, 0 not.
    UpstreamStatus,
}

/// What the exposition says of a metric.
pub(super) trait Described {
    /// The name without the prefix.
    fn name(&self) -> &str;

    /// What it is about, for the `HELP` line.
    fn help(&self) -> &str;

    /// The kind.
    fn kind(&self) -> Kind;

    /// The labels with these values, in the order of the exposition.
    fn label_text(&self, values: &[&str]) -> String;
}

impl Described for Metric {
    fn name(&self) -> &str {
        Self::name(*self)
    }

    fn help(&self) -> &str {
        Self::help(*self)
    }

    fn kind(&self) -> Kind {
        Self::kind(*self)
    }

    fn label_text(&self, values: &[&str]) -> String {
        label_text(self.labels(), values)
    }
}

/// The kinds of the text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Goes up only.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by upper bound.
    Histogram,
}

impl Metric {
    /// All metrics, by name.
    pub const ALL: [Self; 19] = [
        Self::Bandwidth,
        Self::ConfigSourceRejected,
        Self::ConfigValuesSkipped,
        Self::EtcdModifyIndexes,
        Self::EtcdReachable,
        Self::Http2ConnectionsRefusedTotal,
        Self::HttpLatency,
        Self::HttpRequestsTotal,
        Self::HttpStatus,
        Self::MetricSeriesOverflowTotal,
        Self::NginxHttpCurrentConnections,
        Self::NginxMetricErrorsTotal,
        Self::NodeInfo,
        Self::PluginObservedTotal,
        Self::StreamActiveConnections,
        Self::StreamBandwidth,
        Self::StreamConnectionTotal,
        Self::StreamStatus,
        Self::UpstreamStatus,
    ];

    /// The name without the prefix.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bandwidth => "bandwidth",
            Self::ConfigValuesSkipped => "config_values_skipped",
            Self::EtcdModifyIndexes => "etcd_modify_indexes",
            Self::ConfigSourceRejected => "config_source_rejected",
            Self::EtcdReachable => "etcd_reachable",
            Self::Http2ConnectionsRefusedTotal => "http2_connections_refused_total",
            Self::HttpLatency => "http_latency",
            Self::HttpRequestsTotal => "http_requests_total",
            Self::HttpStatus => "http_status",
            Self::MetricSeriesOverflowTotal => "metric_series_overflow_total",
            Self::NginxHttpCurrentConnections => "nginx_http_current_connections",
            Self::NginxMetricErrorsTotal => "nginx_metric_errors_total",
            Self::NodeInfo => "node_info",
            Self::PluginObservedTotal => "plugin_observed_total",
            Self::StreamActiveConnections => "stream_active_connections",
            Self::StreamBandwidth => "stream_bandwidth",
            Self::StreamConnectionTotal => "stream_connection_total",
            Self::StreamStatus => "stream_status",
            Self::UpstreamStatus => "upstream_status",
        }
    }

    /// The kind.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::Bandwidth
            | Self::Http2ConnectionsRefusedTotal
            | Self::HttpStatus
            | Self::MetricSeriesOverflowTotal
            | Self::NginxMetricErrorsTotal
            | Self::PluginObservedTotal
            | Self::StreamBandwidth
            | Self::StreamConnectionTotal
            | Self::StreamStatus => Kind::Counter,
            Self::HttpLatency => Kind::Histogram,
            _ => Kind::Gauge,
        }
    }

    /// What it is about, for the `HELP` line.
    #[must_use]
    pub const fn help(self) -> &'static str {
        match self {
            Self::Bandwidth => "Bytes received from (ingress) and sent to (egress) clients",
            Self::ConfigValuesSkipped => "Stored values that can't be used; GET /v1/problems names them",
            Self::EtcdModifyIndexes => "Store revision at which resources of each kind were changed last",
            Self::ConfigSourceRejected => {
                "Whether the config source was emptied or replaced and isn't followed: 1 yes, 0 no"
            }
            Self::EtcdReachable => "Whether etcd answers: 1 yes, 0 no",
            Self::Http2ConnectionsRefusedTotal => {
                "HTTP/2 connections ended because of what the client did, by the error that it was told"
            }
            Self::HttpLatency => "Time per request in milliseconds: in all, in the upstream, in the gateway",
            Self::HttpRequestsTotal => "Requests from clients since the gateway started",
            Self::HttpStatus => "Responses by status code",
            Self::MetricSeriesOverflowTotal => {
                "Label sets counted in an overflow series because the metric is full"
            }
            Self::NginxHttpCurrentConnections => "Client connections by state",
            Self::NginxMetricErrorsTotal => "Label sets that got no series of their own",
            Self::NodeInfo => "The gateway's host name and version",
            Self::PluginObservedTotal => "Answers that plugins in mode observe would have given",
            Self::StreamActiveConnections => "Sessions that go on, by listening address",
            Self::StreamBandwidth => "Bytes of sessions by listening address, direction and side",
            Self::StreamConnectionTotal => "Sessions of each stream route since the gateway started",
            Self::StreamStatus => "Sessions by how they ended",
            Self::UpstreamStatus => "Health of upstream nodes: 1 healthy, 0 not",
        }
    }

    /// The labels in the order of the exposition.
    #[must_use]
    pub const fn labels(self) -> &'static [&'static str] {
        match self {
            Self::HttpStatus => &[
                "code",
                "route",
                "matched_uri",
                "matched_host",
                "service",
                "consumer",
                "node",
                "request_type",
                "request_llm_model",
                "llm_model",
                "response_source",
            ],
            Self::HttpLatency | Self::Bandwidth => &[
                "type",
                "route",
                "service",
                "consumer",
                "node",
                "request_type",
                "request_llm_model",
                "llm_model",
            ],
            Self::EtcdModifyIndexes => &["key"],
            Self::Http2ConnectionsRefusedTotal => &["reason"],
            Self::NginxHttpCurrentConnections => &["state"],
            Self::MetricSeriesOverflowTotal => &["metric"],
            Self::NodeInfo => &["hostname", "version"],
            Self::PluginObservedTotal => &["code", "plugin", "route"],
            Self::StreamActiveConnections => &["listen_addr"],
            Self::StreamBandwidth => &["listen_addr", "type", "side"],
            Self::StreamConnectionTotal => &["route"],
            Self::StreamStatus => &["code", "listen_addr", "node"],
            Self::UpstreamStatus => &["name", "ip", "port"],
            Self::ConfigValuesSkipped
            | Self::ConfigSourceRejected
            | Self::EtcdReachable
            | Self::HttpRequestsTotal
            | Self::NginxMetricErrorsTotal => &[],
        }
    }
}

/// `a="1",b="2"`, the values escaped as the format asks.
pub(super) fn label_text<N: AsRef<str>>(names: &[N], values: &[&str]) -> String {
    let mut text = String::new();
    for (name, value) in names.iter().zip(values) {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name.as_ref());
        text.push_str("=\"");
        for c in value.chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                c => text.push(c),
            }
        }
        text.push('"');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_listed_by_name_and_their_numbers_follow() {
        assert!(Metric::ALL.is_sorted_by_key(|metric| metric.name()));
        assert!(Metric::ALL.iter().enumerate().all(|(at, metric)| *metric as usize == at));
    }

    #[test]
    fn label_values_are_escaped() {
        assert_eq!(label_text(&["a", "b"], &["x\"y\\z\n", ""]), r#"a="x\"y\\z\n",b="""#);
        assert_eq!(label_text::<&str>(&[], &[]), "");
    }
}
