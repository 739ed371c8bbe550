//! Counters, gauges and histograms with labels: written by each worker alone, merged when scraped.

mod cell;
mod connections;
mod family;
mod http;
mod name;
mod registered;
mod streams;
mod text;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use stdx::WorkerToken;

pub use connections::{ConnectionTotals, Connections, State};
pub use http::{DisabledLabels, HttpLabels, HttpSample};
pub use name::{Kind, Metric};
pub use registered::{Counters, FAMILIES_MAX, Gauges, Histograms, LABELS_MAX, RegisterError};
pub use streams::{OpenStream, StreamSample};

/// APISIX's `default_buckets`: upper bounds of the latency histogram, in milliseconds.
pub const BUCKETS_MS: [f64; 15] = [
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0, 30_000.0,
    60_000.0,
];

/// Bounds of a histogram that are used; more are cut off. APISIX's own lists have 15.
pub const BUCKETS_MAX: usize = 64;

/// The most series that one metric may be given. A latency series shows 17 to 66 lines of about 150 bytes, so a scrape
/// of a full one is 250 MB and more: whoever raises the limit that far knows why.
pub const SERIES_MAX: usize = 100_000;

/// Series per metric where nothing else is asked for: 10,000 x 18 lines x 150 bytes make a scrape of 27 MB at worst.
pub const SERIES_DEFAULT: usize = 10_000;

/// How metrics are kept and shown.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsConfig {
    /// Stands before every name: `apisix_`.
    pub prefix: String,
    /// Upper bounds of the latency histogram in milliseconds; sorted, and at most [`BUCKETS_MAX`] of them used.
    pub buckets_ms: Vec<f64>,
    /// Series per metric, at most [`SERIES_MAX`]. Label sets beyond it are counted in one overflow series.
    pub series_max: usize,
}

/// All metrics of the process.
pub struct Metrics {
    prefix: RwLock<String>,
    bounds_ms: Box<[f64]>,
    http: http::HttpMetrics,
    observed: family::Family<cell::Counter>,
    http2_refused: family::Family<cell::Counter>,
    streams: streams::StreamMetrics,
    /// By metric; label text to value.
    gauges: [Mutex<BTreeMap<Box<str>, f64>>; Metric::ALL.len()],
    /// Client connections and requests.
    pub connections: Connections,
    collect: OnceLock<Collect>,
    registered: registered::Registered,
}

/// Sets what is only known when it is asked for.
type Collect = Box<dyn Fn(&Metrics) + Send + Sync>;

impl Metrics {
    /// Metrics with nothing counted.
    #[must_use]
    pub fn new(config: &MetricsConfig) -> Self {
        let mut bounds: Vec<f64> =
            config.buckets_ms.iter().copied().filter(|bound| bound.is_finite()).collect();
        bounds.sort_by(f64::total_cmp);
        bounds.dedup();
        bounds.truncate(BUCKETS_MAX);
        Self {
            prefix: RwLock::new(config.prefix.clone()),
            http: http::HttpMetrics::new(config, &bounds),
            observed: family::Family::new(Metric::PluginObservedTotal, config.series_max),
            http2_refused: family::Family::new(Metric::Http2ConnectionsRefusedTotal, config.series_max),
            streams: streams::StreamMetrics::new(config),
            bounds_ms: bounds.into(),
            gauges: std::array::from_fn(|_| Mutex::default()),
            connections: Connections::default(),
            collect: OnceLock::new(),
            registered: registered::Registered::new(config.series_max.clamp(1, SERIES_MAX)),
        }
    }

    /// The counters called `name`, without the prefix, with these labels: a plugin's. New ones where the name is free.
    ///
    /// # Errors
    /// When name or labels are none, the name is another metric's, or [`FAMILIES_MAX`] are registered.
    pub fn counter(&self, name: &str, help: &str, labels: &[&str]) -> Result<Arc<Counters>, RegisterError> {
        self.registered.counters(name, help, labels)
    }

