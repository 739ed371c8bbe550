//! The node with the fewest requests in flight for its weight: the lowest `(in flight + 1) / weight`, as in APISIX.
//!
//! APISIX keeps a heap. Here it is a tournament in groups of four: of each group the lowest score goes on to the next
//! round. A member whose score changes plays again in its group, and, as long as that changes who goes on, in the groups
//! above: in log4(members) rounds at most, of a few instructions each. A member that may not be picked stays where it is
//! and is looked past. Between equals the one that has waited longest is picked, so that they take turns also where there
//! is never more than one request in flight; on APISIX's heap one of them stays at the top.

use crate::load::Load;
use crate::pick::Open;

#[derive(Debug, Clone)]
pub(crate) struct LeastConn {
    /// The last round is played in group 1. The winners of the groups `4 * group` to `4 * group + 3` play in `group`, and
    /// so each place has a number: its group's, times 4, plus which of the four it is. What lies between the rounds is
    /// vacant.
    groups: Box<[[Player; 4]]>,
    /// The place of the first member in the first round, a power of 4; the others follow in their order.
    first: usize,
    /// The winner of the last round.
    champion: Player,
    /// By member.
    loads: Box<[Load]>,
    /// Grows by `first` whenever a score changes.
    changes: u32,
}

/// A member in one word, so that a game is one comparison. From the top: the score, as its bits, which for numbers that
/// aren't negative are in the numbers' order; the change that it comes from; the number of the member, below
/// [`LeastConn::first`]. There is room for 2^32 / members changes, after which the order among equals begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Player(u64);

/// Fills a group up, and loses to everybody.
const VACANT: Player = Player(u64::MAX);

impl LeastConn {
    /// There is a weight at least. Where all are 0 the members count alike; APISIX divides by 0 then and sends
    /// everything to one of them.
    pub(crate) fn new(weights: &[u32]) -> Self {
        let loads: Box<[_]> = weights.iter().map(|&weight| Load::new(weight)).collect();
        let places = loads.len().next_power_of_two();
        let first = if places.ilog2().is_multiple_of(2) { places } else { 2 * places };
        let groups = vec![[VACANT; 4]; (first + loads.len()).div_ceil(4)].into();
        let mut fresh = Self { groups, first, champion: VACANT, loads, changes: 0 };
        fresh.restart();
        fresh
    }

    pub(crate) fn restart(&mut self) {
        for member in 0..self.loads.len() {
            self.set_in_flight(member, 0);
        }
    }

    /// The member picked has one more request in flight, until it is [`Self::finished`].
    #[inline(never)] // Its registers and stack would be saved on the path of round robin too.
    pub(crate) fn pick(&mut self, open: &Open<'_>) -> Option<usize> {
        let champion = self.member(self.champion);
        let member = if open.has(champion) { champion } else { self.member(self.lightest(1, open)?) };
        self.replay::<false>(member, self.loads[member].in_flight.saturating_add(1));
        Some(member)
    }

    #[inline(never)] // As above.
    pub(crate) fn finished(&mut self, member: usize) {
        if let Some(in_flight) = self.loads[member].in_flight.checked_sub(1) {
            self.replay::<true>(member, in_flight);
        }
    }

    pub(crate) fn in_flight(&self, member: usize) -> u32 {
        self.loads[member].in_flight
    }

    pub(crate) fn set_in_flight(&mut self, member: usize, in_flight: u32) {
        self.replay::<false>(member, in_flight);
    }

    /// Plays the member's games again with another score. One whose score `FELL` has changed nothing from where another
    /// one wins: that one has won there before.
    #[inline]
    fn replay<const FELL: bool>(&mut self, member: usize, in_flight: u32) {
        self.loads[member].in_flight = in_flight;
        self.changes = self.changes.wrapping_add(self.first as u32);
        let score = u64::from(self.loads[member].score().to_bits());
        let changed = Player(score << 32 | u64::from(self.changes) | member as u64);
        let mut winner = changed;
        let mut place = self.first + member;
        while place > 1 {
            let group = &mut self.groups[place / 4];
            group[place % 4] = winner;
            let [a, b, c, d] = *group;
            winner = a.min(b).min(c.min(d));
            if FELL && winner != changed {
                return;
            }
            place /= 4;
        }
        self.champion = winner;
    }

    /// The member whom the word tells.
    fn member(&self, player: Player) -> usize {
        player.0 as usize & (self.first - 1)
    }

    /// The lowest of the open members who could come to this group. Goes only as far down as the closed members reach,
    /// and so never deeper than there are rounds: 16, with 2^32 members.
    #[cold]
    fn lightest(&self, group: usize, open: &Open<'_>) -> Option<Player> {
        let players =
            self.groups.get(group)?.iter().zip(4 * group..).filter(|(player, _)| **player != VACANT);
        let lowest = |(&player, place): (&Player, usize)| match place {
            _ if open.has(self.member(player)) => Some(player),
            _ if place < self.first => self.lightest(place, open),
            _ => None,
        };
        players.filter_map(lowest).min()
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
        // By hand from (in flight + 1) / weight; between equals the one that waited longest is picked.
        let cases: &[(&[u32], &[usize])] = &[
            (&[2, 1], &[0, 1, 0, 0]),
            (&[3, 2], &[0, 1, 0, 1, 0]),
            (&[1], &[0, 0]),
            (&[0, 0], &[0, 1, 0, 1]),
        ];
        for (weights, expected) in cases {
            let mut balancer = LeastConn::new(weights);
            let picked: Vec<_> = expected.iter().filter_map(|_| pick(&mut balancer, &[])).collect();
            assert_eq!(picked, *expected, "{weights:?}");
        }
    }

    #[test]
    fn equals_take_turns_though_one_request_is_under_way_at_a_time() {
        for members in [1, 2, 4, 5, 17] {
            let mut balancer = LeastConn::new(&vec![1; members]);
            let turn = |balancer: &mut LeastConn| {
                let member = pick(balancer, &[]).unwrap();
                balancer.finished(member);
                member
            };
            let picked: Vec<_> = (0..2 * members).map(|_| turn(&mut balancer)).collect();
            let expected: Vec<_> = (0..members).chain(0..members).collect();
            assert_eq!(picked, expected);
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
                let lowest = open.map(|m| balancer.loads[m].score()).min_by(f32::total_cmp);
                let before = balancer.clone();
                let picked = pick(&mut balancer, &tried);
                prop_assert_eq!(picked.map(|m| before.loads[m].score()), lowest);
            }
        }
    }
}
