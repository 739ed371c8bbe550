//! Weighted round robin: the sequence of lua-resty-balancer's `roundrobin`, with every pick in constant time.
//!
//! That library goes through the nodes once per level; the level sinks from the greatest weight to 0 in steps of the
//! weights' greatest common divisor, and a node takes a request on every level that its weight reaches. It looks at
//! all nodes on each level, so that with 999 light nodes behind a heavy one a pick looks at a thousand.
//!
//! Its order within a level is a hash table's, that is to say any. Taken from the heaviest to the lightest, the nodes
//! that a level reaches stand at the front, and the first that it doesn't reach ends it. So the sequence is one of
//! those which the library gives, its proportions are exact in each period of `sum of weights / gcd` picks, and nothing
//! is searched. A smooth sequence (nginx's) would spread better but answer otherwise than APISIX.

use crate::pick::Open;
use crate::random::Random;

#[derive(Debug, Clone)]
pub(crate) struct RoundRobin {
    /// By member, never rising.
    weights: Box<[u32]>,
    /// The step between levels; 0 where all weights are 0: one level, which all nodes reach.
    gcd: u32,
    /// A multiple of `gcd`, above 0 unless `gcd` is 0, and at most the first weight.
    level: u32,
    /// The member to look at next, on `level`; one past the last when the level is done.
    next: usize,
}

impl RoundRobin {
    /// `weights` never rise from one member to the next.
    pub(crate) fn new(weights: &[u32], random: &mut Random) -> Self {
        debug_assert!(weights.is_sorted_by(|a, b| a >= b));
        let mut fresh = Self {
            weights: weights.into(),
            gcd: weights.iter().copied().fold(0, gcd),
            level: weights.first().copied().unwrap_or(0),
            next: 0,
        };
        fresh.restart(random);
        fresh
    }

    /// Starts on the greatest level behind a random node, so that workers which start together don't all begin with
    /// the same node.
    pub(crate) fn restart(&mut self, random: &mut Random) {
        self.level = self.weights.first().copied().unwrap_or(0);
        self.next = 1 + random.below(self.weights.len());
    }

    #[inline]
    pub(crate) fn pick(&mut self, open: &Open<'_>) -> Option<usize> {
        if self.weights.get(self.next).is_none_or(|&weight| weight < self.level) {
            self.level = self.below(self.level);
            self.next = 0;
        }
        // The first weight reaches every level, so that `next` is a member of the level here, unless there is none.
        if self.next < self.weights.len() && open.has(self.next) {
            self.next += 1;
            return Some(self.next - 1);
        }
        self.skip(open)
    }

    /// Goes on to the next member that is open, to where asking again and again would come. Not by asking again: next
    /// to a weight of a billion that would take a billion steps.
    #[cold]
    fn skip(&mut self, open: &Open<'_>) -> Option<usize> {
        let on_level = self.weights.partition_point(|&weight| weight >= self.level);
        let member = match (self.next..on_level).find(|&member| open.has(member)) {
            Some(member) => member,
            None => {
                // The heaviest open member is the first to be reached, on the next level that is not above its weight.
                let first = open.iter().next()?;
                self.level = self.below(self.level).min(self.weights[first]);
                first
            }
        };
        self.next = member + 1;
        Some(member)
    }

    /// The level after this one.
    #[inline]
    fn below(&self, level: u32) -> u32 {
        match level - self.gcd {
            0 => self.weights.first().copied().unwrap_or(0),
            lower => lower,
        }
    }
}

