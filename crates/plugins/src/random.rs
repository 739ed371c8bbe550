//! Chance, for plugins that draw lots. Not for secrets.

use plugin::Exchange;
use stdx::PerWorker;

/// The process's dice: one sequence per worker.
pub(crate) struct Random(PerWorker<u64>);

impl Random {
    /// A number below `bound`; 0 where that is 0. Off an even spread by less than one in 2^32.
    pub(crate) fn below(&self, bound: u32, exchange: &Exchange<'_>) -> u32 {
        let high = self.next(exchange) >> 32;
        // The product of two numbers below 2^32, of which the upper half is below `bound`.
        ((high * u64::from(bound)) >> 32) as u32
    }

    /// The next number of SplitMix64.
    fn next(&self, exchange: &Exchange<'_>) -> u64 {
        let number = self.0.with(exchange.worker, |state| {
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            *state
        });
        let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }
}

impl Default for Random {
    fn default() -> Self {
        let seed = stdx::hash::seed();
        let mut worker = 0u64;
        Self(PerWorker::new(|| {
            worker += 1;
            stdx::hash::hash(seed, &worker.to_le_bytes())
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::Bench;

    #[test]
    fn numbers_are_spread_and_below_the_bound() {
        let (bench, random) = (Bench::new("GET /"), Random::default());
        let exchange = bench.exchange();
        let mut seen = [0u32; 10];
        (0..10_000).for_each(|_| seen[random.below(10, &exchange) as usize] += 1);
        assert!(seen.iter().all(|count| (700..1300).contains(count)), "{seen:?}");
        assert_eq!(random.below(0, &exchange), 0);
    }
}
