//! The nodes of one priority.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::algorithm::Algorithm;
use crate::chash::Chash;
use crate::ewma::Ewma;
use crate::least_conn::LeastConn;
use crate::node::Node;
use crate::p2c::P2c;
use crate::pick::{Open, Outcome, Pick};
use crate::random::Random;
use crate::roundrobin::RoundRobin;

/// Nodes of one priority, heaviest first, and what chooses among them.
#[derive(Debug, Clone)]
pub(crate) struct Tier {
    /// The upstream's index of each member. Not empty.
    pub(crate) nodes: Arc<[u32]>,
    strategy: Strategy,
}

#[derive(Debug, Clone)]
enum Strategy {
    /// One node: nothing to choose and nothing to count.
    Lone,
    RoundRobin(RoundRobin),
    Chash(Chash),
    Ewma(Ewma),
    LeastConn(LeastConn),
    P2c(P2c),
}

impl Tier {
    /// The tiers of an upstream, highest priority first, without those that could never give a node.
    ///
    /// What takes part follows APISIX: of several nodes with one address and priority the last counts; weight 0 takes
    /// none. Where all nodes of a tier weigh 0, `chash` gives none and the others share evenly. The only node of an
    /// upstream is picked whatever it weighs.
    ///
    /// Differences, so that 0 means the same everywhere and a drained node stays drained: APISIX's `ewma` looks at no
    /// weight and uses nodes of weight 0 too, and its `least_conn` falls back on them once all others were tried.
    pub(crate) fn of(nodes: &[Node<'_>], algorithm: Algorithm, random: &mut Random) -> Vec<Self> {
        let last: HashMap<_, _> = nodes
            .iter()
            .zip(0_u32..)
            .map(|(node, index)| ((node.host, node.port, node.priority), index))
            .collect();
        let mut by_priority: BTreeMap<Reverse<i32>, Vec<(u32, Node<'_>)>> = BTreeMap::new();
        for (node, index) in nodes.iter().zip(0_u32..) {
            if last.get(&(node.host, node.port, node.priority)) == Some(&index) {
                by_priority.entry(Reverse(node.priority)).or_default().push((index, *node));
            }
        }
        let only_node = nodes.len() == 1;
        by_priority
            .into_values()
            .filter_map(|mut members| {
                members.sort_by_key(|(_, node)| Reverse(node.weight));
                let weighing = members.partition_point(|(_, node)| node.weight > 0);
                match (weighing, algorithm) {
                    (0, Algorithm::Chash) if !only_node => return None,
                    (0, _) => {}
                    _ => members.truncate(weighing),
                }
                Some(Self::new(&members, algorithm, random))
            })
            .collect()
    }

    fn new(members: &[(u32, Node<'_>)], algorithm: Algorithm, random: &mut Random) -> Self {
        let weights: Vec<u32> = members.iter().map(|(_, node)| node.weight).collect();
        let strategy = match algorithm {
            // Counted even when alone: requests in flight must be known when a second node joins.
            Algorithm::LeastConn => Strategy::LeastConn(LeastConn::new(&weights)),
            Algorithm::P2c => Strategy::P2c(P2c::new(&weights, random.split())),
            _ if members.len() == 1 => Strategy::Lone,
            Algorithm::RoundRobin => Strategy::RoundRobin(RoundRobin::new(&weights, random)),
            Algorithm::Chash => {
                Strategy::Chash(Chash::new(&members.iter().map(|(_, node)| *node).collect::<Vec<_>>()))
            }
            Algorithm::Ewma => Strategy::Ewma(Ewma::new(members.len(), random.split())),
        };
        Self { nodes: members.iter().map(|(index, _)| *index).collect(), strategy }
    }

    /// Forgets what was counted and starts anew elsewhere: the same tier for another worker.
    pub(crate) fn restart(&mut self, random: &mut Random) {
        match &mut self.strategy {
            Strategy::Lone | Strategy::Chash(_) => {}
            Strategy::RoundRobin(balancer) => balancer.restart(random),
            Strategy::Ewma(balancer) => balancer.restart(random.split()),
            Strategy::LeastConn(balancer) => balancer.restart(),
            Strategy::P2c(balancer) => balancer.restart(random.split()),
        }
    }

    /// The upstream's index of the node picked.
    #[inline]
    pub(crate) fn pick(&mut self, pick: &Pick<'_>) -> Option<usize> {
        let open = Open::new(pick, &self.nodes);
        let member = match &mut self.strategy {
            Strategy::Lone => open.has(0).then_some(0),
            Strategy::RoundRobin(balancer) => balancer.pick(&open),
            Strategy::Chash(balancer) => balancer.pick(&open),
            Strategy::Ewma(balancer) => balancer.pick(&open),
            Strategy::LeastConn(balancer) => balancer.pick(&open),
            Strategy::P2c(balancer) => balancer.pick(&open),
        };
        member.map(|member| self.nodes[member] as usize)
    }

    #[inline]
    pub(crate) fn finished(&mut self, member: usize, outcome: Outcome, now_ms: u64) {
        match &mut self.strategy {
            Strategy::Lone | Strategy::RoundRobin(_) | Strategy::Chash(_) => {}
            Strategy::Ewma(balancer) => balancer.finished(member, outcome, now_ms),
            Strategy::LeastConn(balancer) => balancer.finished(member),
            Strategy::P2c(balancer) => balancer.finished(member),
        }
    }

    /// Takes over what `old` knows of its member `from` for the member `to`; nothing where the algorithms differ.
    pub(crate) fn inherit(&mut self, to: usize, old: &Self, from: usize) {
        match (&mut self.strategy, &old.strategy) {
            (Strategy::Ewma(new), Strategy::Ewma(old)) => new.set_average(to, old.average(from)),
            (Strategy::LeastConn(new), Strategy::LeastConn(old)) => {
                new.set_in_flight(to, old.in_flight(from));
            }
            (Strategy::P2c(new), Strategy::P2c(old)) => new.set_in_flight(to, old.in_flight(from)),
            _ => {}
        }
    }
}
