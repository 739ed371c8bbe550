//! The less loaded of two nodes taken at random, by requests in flight for their weight; ours.
//!
//! Beside `least_conn` it costs the same for a thousand nodes as for two, and workers, who each know of their own requests
//! alone, don't all turn to the same node.

use crate::load::Load;
use crate::pair::pair;
use crate::pick::Open;
use crate::random::Random;

#[derive(Debug, Clone)]
pub(crate) struct P2c {
    /// By member.
    loads: Box<[Load]>,
    random: Random,
}

impl P2c {
    pub(crate) fn new(weights: &[u32], random: Random) -> Self {
        Self { loads: weights.iter().map(|&weight| Load::new(weight)).collect(), random }
    }

    pub(crate) fn restart(&mut self, random: Random) {
        self.loads.iter_mut().for_each(|load| load.in_flight = 0);
        self.random = random;
    }

    /// The member picked has one more request in flight, until it is [`Self::finished`].
    #[inline(never)] // Its registers and stack would be saved on the path of round robin too.
    pub(crate) fn pick(&mut self, open: &Open<'_>) -> Option<usize> {
        let (a, b) = pair(&mut self.random, open)?;
        let picked = if self.loads[b].score() < self.loads[a].score() { b } else { a };
        let load = &mut self.loads[picked];
        load.in_flight = load.in_flight.saturating_add(1);
        Some(picked)
    }

    pub(crate) fn finished(&mut self, member: usize) {
        let load = &mut self.loads[member];
        load.in_flight = load.in_flight.saturating_sub(1);
    }

    pub(crate) fn in_flight(&self, member: usize) -> u32 {
        self.loads[member].in_flight
    }

    pub(crate) fn set_in_flight(&mut self, member: usize, in_flight: u32) {
        self.loads[member].in_flight = in_flight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pick::testing;

    #[test]
    fn of_two_the_less_loaded_for_its_weight_is_picked() {
        // By hand from (in flight + 1) / weight; between equals chance decides, as after the third request of 2 to 1.
        let mut balancer = P2c::new(&[2, 1], Random::new(1));
        let mut pick = || testing::open(2, &[], |open| balancer.pick(open)).unwrap();
        let mut first = [pick(), pick(), pick()];
        first.sort_unstable();
        assert_eq!(first, [0, 0, 1]);
    }

    #[test]
    fn a_busy_node_gets_nothing_until_it_has_answered() {
        let mut balancer = P2c::new(&[1, 1], Random::new(1));
        balancer.set_in_flight(0, 50);
        for _ in 0..50 {
            assert_eq!(testing::open(2, &[], |open| balancer.pick(open)), Some(1));
        }
        (0..50).for_each(|_| balancer.finished(0));
        assert_eq!(testing::open(2, &[], |open| balancer.pick(open)), Some(0));
        assert_eq!(testing::open(2, &[0], |open| balancer.pick(open)), Some(1));
        assert_eq!(testing::open(2, &[0, 1], |open| balancer.pick(open)), None);
    }

    #[test]
    fn requests_that_stay_are_spread_over_all() {
        let mut balancer = P2c::new(&[1; 100], Random::new(1));
        for _ in 0..10_000 {
            testing::open(100, &[], |open| balancer.pick(open));
        }
        // Chance alone leaves about 25 between the fullest and 100; the better of two log log 100, a few.
        assert!((0..100).all(|member| balancer.in_flight(member).abs_diff(100) < 8));
    }
}
