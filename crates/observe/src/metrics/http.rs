//! The metrics of an HTTP request: status, latencies, bandwidth.
//!
//! A request touches six series. Finding them by their labels would cost thousands of instructions, so each worker
//! keeps the cells of a label set together and finds them by one look into its own table.

use super::cell::{Bucket, Counter, Histogram};
use super::family::Family;
use super::{Metric, MetricsConfig};
use std::sync::Arc;
use stdx::{PerWorker, WorkerToken, hash};

/// Label sets that one worker finds without asking the families: 16,384 pointers are 128 KB. Beyond it label sets whose
/// places coincide push each other out, which costs time and no count.
const PLACES_MAX: usize = 1 << 14;

/// What APISIX says of requests that no language model answers.
const REQUEST_TYPE: &str = "traditional_http";

/// The label values of one request.
#[derive(Debug, Clone, Copy)]
pub struct HttpLabels<'a> {
    /// The response's status.
    pub code: u16,
    /// `apisix`, `nginx` or `upstream`.
    pub response_source: &'static str,
    /// The route's id or name.
    pub route: &'a str,
    /// The service's id or name.
    pub service: &'a str,
    /// The consumer's name.
    pub consumer: &'a str,
    /// The upstream node's IP address.
    pub node: &'a str,
    /// Names what `route`, `service` and the matched patterns were taken from: as long as it and their addresses are the
    /// same, so are they. 0 where nothing is known.
    pub source_serial: u64,
    /// The path pattern that matched.
    pub matched_uri: &'a str,
    /// The host pattern that matched.
    pub matched_host: &'a str,
}

/// What one request adds.
#[derive(Debug, Clone, Copy)]
pub struct HttpSample {
    /// From the request's first byte to the response's last, in microseconds.
    pub request_us: u64,
    /// The upstream's part of it; `None` where none was asked.
    pub upstream_us: Option<u64>,
    /// Bytes of the request.
    pub ingress_bytes: u64,
    /// Bytes of the response.
    pub egress_bytes: u64,
}

/// Labels whose values are left empty, a bit each in the order of [`Metric::labels`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DisabledLabels {
    status: u16,
    latency: u16,
    bandwidth: u16,
}

/// The families, and each worker's table of cells.
pub(super) struct HttpMetrics {
    pub(super) status: Family<Counter>,
    pub(super) latency: Family<Histogram>,
    pub(super) bandwidth: Family<Counter>,
    /// Upper bounds in microseconds.
    bounds_us: Box<[u64]>,
    near: PerWorker<Near>,
    seed: u64,
}

/// A worker's label sets by hash, one a place.
#[derive(Default)]
struct Near {
    places: Vec<Option<Box<Entry>>>,
    taken: usize,
    /// The place used last. Busy routes come in runs, and comparing is cheaper than hashing.
    last: usize,
}

/// Where a label set's strings were taken from: equal origins have equal strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Origin {
    serial: u64,
    matched_uri: usize,
    matched_host: usize,
}

impl Origin {
    #[inline]
    fn of(labels: &HttpLabels<'_>) -> Self {
        Self {
            serial: labels.source_serial,
            matched_uri: labels.matched_uri.as_ptr() as usize,
            matched_host: labels.matched_host.as_ptr() as usize,
        }
    }
}

/// One label set and the worker's cells for it.
struct Entry {
    /// Of the request that made it or used it last by comparing strings.
    origin: Origin,
    hash: u64,
    code: u16,
    response_source: &'static str,
    disabled: DisabledLabels,
    route: Box<str>,
    service: Box<str>,
    consumer: Box<str>,
    node: Box<str>,
    matched_uri: Box<str>,
    matched_host: Box<str>,
    status: Arc<Counter>,
    request: Arc<Histogram>,
    /// Made when an upstream was asked for the first time.
    upstream: Option<Arc<Histogram>>,
    gateway: Arc<Histogram>,
    ingress: Arc<Counter>,
    egress: Arc<Counter>,
}