    /// The gauges called `name`, as [`Self::counter`].
    ///
    /// # Errors
    /// As [`Self::counter`].
    pub fn gauge(&self, name: &str, help: &str, labels: &[&str]) -> Result<Arc<Gauges>, RegisterError> {
        self.registered.gauges(name, help, labels)
    }

    /// The histograms called `name`, as [`Self::counter`]; `bounds` are the buckets' upper bounds, ascending.
    ///
    /// # Errors
    /// As [`Self::counter`], and when the bounds don't ascend or are more than [`BUCKETS_MAX`].
    pub fn histogram(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
        bounds: &[u64],
    ) -> Result<Arc<Histograms>, RegisterError> {
        self.registered.histograms(name, help, labels, bounds)
    }

    /// Has `collect` set gauges before each scrape. What came first stays.
    pub fn before_scrapes(&self, collect: impl Fn(&Self) + Send + Sync + 'static) {
        let _ = self.collect.set(Box::new(collect));
    }

    /// Puts another prefix before every name, from the next scrape on.
    pub fn set_prefix(&self, prefix: &str) {
        prefix.clone_into(&mut self.prefix.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Counts one HTTP request. `labels` returns its labels, the same at each call.
    #[inline(always)]
    pub fn record_http<'l>(
        &self,
        worker: &WorkerToken,
        labels: impl Fn() -> HttpLabels<'l>,
        disabled: DisabledLabels,
        sample: &HttpSample,
    ) {
        self.http.record(worker, labels, disabled, sample);
    }

    /// Counts a session of streams among those that go on, on the address that is listened on.
    #[must_use]
    pub fn open_stream(&self, worker: &WorkerToken, listen_addr: &str) -> OpenStream {
        self.streams.open(worker, listen_addr)
    }

    /// Counts a session of a stream route that is over.
    pub fn record_stream(&self, worker: &WorkerToken, sample: &StreamSample<'_>) {
        self.streams.record(worker, sample);
    }

    /// Counts an answer that a plugin in mode observe would have given. Takes a lock: a trial's verdicts are few.
    pub fn record_observed(&self, worker: &WorkerToken, code: u16, plugin: &str, route: &str) {
        let values = [&*code.to_string(), plugin, route];
        self.observed.cell(worker, &values, cell::Counter::default).add(1);
    }

    /// Counts an HTTP/2 connection that was ended with the error `reason`. Takes a lock: connections end seldom so.
    pub fn record_http2_refused(&self, worker: &WorkerToken, reason: &'static str) {
        self.http2_refused.cell(worker, &[reason], cell::Counter::default).add(1);
    }

    /// Sets a gauge; `values` in the order of [`Metric::labels`].
    pub fn set(&self, metric: Metric, values: &[&str], value: f64) {
        self.own_gauge(metric, |series| {
            series.insert(name::label_text(metric.labels(), values).into(), value);
        });
    }

    /// Sets all series of a gauge: those not named are gone.
    pub fn replace<'v>(&self, metric: Metric, samples: impl IntoIterator<Item = (&'v [&'v str], f64)>) {
        let samples = samples.into_iter();
        let fresh = samples
            .map(|(values, value)| (name::label_text(metric.labels(), values).into(), value))
            .collect();
        self.own_gauge(metric, |series| *series = fresh);
    }

    fn own_gauge<R>(&self, metric: Metric, f: impl FnOnce(&mut BTreeMap<Box<str>, f64>) -> R) -> R {
        f(&mut self.gauges[metric as usize].lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn show(&self, metric: Metric, text: &mut text::Text<'_>) {
        match metric {
            Metric::Bandwidth => text.counters(&self.http.bandwidth),
            Metric::PluginObservedTotal => text.counters(&self.observed),
            Metric::Http2ConnectionsRefusedTotal => text.counters(&self.http2_refused),
            Metric::HttpStatus => text.counters(&self.http.status),
            Metric::StreamActiveConnections => text.counters(&self.streams.active),
            Metric::StreamBandwidth => text.counters(&self.streams.bandwidth),
            Metric::StreamConnectionTotal => text.counters(&self.streams.connections),
            Metric::StreamStatus => text.counters(&self.streams.status),
            Metric::HttpLatency => text.histograms(&self.http.latency, &self.bounds_ms, 1000.0),
            Metric::HttpRequestsTotal => {
                text.head(&metric);
                text.sample(&metric, "", "", self.connections.totals().requests);
            }
            Metric::NginxHttpCurrentConnections => self.show_connections(text),
            Metric::NginxMetricErrorsTotal => {
                text.head(&metric);
                text.sample(&metric, "", "", self.overflows());
            }
            Metric::MetricSeriesOverflowTotal => self.show_overflow(text),
            Metric::ConfigValuesSkipped
            | Metric::EtcdModifyIndexes
            | Metric::ConfigSourceRejected
            | Metric::EtcdReachable
            | Metric::NodeInfo
            | Metric::UpstreamStatus => {
                self.own_gauge(metric, |series| {
                    if !series.is_empty() {
                        text.head(&metric);
                    }
                    for (labels, value) in series {
                        text.sample(&metric, "", labels, *value);
                    }
                });
            }
        }
    }

    fn show_connections(&self, text: &mut text::Text<'_>) {
        let metric = Metric::NginxHttpCurrentConnections;
        let totals = self.connections.totals();
        text.head(&metric);
        for (state, count) in [
            ("accepted", totals.accepted),
            ("active", totals.active),
            ("handled", totals.handled),
            ("reading", totals.reading),
            ("waiting", totals.waiting),
            ("writing", totals.writing),
        ] {
            text.sample(&metric, "", &name::label_text(metric.labels(), &[state]), count);
        }
    }

    fn show_overflow(&self, text: &mut text::Text<'_>) {
        let metric = Metric::MetricSeriesOverflowTotal;
        text.head(&metric);
        for (of, count) in self.overflowed() {
            text.sample(&metric, "", &name::label_text(metric.labels(), &[of.name()]), count);
        }
        for (of, count) in self.registered.overflowed() {
            text.sample(&metric, "", &name::label_text(metric.labels(), &[&of]), count);
        }
    }

    /// Label sets that found no place of their own, in all metrics.
    fn overflows(&self) -> u64 {
        let registered = self.registered.overflowed();
        let own = self.overflowed();
        let own = own.iter().map(|(_, count)| count);
        own.chain(registered.iter().map(|(_, count)| count)).sum()
    }

    fn overflowed(&self) -> [(Metric, u64); 9] {
        let http = &self.http;
        [
            (Metric::Bandwidth, http.bandwidth.overflowed()),
            (Metric::Http2ConnectionsRefusedTotal, self.http2_refused.overflowed()),
            (Metric::HttpLatency, http.latency.overflowed()),
            (Metric::HttpStatus, http.status.overflowed()),
            (Metric::PluginObservedTotal, self.observed.overflowed()),
            (Metric::StreamActiveConnections, self.streams.active.overflowed()),
            (Metric::StreamBandwidth, self.streams.bandwidth.overflowed()),
            (Metric::StreamConnectionTotal, self.streams.connections.overflowed()),
            (Metric::StreamStatus, self.streams.status.overflowed()),
        ]
    }
}

/// The media type of [`exposition`].
pub const EXPOSITION_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All metrics in the Prometheus text format.
#[must_use]
pub fn exposition(metrics: &Metrics) -> String {
    if let Some(collect) = metrics.collect.get() {
        collect(metrics);
    }
    let prefix = metrics.prefix.read().unwrap_or_else(PoisonError::into_inner).clone();
    let mut text = text::Text::new(&prefix);
    for metric in Metric::ALL {
        metrics.show(metric, &mut text);
    }
    metrics.registered.show(&mut text);
    text.finish()
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self { prefix: "apisix_".to_owned(), buckets_ms: BUCKETS_MS.to_vec(), series_max: SERIES_DEFAULT }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(&MetricsConfig::default())
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
