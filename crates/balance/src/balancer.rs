//! One upstream's balancer: its tiers, highest priority first.

use std::collections::HashMap;
use std::sync::Arc;

use crate::algorithm::Algorithm;
use crate::node::{Identity, Node};
use crate::pick::{Outcome, Pick};
use crate::random::Random;
use crate::tier::Tier;

/// Chooses among the nodes of one upstream, for one worker. Nodes are known by their index in the list given to
/// [`Balancer::new`].
#[derive(Debug)]
pub struct Balancer {
    tiers: Box<[Tier]>,
    roster: Arc<Roster>,
}

/// What the balancers of all workers have in common.
#[derive(Debug)]
struct Roster {
    /// By node.
    identities: Box<[Identity]>,
    /// By node; `None` for a node that is never picked.
    seats: Box<[Option<Seat>]>,
}

/// Where a node stands.
#[derive(Debug, Clone, Copy)]
struct Seat {
    tier: u32,
    member: u32,
}

impl Balancer {
    /// Prepares to balance over `nodes`, of which there may be none. `seed` sets where `roundrobin` starts and what
    /// `ewma` draws. For `chash` this sorts 160 points for each unit of weight: do it away from the workers.
    #[must_use]
    pub fn new(algorithm: Algorithm, nodes: &[Node<'_>], seed: u64) -> Self {
        let tiers = Tier::of(nodes, algorithm, &mut Random::new(seed));
        let mut seats = vec![None; nodes.len()];
        for (tier, place) in tiers.iter().zip(0..) {
            for (&node, member) in tier.nodes.iter().zip(0..) {
                seats[node as usize] = Some(Seat { tier: place, member });
            }
        }
        let identities = nodes.iter().map(Node::identity).collect();
        Self { tiers: tiers.into(), roster: Arc::new(Roster { identities, seats: seats.into() }) }
    }

    /// The same balancer for another worker, with nothing counted yet; what never changes is shared.
    #[must_use]
    pub fn fork(&self, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut tiers = self.tiers.clone();
        tiers.iter_mut().for_each(|tier| tier.restart(&mut random));
        Self { tiers, roster: Arc::clone(&self.roster) }
    }

    /// By node: which one of `old`, the balancer of the same upstream before a change, it was.
    #[must_use]
    pub fn former(&self, old: &Self) -> Vec<Option<usize>> {
        let known: HashMap<_, _> = old.roster.identities.iter().zip(0..).collect();
        self.roster.identities.iter().map(|identity| known.get(identity).copied()).collect()
    }

    /// Takes over what `old` knows of the nodes that stay, `former` as [`Balancer::former`] says: their latencies (`ewma`)
    /// or requests in flight (`least_conn`, `p2c`). Nothing where the algorithm is another.
    ///
    /// A request that was picked by `old` is then finished here, under the index that [`Balancer::index_of`] gives.
    pub fn inherit(&mut self, old: &Self, former: &[Option<usize>]) {
        for (seat, former) in self.roster.seats.iter().zip(former) {
            let from = former.and_then(|node| old.roster.seats[node]);
            if let (Some(to), Some(from)) = (seat, from) {
                let old_tier = &old.tiers[from.tier as usize];
                self.tiers[to.tier as usize].inherit(to.member as usize, old_tier, from.member as usize);
            }
        }
    }

    /// Picks a node: of the highest priority that has one which is usable and not yet tried. `None` when no node is
    /// left.
    ///
    /// Each pick is followed by one [`Balancer::finished`].
    #[inline]
    pub fn pick(&mut self, pick: &Pick<'_>) -> Option<usize> {
        self.tiers.iter_mut().find_map(|tier| tier.pick(pick))
    }

    /// Tells how the request went for which `node` was picked, at `now_ms` (as in [`Pick::now_ms`]). To be called for
    /// every pick, those that failed or were given up included; an unknown node is ignored.
    #[inline]
    pub fn finished(&mut self, node: usize, outcome: Outcome, now_ms: u64) {
        if let Some(Some(seat)) = self.roster.seats.get(node) {
            self.tiers[seat.tier as usize].finished(seat.member as usize, outcome, now_ms);
        }
    }

    /// How many nodes there are, those that are never picked included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.roster.identities.len()
    }

