//! What all workers have in common of an upstream, besides what is written of it.

use super::{Board, Upstream};
use balance::Balancer;

/// What all workers have in common of an upstream. It follows from the rest, so upstreams are the same without it.
#[derive(Debug, Default)]
pub struct Shared {
    /// The health of the nodes; `None` where nothing is checked.
    pub board: Option<Board>,
    /// What each worker's balancer is forked from.
    balancer: Option<Balancer>,
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
        Self { board: Board::of(upstream, resource, known), balancer: Some(balancer(upstream, 0)) }
    }
}

impl Upstream {
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
