//! Random numbers for choosing among nodes: seeded, so that a test can repeat a run, and not for secrets.

/// Marsaglia's xorshift64 with a multiplied output (xorshift64*): three shifts and a product, where a stronger
/// generator would cost more than the pick that it serves.
#[derive(Debug, Clone)]
pub(crate) struct Random {
    /// Never 0, the one state that xorshift doesn't leave.
    state: u64,
}

impl Random {
    /// Starts a sequence. Near seeds give unlike sequences: the seed goes through a mixing step (splitmix64's).
    pub(crate) fn new(seed: u64) -> Self {
        let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^= state >> 31;
        Self { state: if state == 0 { 1 } else { state } }
    }

    /// Another sequence, unlike this one.
    pub(crate) fn split(&mut self) -> Self {
        Self::new(self.next())
    }

    /// A number below `limit`; 0 where `limit` is 0. The high half of a product instead of a remainder: no division,
    /// and off from even by less than `limit` / 2^32.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        (((self.next() >> 32) * u64::from(limit)) >> 32) as usize
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_even_enough_below_the_limit_and_repeat_by_seed() {
        let mut random = Random::new(7);
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[random.below(10)] += 1;
        }
        // Standard deviation of each count: sqrt(100,000 * 0.1 * 0.9) = 95; five of them.
        assert!(counts.iter().all(|&n| n.abs_diff(10_000) < 475), "{counts:?}");
        assert_eq!((random.below(0), random.below(1)), (0, 0));

        let run = |seed| (0..8).scan(Random::new(seed), |r, _| Some(r.below(1000))).collect::<Vec<_>>();
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }
}
