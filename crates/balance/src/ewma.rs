//! The quicker of two nodes taken at random, by a moving average of their latency that fades with time.
//!
//! As APISIX has it, but kept per worker and upstream where APISIX keeps one figure per address for all, and with one
//! difference: a request that failed is not counted. APISIX counts the last try of a request whatever became of it, so
//! that a node which refuses connections at once looks like the quickest.

use crate::pair::pair;
use crate::pick::{Open, Outcome};
use crate::random::Random;

/// An average this old is forgotten.
const FORGET_MS: u64 = 60_000;

/// How much of an average is left after 0, 1 ... 255 ms: it falls to 1/e within 10 s, by e^-0.0001 each millisecond.
/// With [`FADE_256_MS`] two factors from tables of 4 KiB together, where calling `exp` would be half of a pick's cost.
const FADE_1_MS: [f64; 256] = powers(0.999_900_004_999_833_3);

/// The same after 0, 256, 512 ... ms, by e^-0.0256 each, up to [`FORGET_MS`].
const FADE_256_MS: [f64; FORGET_MS as usize / 256 + 1] = powers(0.974_724_901_601_793_4);

#[derive(Debug, Clone)]
pub(crate) struct Ewma {
    averages: Box<[Average]>,
    random: Random,
}

/// A node's average latency, last changed at `at_ms`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Average {
    seconds: f64,
    /// `None` before the first answer.
    at_ms: Option<u64>,
}

impl Average {
    /// How much of the old average is left at `now_ms`: 1 when it was just changed, 0 when it is forgotten.
    fn left(&self, now_ms: u64) -> f64 {
        match self.at_ms.map(|at| now_ms.saturating_sub(at)) {
            Some(age) if age < FORGET_MS => FADE_256_MS[age as usize / 256] * FADE_1_MS[age as usize % 256],
            _ => 0.0,
        }
    }

    /// Lower is better. It sinks while a node gets nothing, so that each is tried again at some time.
    fn score(&self, now_ms: u64) -> f64 {
        self.seconds * self.left(now_ms)
    }

    fn observe(&mut self, seconds: f64, now_ms: u64) {
        let left = self.left(now_ms);
        self.seconds = self.seconds * left + seconds * (1.0 - left);
        self.at_ms = Some(now_ms);
    }
}

impl Ewma {
    pub(crate) fn new(members: usize, random: Random) -> Self {
        Self { averages: vec![Average::default(); members].into(), random }
    }

    pub(crate) fn restart(&mut self, random: Random) {
        *self = Self::new(self.averages.len(), random);
    }

    #[inline(never)] // Its registers and stack would be saved on the path of round robin too.
    pub(crate) fn pick(&mut self, open: &Open<'_>) -> Option<usize> {
        let (a, b) = pair(&mut self.random, open)?;
        Some(self.quicker(a, b, open.now_ms()))
    }

    fn quicker(&self, a: usize, b: usize, now_ms: u64) -> usize {
        if self.averages[a].score(now_ms) > self.averages[b].score(now_ms) { b } else { a }
    }

    pub(crate) fn finished(&mut self, member: usize, outcome: Outcome, now_ms: u64) {
        if !outcome.failed {
            self.averages[member].observe(outcome.latency.as_secs_f64(), now_ms);
        }
    }

    pub(crate) fn average(&self, member: usize) -> Average {
        self.averages[member]
    }

    pub(crate) fn set_average(&mut self, member: usize, average: Average) {
        self.averages[member] = average;
    }
}

/// 1, `factor`, its square and so on: off by less than 1e-13 of each, after the last of some hundred products.
const fn powers<const COUNT: usize>(factor: f64) -> [f64; COUNT] {
    let mut powers = [1.0; COUNT];
    let mut exponent = 1;
    while exponent < COUNT {
        powers[exponent] = powers[exponent - 1] * factor;
        exponent += 1;
    }
    powers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pick::testing;
    use std::time::Duration;

    fn ms(latency: u64) -> Outcome {
        Outcome { latency: Duration::from_millis(latency), failed: false }
    }

    fn ewma(members: usize) -> Ewma {
        Ewma::new(members, Random::new(3))
    }

    #[test]
    fn averages_follow_the_decay() {
        /// (time, latency) of the answers, the time of the score, the score: by hand from e^(-age / 10 s).
        type Case = (&'static [(u64, u64)], u64, f64);
        let cases: &[Case] = &[
            (&[], 5, 0.0),
            (&[(1_000, 200)], 1_000, 0.2),
            (&[(1_000, 200)], 11_000, 0.2 * 0.367_879_441),
            (&[(1_000, 200), (11_000, 100)], 11_000, 0.2 * 0.367_879_441 + 0.1 * 0.632_120_559),
            (&[(1_000, 200), (1_000, 900)], 1_000, 0.2),
            (&[(1_000, 200)], 500, 0.2),
            (&[(1_000, 200)], 61_000, 0.0),
            (&[(1_000, 200), (61_000, 100)], 61_000, 0.1),
        ];
        for (answers, at, expected) in cases {
            let mut balancer = ewma(1);
            for &(now_ms, latency) in *answers {
                balancer.finished(0, ms(latency), now_ms);
            }
            let score = balancer.average(0).score(*at);
            assert!((score - expected).abs() < 1e-9, "{answers:?} at {at}: {score}");
        }
    }

    #[test]
    fn the_tables_are_the_exponential_function() {
        for age in 0..FORGET_MS {
            let left = Average { seconds: 1.0, at_ms: Some(0) }.left(age);
            let expected = (-(age as f64) / 10_000.0).exp();
            assert!((left / expected - 1.0).abs() < 1e-12, "{age}: {left}");
        }
    }

    #[test]
    fn of_two_nodes_the_quicker_is_picked_until_the_slower_has_been_forgotten() {
        let mut balancer = ewma(2);
        balancer.finished(0, ms(5), 0);
        balancer.finished(1, ms(1), 0);
        for now_ms in 0..50 {
            assert_eq!(testing::keyed(2, &[], b"", now_ms, |open| balancer.pick(open)), Some(1));
            balancer.finished(1, ms(1), now_ms);
        }
        balancer.finished(1, ms(1), 20_000);
        assert_eq!(testing::keyed(2, &[], b"", 20_000, |open| balancer.pick(open)), Some(0));
    }

    #[test]
    fn a_failure_does_not_make_a_node_look_quick() {
        let mut balancer = ewma(2);
        balancer.finished(0, ms(50), 0);
        balancer.finished(0, Outcome { latency: Duration::ZERO, failed: true }, 5_000);
        assert!((balancer.average(0).seconds - 0.05).abs() < 1e-12);
    }
}