    /// Whether there is no node at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.roster.identities.is_empty()
    }

    /// What the node of this index is recognised by.
    #[must_use]
    pub fn identity(&self, node: usize) -> Option<&Identity> {
        self.roster.identities.get(node)
    }

    /// The index of a node, searched from end to end; the one that is picked where several have this identity.
    #[must_use]
    pub fn index_of(&self, identity: &Identity) -> Option<usize> {
        self.roster.identities.iter().rposition(|known| known == identity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const DONE: Outcome = Outcome { latency: Duration::from_millis(3), failed: false };

    /// Nodes 10.0.0.1:80, 10.0.0.1:81 ... with these weights and priorities.
    fn balancer(algorithm: Algorithm, nodes: &[(u32, i32)]) -> Balancer {
        let nodes: Vec<_> = nodes
            .iter()
            .zip(80..)
            .map(|(&(weight, priority), port)| Node { host: "10.0.0.1", port, weight, priority })
            .collect();
        Balancer::new(algorithm, &nodes, 11)
    }

    /// The nodes in the order in which one request that fails everywhere tries them.
    fn tries(balancer: &mut Balancer) -> Vec<usize> {
        let mut tried = Vec::new();
        while let Some(node) = balancer.pick(&Pick { tried: &tried, ..Pick::default() }) {
            tried.push(node);
        }
        tried
    }

    #[test]
    fn priorities_are_exhausted_from_the_highest() {
        let nodes = [(2, 1), (1, -1), (3, 1), (1, 0), (1, -1)];
        for algorithm in Algorithm::ALL {
            let order = tries(&mut balancer(algorithm, &nodes));
            let priorities: Vec<_> = order.iter().map(|&node| nodes[node].1).collect();
            assert_eq!(priorities, [1, 1, 0, -1, -1], "{algorithm}");
        }
    }

    #[test]
    fn weight_zero_takes_none_unless_all_have_it() {
        use Algorithm::{Chash, Ewma, LeastConn, P2c, RoundRobin};
        /// Who is to take the cases, the nodes as (weight, priority), the nodes that may be picked.
        type Case = (&'static [Algorithm], &'static [(u32, i32)], &'static [usize]);
        let cases: &[Case] = &[
            (&Algorithm::ALL, &[], &[]),
            (&Algorithm::ALL, &[(0, 0)], &[0]),
            (&Algorithm::ALL, &[(3, 0), (0, 0), (1, 0)], &[0, 2]),
            (&[RoundRobin, Ewma, LeastConn, P2c], &[(0, 0), (0, 0)], &[0, 1]),
            (&[Chash], &[(0, 0), (0, 0)], &[]),
            (&[RoundRobin, Ewma, LeastConn, P2c], &[(0, 1), (1, 0)], &[0, 1]),
            (&[Chash], &[(0, 1), (1, 0)], &[1]),
        ];
        for (algorithms, nodes, expected) in cases {
            for &algorithm in *algorithms {
                let mut order = tries(&mut balancer(algorithm, nodes));
                order.sort_unstable();
                assert_eq!(order, *expected, "{algorithm} {nodes:?}");
            }
        }
    }

    #[test]
    fn of_nodes_with_one_address_the_last_counts() {
        let node = |port, weight, priority| Node { host: "a.example", port, weight, priority };
        let nodes = [node(80, 5, 0), node(81, 1, 0), node(80, 1, 0), node(80, 1, -1)];
        for algorithm in Algorithm::ALL {
            let mut balancer = Balancer::new(algorithm, &nodes, 5);
            let mut order = tries(&mut balancer);
            order.sort_unstable();
            assert_eq!(order, [1, 2, 3], "{algorithm}");
            assert_eq!(balancer.identity(0).and_then(|identity| balancer.index_of(identity)), Some(2));
        }
    }

    #[test]
    fn unusable_nodes_are_left_out() {
        for algorithm in Algorithm::ALL {
            let mut balancer = balancer(algorithm, &[(5, 0), (1, 0), (1, 0)]);
            for _ in 0..20 {
                let picked = balancer.pick(&Pick { usable: Some(&|node| node == 2), ..Pick::default() });
                assert_eq!(picked, Some(2), "{algorithm}");
            }
            assert_eq!(balancer.pick(&Pick { usable: Some(&|_| false), ..Pick::default() }), None);
        }
    }

    #[test]
    fn a_fork_has_counted_nothing() {
        let mut first = balancer(Algorithm::LeastConn, &[(1, 0), (1, 0)]);
        let busy = first.pick(&Pick::default());
        assert_ne!(first.pick(&Pick::default()), busy);
        let mut second = first.fork(1);
        let picked: Vec<_> = (0..2).filter_map(|_| second.pick(&Pick::default())).collect();
        assert_ne!(picked[0], picked[1]);
        assert_eq!(second.len(), 2);
    }

    #[test]
    fn requests_in_flight_outlive_a_change_of_the_nodes() {
        let node = |port| Node { host: "10.0.0.1", port, weight: 1, priority: 0 };
        let mut old = Balancer::new(Algorithm::LeastConn, &[node(80)], 1);
        for _ in 0..3 {
            assert_eq!(old.pick(&Pick::default()), Some(0));
        }
        let mut new = Balancer::new(Algorithm::LeastConn, &[node(81), node(80)], 1);
        new.inherit(&old, &new.former(&old));
        for _ in 0..3 {
            assert_eq!(new.pick(&Pick::default()), Some(0));
        }
        let index = old.identity(0).and_then(|identity| new.index_of(identity));
        assert_eq!(index, Some(1));
        new.finished(1, DONE, 0);
        assert_eq!(new.pick(&Pick::default()), Some(1));
    }

    #[test]
    fn latencies_outlive_a_change_of_the_nodes() {
        let node = |port| Node { host: "10.0.0.1", port, weight: 1, priority: 0 };
        let mut old = Balancer::new(Algorithm::Ewma, &[node(80), node(81)], 1);
        old.finished(0, DONE, 0);
        let mut new = Balancer::new(Algorithm::Ewma, &[node(82), node(80)], 1);
        new.inherit(&old, &new.former(&old));
        for _ in 0..20 {
            assert_eq!(new.pick(&Pick::default()), Some(0));
        }
    }

    #[test]
    fn an_unknown_node_is_ignored() {
        for algorithm in Algorithm::ALL {
            balancer(algorithm, &[(1, 0), (0, 0)]).finished(1, DONE, 0);
            balancer(algorithm, &[]).finished(usize::MAX, DONE, 0);
        }
    }
}