impl DisabledLabels {
    /// Leaves `label` of `metric` empty from here on; false for a metric or label that can't be.
    pub fn disable(&mut self, metric: Metric, label: &str) -> bool {
        let bits = match metric {
            Metric::HttpStatus => &mut self.status,
            Metric::HttpLatency => &mut self.latency,
            Metric::Bandwidth => &mut self.bandwidth,
            _ => return false,
        };
        match metric.labels().iter().position(|name| *name == label) {
            // The first label is what the series is about: without it latencies of different meaning would be added.
            Some(at) if at > 0 => {
                *bits |= 1 << at;
                true
            }
            _ => false,
        }
    }
}

impl HttpMetrics {
    pub(super) fn new(config: &MetricsConfig, bounds_ms: &[f64]) -> Self {
        Self {
            status: Family::new(Metric::HttpStatus, config.series_max),
            latency: Family::new(Metric::HttpLatency, config.series_max),
            bandwidth: Family::new(Metric::Bandwidth, config.series_max),
            // Saturates for bounds beyond 580,000 years.
            bounds_us: bounds_ms.iter().map(|bound| (bound * 1000.0) as u64).collect(),
            near: PerWorker::default(),
            seed: hash::seed(),
        }
    }

    #[inline(always)]
    pub(super) fn record<'l>(
        &self,
        worker: &WorkerToken,
        labels: impl Fn() -> HttpLabels<'l>,
        disabled: DisabledLabels,
        sample: &HttpSample,
    ) {
        self.near.with(worker, |near| {
            // Each use makes its own labels: those that are only compared stay in registers, and the others unmade.
            if !near.last().is_some_and(|entry| entry.is_of(&labels(), disabled)) {
                self.find(worker, &labels(), disabled, near);
            }
            let Some(entry) = near.last() else { return };
            if sample.upstream_us.is_some() && entry.upstream.is_none() {
                entry.upstream = Some(self.histogram(worker, "upstream", &labels(), disabled));
            }
            self.add(entry, sample);
        });
    }

    /// Makes the label set's place the last one used, its cells asked from the families if it has none.
    #[inline(never)]
    fn find(&self, worker: &WorkerToken, labels: &HttpLabels<'_>, disabled: DisabledLabels, near: &mut Near) {
        if !near.last().is_some_and(|entry| entry.equals(labels, disabled)) {
            let hash = labels.hash(self.seed);
            near.last = near.place_of(hash);
            let is = |entry: &mut Entry| entry.is_of(labels, disabled) || entry.equals(labels, disabled);
            if !near.last().is_some_and(is) {
                near.put(self.cells(worker, hash, labels, disabled));
            }
        }
        if let Some(entry) = near.last() {
            entry.origin = Origin::of(labels);
        }
    }

    #[inline]
    fn add(&self, entry: &Entry, sample: &HttpSample) {
        let HttpSample { request_us, upstream_us, .. } = *sample;
        entry.status.add(1);
        let bucket = Bucket::of(&self.bounds_us, request_us);
        entry.request.count(bucket, request_us);
        if let (Some(cell), Some(upstream_us)) = (&entry.upstream, upstream_us) {
            // Nearly always both ended with the same byte.
            let same = upstream_us == request_us;
            cell.count(if same { bucket } else { Bucket::of(&self.bounds_us, upstream_us) }, upstream_us);
        }
        let gateway_us = request_us.saturating_sub(upstream_us.unwrap_or_default());
        entry.gateway.observe(&self.bounds_us, gateway_us);
        entry.ingress.add(sample.ingress_bytes);
        entry.egress.add(sample.egress_bytes);
    }

    /// Asks the families for the cells of a label set.
    #[cold]
    fn cells(
        &self,
        worker: &WorkerToken,
        hash: u64,
        labels: &HttpLabels<'_>,
        disabled: DisabledLabels,
    ) -> Box<Entry> {
        let mut digits = String::new();
        let values = labels.of_status(&mut digits);
        let bandwidth = |kind| {
            let values = labels.of_traffic(kind);
            self.bandwidth.cell(worker, &masked(values, disabled.bandwidth), Counter::default)
        };
        Box::new(Entry {
            origin: Origin::of(labels),
            hash,
            code: labels.code,
            response_source: labels.response_source,
            disabled,
            route: labels.route.into(),
            service: labels.service.into(),
            consumer: labels.consumer.into(),
            node: labels.node.into(),
            matched_uri: labels.matched_uri.into(),
            matched_host: labels.matched_host.into(),
            status: self.status.cell(worker, &masked(values, disabled.status), Counter::default),
            request: self.histogram(worker, "request", labels, disabled),
            upstream: None,
            gateway: self.histogram(worker, "apisix", labels, disabled),
            ingress: bandwidth("ingress"),
            egress: bandwidth("egress"),
        })
    }

    #[cold]
    fn histogram(
        &self,
        worker: &WorkerToken,
        kind: &str,
        labels: &HttpLabels<'_>,
        disabled: DisabledLabels,
    ) -> Arc<Histogram> {
        let values = masked(labels.of_traffic(kind), disabled.latency);
        self.latency.cell(worker, &values, || Histogram::new(self.bounds_us.len()))
    }
}

