//! Sessions of stream routes. Counted as they begin and end, under a lock: they are few beside requests.

use super::cell::Counter;
use super::family::Family;
use super::{Metric, MetricsConfig};
use std::sync::Arc;
use stdx::WorkerToken;

/// A session that is over.
#[derive(Debug, Clone, Copy)]
pub struct StreamSample<'a> {
    /// The route's id, or its name.
    pub route: &'a str,
    /// How it ended, in nginx's numbers: 200, 403, 502 and so on.
    pub code: u16,
    /// The address that is listened on.
    pub listen_addr: &'a str,
    /// The node's address and port; empty where none was asked.
    pub node: &'a str,
    /// Bytes by label: type (`ingress`, `egress`) and side (`downstream`, `upstream`).
    pub bytes: [(&'static str, &'static str, u64); 4],
}

/// A session that goes on, counted as long as this is there; dropped by the worker that opened it.
#[derive(Debug)]
pub struct OpenStream(Arc<Counter>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.take(1);
    }
}

pub(super) struct StreamMetrics {
    pub(super) active: Family<Counter>,
    pub(super) connections: Family<Counter>,
    pub(super) status: Family<Counter>,
    pub(super) bandwidth: Family<Counter>,
}

impl StreamMetrics {
    pub(super) fn new(config: &MetricsConfig) -> Self {
        let family = |metric| Family::new(metric, config.series_max);
        Self {
            active: family(Metric::StreamActiveConnections),
            connections: family(Metric::StreamConnectionTotal),
            status: family(Metric::StreamStatus),
            bandwidth: family(Metric::StreamBandwidth),
        }
    }

    pub(super) fn open(&self, worker: &WorkerToken, listen_addr: &str) -> OpenStream {
        let cell = self.active.cell(worker, &[listen_addr], Counter::default);
        cell.add(1);
        OpenStream(cell)
    }

    pub(super) fn record(&self, worker: &WorkerToken, sample: &StreamSample<'_>) {
        self.connections.cell(worker, &[sample.route], Counter::default).add(1);
        let status = [&*sample.code.to_string(), sample.listen_addr, sample.node];
        self.status.cell(worker, &status, Counter::default).add(1);
        for (kind, side, bytes) in sample.bytes {
            self.bandwidth.cell(worker, &[sample.listen_addr, kind, side], Counter::default).add(bytes);
        }
    }
}
