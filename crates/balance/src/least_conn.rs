//! The node with the fewest requests in flight for its weight: a heap by `(in flight + 1) / weight`, as in APISIX.
//!
//! The heap is a binary one that knows where each member stands, so that a pick and an answer each cost one walk of at
//! most log2(members) steps. A member that may not be picked stays where it is and is looked past.

use crate::pick::Open;

#[derive(Debug, Clone)]
pub(crate) struct LeastConn {
    /// Each entry's score is at most those of the two below it, at `2 * position + 1` and `2 * position + 2`.
    heap: Box<[Entry]>,
    /// By member.
    loads: Box<[Load]>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    score: f64,
    member: u32,
}

#[derive(Debug, Clone, Copy)]
struct Load {
    /// 1 / weight.
    share: f64,
    in_flight: u32,
    /// Where the member stands in the heap.
    position: u32,
}

impl Load {
    fn score(&self) -> f64 {
        (1.0 + f64::from(self.in_flight)) * self.share
    }
}

impl LeastConn {
    /// `weights` never rise from one member to the next. Where all are 0 the members count alike; APISIX divides by
    /// 0 then and sends everything to one of them.
    pub(crate) fn new(weights: &[u32]) -> Self {
        debug_assert!(weights.is_sorted_by(|a, b| a >= b));
        let loads: Box<[_]> = weights
            .iter()
            .zip(0..)
            .map(|(&weight, position)| Load { share: 1.0 / f64::from(weight.max(1)), in_flight: 0, position })
            .collect();
        // The scores rise with the members, so that their sequence is a heap.
        let heap = loads.iter().map(|load| Entry { score: load.score(), member: load.position }).collect();
        Self { heap, loads }
    }

    pub(crate) fn restart(&mut self) {
        for member in 0..self.loads.len() {
            self.set_in_flight(member, 0);
        }
    }

    /// The member picked has one more request in flight, until it is [`Self::finished`].
    #[inline(never)] // Its registers and stack would be saved on the path of round robin too.
    pub(crate) fn pick(&mut self, open: &Open<'_>) -> Option<usize> {
        let position = self.lightest(0, open)?;
        let member = self.heap[position].member as usize;
        self.loads[member].in_flight = self.loads[member].in_flight.saturating_add(1);
        self.heap[position].score = self.loads[member].score();
        self.sink(position);
        Some(member)
    }

    pub(crate) fn finished(&mut self, member: usize) {
        self.set_in_flight(member, self.loads[member].in_flight.saturating_sub(1));
    }

    pub(crate) fn in_flight(&self, member: usize) -> u32 {
        self.loads[member].in_flight
    }

    pub(crate) fn set_in_flight(&mut self, member: usize, in_flight: u32) {
        self.loads[member].in_flight = in_flight;
        let position = self.loads[member].position as usize;
        self.heap[position].score = self.loads[member].score();
        let position = self.rise(position);
        self.sink(position);
    }

    /// The position of the lowest score among the open members at or below `position`. Goes only as far down as the
    /// closed members reach, and so never deeper than log2(members) calls.
    fn lightest(&self, position: usize, open: &Open<'_>) -> Option<usize> {
        let entry = self.heap.get(position)?;
        if open.has(entry.member as usize) {
            return Some(position);
        }
        let left = self.lightest(2 * position + 1, open);
        let right = self.lightest(2 * position + 2, open);
        match (left, right) {
            (Some(l), Some(r)) => Some(if self.heap[r].score < self.heap[l].score { r } else { l }),
            (found, None) | (None, found) => found,
        }
    }

    /// Moves the entry up to where its score belongs, and says where.
    fn rise(&mut self, mut position: usize) -> usize {
        let entry = self.heap[position];
        while position > 0 {
            let above = (position - 1) / 2;
            if self.heap[above].score <= entry.score {
                break;
            }
            self.put(position, self.heap[above]);
            position = above;
        }
        self.put(position, entry);
        position
    }

    /// Moves the entry down to where its score belongs.
    fn sink(&mut self, mut position: usize) {
        let entry = self.heap[position];
        loop {
            let mut below = 2 * position + 1;
            let Some(&left) = self.heap.get(below) else { break };
            let mut lighter = left;
            if let Some(&right) = self.heap.get(below + 1)
                && right.score < left.score
            {
                lighter = right;
                below += 1;
            }
            if entry.score <= lighter.score {
                break;
            }
            self.put(position, lighter);
            position = below;
        }
        self.put(position, entry);
    }

    fn put(&mut self, position: usize, entry: Entry) {
        self.heap[position] = entry;
        // A heap has no more entries than there are nodes, which are counted in 32 bits.
        self.loads[entry.member as usize].position = position as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pick::testing;
    use proptest::prelude::*;

    fn pick(balancer: &mut LeastConn, tried: &[usize]) -> Option<usize> {
        testing::open(balancer.loads.len(), tried, |open| balancer.pick(open))
    }

    #[test]
    fn requests_that_stay_are_spread_by_weight() {
        // By hand from (in flight + 1) / weight; between equals the one that was picked last stays in front.
        let cases: &[(&[u32], &[usize])] = &[
            (&[2, 1], &[0, 0, 1, 0]),
            (&[3, 2], &[0, 1, 0, 0, 1]),
            (&[1], &[0, 0]),
            (&[0, 0], &[0, 1, 1, 0]),
        ];
        for (weights, expected) in cases {
            let mut balancer = LeastConn::new(weights);
            let picked: Vec<_> = expected.iter().filter_map(|_| pick(&mut balancer, &[])).collect();
            assert_eq!(picked, *expected, "{weights:?}");
        }
    }

    #[test]
    fn an_answer_makes_room_again() {
        let mut balancer = LeastConn::new(&[1, 1, 1]);
        let mut first: Vec<_> = (0..3).filter_map(|_| pick(&mut balancer, &[])).collect();
        first.sort_unstable();
        assert_eq!(first, [0, 1, 2]);
        balancer.finished(1);
        assert_eq!(pick(&mut balancer, &[]), Some(1));
        balancer.finished(2);
        assert_eq!(pick(&mut balancer, &[2]).map(|member| member == 2), Some(false));
        assert_eq!(pick(&mut balancer, &[0, 1, 2]), None);
        // One answer too many is not counted below nothing.
        balancer.finished(2);
        balancer.finished(2);
        assert_eq!(balancer.in_flight(2), 0);
    }

    proptest! {
        #[test]
        fn the_pick_has_the_lowest_score_of_the_open_members(
            weights in prop::collection::vec(1_u32..50, 1..40),
            steps in prop::collection::vec(
                (any::<bool>(), 0_usize..40, prop::collection::vec(0_usize..40, 0..20)),
                1..120,
            ),
        ) {
            let mut weights = weights;
            weights.sort_unstable_by(|a, b| b.cmp(a));
            let mut balancer = LeastConn::new(&weights);
            for (answer, member, tried) in steps {
                if answer {
                    balancer.finished(member % weights.len());
                    continue;
                }
                let open = (0..weights.len()).filter(|m| !tried.contains(m));
                let lowest = open.map(|m| balancer.loads[m].score()).min_by(f64::total_cmp);
                let before = balancer.clone();
                let picked = pick(&mut balancer, &tried);
                prop_assert_eq!(picked.map(|m| before.loads[m].score()), lowest);
                for (position, entry) in balancer.heap.iter().enumerate() {
                    prop_assert_eq!(balancer.loads[entry.member as usize].position as usize, position);
                    prop_assert!(position == 0 || balancer.heap[(position - 1) / 2].score <= entry.score);
                }
            }
        }
    }
}