/// The greatest common divisor; that of a number and 0 is the number.
pub(crate) fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pick::testing;
    use proptest::prelude::*;

    /// The library's procedure, step by step, on the same order of nodes.
    struct Searching {
        weights: Vec<u32>,
        level: u32,
        last: usize,
    }

    impl Searching {
        fn pick(&mut self) -> usize {
            let step = self.weights.iter().copied().fold(0, gcd);
            loop {
                let from = self.last;
                if let Some(found) = (from..self.weights.len()).find(|&i| self.weights[i] >= self.level) {
                    self.last = found + 1;
                    return found;
                }
                self.last = 0;
                self.level -= step;
                if self.level == 0 {
                    self.level = self.weights[0];
                }
            }
        }
    }

    fn sorted(mut weights: Vec<u32>) -> Vec<u32> {
        weights.sort_unstable_by(|a, b| b.cmp(a));
        weights
    }

    fn picks(weights: &[u32], count: usize) -> Vec<usize> {
        let mut balancer = RoundRobin::new(weights, &mut Random::new(1));
        balancer.next = 0;
        let members = weights.len();
        (0..count).map(|_| testing::open(members, &[], |open| balancer.pick(open)).unwrap()).collect()
    }

    #[test]
    fn sequences_are_level_by_level() {
        let cases: &[(&[u32], &[usize])] = &[
            (&[1], &[0, 0, 0]),
            (&[1, 1, 1], &[0, 1, 2, 0, 1, 2]),
            (&[3, 2, 1], &[0, 0, 1, 0, 1, 2, 0, 0, 1]),
            (&[300, 200, 100], &[0, 0, 1, 0, 1, 2]),
            (&[5, 1], &[0, 0, 0, 0, 0, 1, 0]),
            (&[0, 0], &[0, 1, 0, 1]),
        ];
        for (weights, expected) in cases {
            assert_eq!(picks(weights, expected.len()), *expected, "{weights:?}");
        }
    }

    #[test]
    fn ten_thousand_picks_are_shared_exactly() {
        let cases: &[(&[u32], &[usize])] = &[
            (&[1, 1], &[5_000, 5_000]),
            (&[5, 3, 2], &[5_000, 3_000, 2_000]),
            (&[60, 40], &[6_000, 4_000]),
            (&[9_999, 1], &[9_999, 1]),
            (&[0, 0, 0, 0], &[2_500; 4]),
        ];
        for (weights, expected) in cases {
            let mut counts = vec![0; weights.len()];
            picks(weights, 10_000).into_iter().for_each(|member| counts[member] += 1);
            assert_eq!(counts, *expected, "{weights:?}");
        }
    }

    #[test]
    fn a_heavy_tried_node_is_passed_without_walking_its_levels() {
        let mut balancer = RoundRobin::new(&[4_000_000_000, 1], &mut Random::new(1));
        assert_eq!(testing::open(2, &[0], |open| balancer.pick(open)), Some(1));
        assert_eq!(testing::open(2, &[0, 1], |open| balancer.pick(open)), None);
        assert_eq!(testing::open(2, &[], |open| balancer.pick(open)), Some(0));
    }

    #[test]
    fn starts_differ_by_seed() {
        let first = |seed| {
            let mut balancer = RoundRobin::new(&[1; 8], &mut Random::new(seed));
            testing::open(8, &[], |open| balancer.pick(open)).unwrap()
        };
        let starts: std::collections::BTreeSet<_> = (0..100).map(first).collect();
        assert_eq!(starts.len(), 8);
    }

    proptest! {
        #[test]
        fn the_sequence_is_the_searching_ones_with_tried_nodes_passed_over(
            weights in prop::collection::vec(prop_oneof![1_u32..6, (1_u32..9).prop_map(|w| w * 10)], 1..9),
            tried in prop::collection::vec((prop::collection::vec(0_usize..9, 0..4), any::<bool>()), 1..80),
            seed: u64,
        ) {
            let weights = sorted(weights);
            let mut balancer = RoundRobin::new(&weights, &mut Random::new(seed));
            let mut searching =
                Searching { weights: weights.clone(), level: balancer.level, last: balancer.next };
            for (tried, apply) in tried {
                let tried = if apply { tried } else { vec![] };
                let picked = testing::open(weights.len(), &tried, |open| balancer.pick(open));
                if (0..weights.len()).all(|member| tried.contains(&member)) {
                    prop_assert_eq!(picked, None);
                    continue;
                }
                let expected = std::iter::repeat_with(|| searching.pick()).find(|m| !tried.contains(m));
                prop_assert_eq!(picked, expected);
            }
        }
    }
}
