//! What health checks have found out, for the control API and for Prometheus.

use admin::control::{Health, NodeHealth};
use observe::Metrics;
use observe::metrics::Metric;
use snapshot::{Published, Upstream, Watched};
use std::sync::Arc;

/// The health of the nodes of the current snapshot.
#[derive(Debug, Clone)]
pub struct NodesHealth {
    /// Where that is.
    pub published: Arc<Published>,
    /// What stands before the keys of upstreams where they are shown.
    pub key_prefix: String,
}

impl Health for NodesHealth {
    fn nodes(&self, key: &str) -> Vec<NodeHealth> {
        let snapshot = self.published.current();
        let upstream = snapshot.checked.get(key).map(Upstream::latest);
        upstream.iter().flat_map(|upstream| nodes(upstream)).map(shown).collect()
    }
}

impl NodesHealth {
    /// Sets `upstream_status` to what is known now: nodes that are no longer checked are gone from it.
    pub fn count(&self, metrics: &Metrics) {
        let snapshot = self.published.current();
        let mut samples = Vec::new();
        for (key, upstream) in snapshot.checked.iter() {
            for node in nodes(&upstream.latest()) {
                let node = shown(node);
                let usable = !node.status.ends_with("unhealthy");
                samples.push((
                    [format!("{}{key}", self.key_prefix), node.ip, node.port.to_string()],
                    f64::from(u8::from(usable)),
                ));
            }
        }
        let texts: Vec<_> =
            samples.iter().map(|(labels, value)| (labels.each_ref().map(|l| l.as_str()), *value)).collect();
        metrics.replace(Metric::UpstreamStatus, texts.iter().map(|(labels, value)| (&labels[..], *value)));
    }
}

fn nodes(upstream: &Upstream) -> impl Iterator<Item = &Watched> {
    upstream.shared.board.iter().flat_map(|board| board.distinct()).map(|node| &**node)
}

fn shown(node: &Watched) -> NodeHealth {
    let health = node.health();
    let host = node.target.host.to_string();
    // APISIX shows the name that is asked for, which is the address where none is given.
    let hostname = node.target.name.clone().unwrap_or_else(|| host.clone());
    NodeHealth {
        ip: node.address().map_or(host, |ip| ip.to_string()),
        port: node.target.port,
        hostname: Some(hostname),
        status: health.state.as_str(),
        success: health.successes.into(),
        tcp_failures: health.tcp_failures.into(),
        http_failures: health.http_failures.into(),
        timeout_failures: health.timeouts.into(),
    }
}