/// `values` with those empty whose bit is set.
fn masked<const N: usize>(mut values: [&str; N], bits: u16) -> [&str; N] {
    for (at, value) in values.iter_mut().enumerate() {
        if bits >> at & 1 == 1 {
            *value = "";
        }
    }
    values
}

impl HttpLabels<'_> {
    /// By content and not by address: a snapshot's strings move whenever the configuration changes.
    fn hash(&self, seed: u64) -> u64 {
        let mut state = seed ^ u64::from(self.code) ^ (self.response_source.len() as u64) << 16;
        for text in [self.route, self.node, self.matched_uri, self.service, self.consumer, self.matched_host]
        {
            state = hash::hash(state, text.as_bytes());
        }
        state
    }

    fn of_status<'s>(&'s self, digits: &'s mut String) -> [&'s str; 11] {
        *digits = self.code.to_string();
        [
            digits,
            self.route,
            self.matched_uri,
            self.matched_host,
            self.service,
            self.consumer,
            self.node,
            REQUEST_TYPE,
            "",
            "",
            self.response_source,
        ]
    }

    fn of_traffic<'s>(&'s self, kind: &'s str) -> [&'s str; 8] {
        [kind, self.route, self.service, self.consumer, self.node, REQUEST_TYPE, "", ""]
    }
}

impl Entry {
    /// Whether these are its labels, by where they come from; false where that doesn't tell.
    #[inline]
    fn is_of(&self, labels: &HttpLabels<'_>, disabled: DisabledLabels) -> bool {
        self.origin == Origin::of(labels)
            && labels.source_serial != 0
            && self.code == labels.code
            && std::ptr::eq(self.response_source, labels.response_source)
            && self.disabled == disabled
            && same(&self.node, labels.node)
            && same(&self.consumer, labels.consumer)
    }

    fn equals(&self, labels: &HttpLabels<'_>, disabled: DisabledLabels) -> bool {
        self.code == labels.code
            && self.disabled == disabled
            && same(&self.route, labels.route)
            && same(&self.node, labels.node)
            && same(&self.matched_uri, labels.matched_uri)
            && self.response_source == labels.response_source
            && same(&self.service, labels.service)
            && same(&self.consumer, labels.consumer)
            && same(&self.matched_host, labels.matched_host)
    }
}

impl Near {
    #[inline]
    fn last(&mut self) -> Option<&mut Entry> {
        self.places.get_mut(self.last)?.as_deref_mut()
    }

    fn place_of(&self, hash: u64) -> usize {
        // The table's size is a power of two, or 0.
        hash as usize & self.places.len().saturating_sub(1)
    }

    /// Puts an entry in its place, which becomes the last one used; the table is grown first when it is half full.
    fn put(&mut self, entry: Box<Entry>) {
        if self.taken * 2 >= self.places.len() && self.places.len() < PLACES_MAX {
            let size = (self.places.len() * 2).max(64);
            let entries: Vec<_> = self.places.drain(..).flatten().collect();
            self.places.resize_with(size, || None);
            self.taken = 0;
            for entry in entries {
                self.place(entry);
            }
        }
        self.place(entry);
    }

    fn place(&mut self, entry: Box<Entry>) {
        self.last = self.place_of(entry.hash);
        if self.places[self.last].replace(entry).is_none() {
            self.taken += 1;
        }
    }
}

/// Equality of short texts; most are empty.
#[inline]
fn same(a: &str, b: &str) -> bool {
    hash::same(a.as_bytes(), b.as_bytes())
}
