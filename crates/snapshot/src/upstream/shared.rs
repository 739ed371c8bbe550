//! What all workers have in common of an upstream, besides what is written of it.

use super::{Board, Upstream};
use balance::Balancer;
use std::sync::Arc;

/// What all workers have in common of an upstream. It follows from the rest, so upstreams are the same without it.
#[derive(Debug, Default)]
pub struct Shared {
    /// The store key of the resource that defines it, for the log: `/upstreams/1`.
    pub resource: Arc<str>,
    /// The health of the nodes; `None` where nothing is checked.
    pub board: Option<Board>,
    /// What each worker's balancer is forked from.
    balancer: Option<Balancer>,
    /// Names the upstream through all its changes, by the first one's `uid`. Shared by its forms, so that its count
    /// tells whether any of them is in use.
    line: Arc<u64>,
}

impl PartialEq for Shared {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Shared {
    /// What workers share of `upstream`, which `resource` defines and which was `before`.
    pub(crate) fn of(upstream: &Upstream, resource: &str, before: Option<&Upstream>) -> Self {
        let known = before.and_then(|before| before.shared.board.as_ref());
        let line = before.map_or_else(|| Arc::new(upstream.uid), |before| Arc::clone(&before.shared.line));
        let resource: Arc<str> = resource.into();
        let board = Board::of(upstream, &resource, known);
        Self { resource, board, balancer: Some(balancer(upstream, 0)), line }
    }
}

impl Upstream {
    /// What names the upstream through all its changes: the key of what workers know of it.
    #[must_use]
    #[inline]
    pub fn line(&self) -> u64 {
        *self.shared.line
    }

    /// Whether nobody but the caller holds this form of the upstream, nor any other one.
    #[must_use]
    pub fn is_last_of_its_line(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1 && Arc::strong_count(&self.shared.line) == 1
    }

    /// A worker's own balancer over the nodes, with nothing counted yet. `seed` should differ between workers.
    #[must_use]
    pub fn balancer(&self, seed: u64) -> Balancer {
        self.shared.balancer.as_ref().map_or_else(|| balancer(self, seed), |shared| shared.fork(seed))
    }
}

fn balancer(upstream: &Upstream, seed: u64) -> Balancer {
    let hosts: Vec<String> = upstream.nodes.iter().map(|node| node.host.to_string()).collect();
    let nodes: Vec<_> = upstream
        .nodes
        .iter()
        .zip(&hosts)
        .map(|(node, host)| balance::Node {
            host,
            port: node.port,
            weight: node.weight,
            priority: node.priority,
        })
        .collect();
    Balancer::new(upstream.algorithm, &nodes, seed)
}
