//! Sessions of stream routes. Counted at their end, under a lock: they are few beside requests.

use super::cell::Counter;
use super::family::Family;
use super::{Metric, MetricsConfig};
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

pub(super) struct StreamMetrics {
    pub(super) connections: Family<Counter>,
    pub(super) status: Family<Counter>,
    pub(super) bandwidth: Family<Counter>,
}

impl StreamMetrics {
    pub(super) fn new(config: &MetricsConfig) -> Self {
        let family = |metric| Family::new(metric, config.series_max);
        Self {
            connections: family(Metric::StreamConnectionTotal),
            status: family(Metric::StreamStatus),
            bandwidth: family(Metric::StreamBandwidth),
        }
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
