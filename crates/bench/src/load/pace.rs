//! When requests are meant to be sent. Pure: a sequence of numbers.

use super::clock::Nanos;

/// How the load is paced.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// A closed loop: each connection sends its next request when the answer to the last has come. The server sets the
    /// pace, so while it stalls nothing is sent and nothing is measured.
    Closed,
    /// An open loop at so many requests per second over all threads, evenly spaced.
    Constant(f64),
    /// An open loop at so many requests per second on average, as of many independent clients: the gaps are
    /// exponentially distributed.
    Poisson(f64),
}

impl Pace {
    /// Requests per second; `None` for a closed loop.
    #[must_use]
    pub fn rate(self) -> Option<f64> {
        match self {
            Self::Closed => None,
            Self::Constant(rate) | Self::Poisson(rate) => Some(rate),
        }
    }
}

/// One thread's share of the intended starts, in order. It doesn't wait for anybody: a start that could not be kept
/// stays in the past, and the request that is sent for it late counts its latency from there.
#[derive(Debug, Clone)]
pub struct Schedule {
    next: f64,
    gap: f64,
    random: Option<Random>,
}

impl Schedule {
    /// The share of thread `index` of `threads`, from `begin` on; `None` for a closed loop. Threads take turns, so that
    /// together they are as even as one would be.
    #[must_use]
    pub fn new(pace: Pace, begin: Nanos, index: usize, threads: usize, seed: u64) -> Option<Self> {
        let gap = 1e9 / pace.rate()? * threads as f64;
        let mut random = matches!(pace, Pace::Poisson(_)).then(|| Random::new(seed, index as u64));
        let offset = match &mut random {
            Some(random) => gap * random.exponential(),
            None => gap * index as f64 / threads as f64,
        };
        Some(Self { next: begin as f64 + offset, gap, random })
    }

    /// The next intended start.
    #[must_use]
    #[inline]
    pub fn peek(&self) -> Nanos {
        self.next as Nanos
    }

    /// Takes it.
    #[inline]
    pub fn advance(&mut self) -> Nanos {
        let intended = self.peek();
        self.next += match &mut self.random {
            Some(random) => self.gap * random.exponential(),
            None => self.gap,
        };
        intended
    }

    /// How many starts are left before `end`; for random gaps, how many there are on average.
    #[must_use]
    pub fn starts_until(&self, end: Nanos) -> u64 {
        ((end as f64 - self.next) / self.gap).ceil().max(0.0) as u64
    }
}

/// SplitMix64: small, and good enough for gaps between requests. Seeded, so that two runs send at the same moments.
#[derive(Debug, Clone)]
struct Random(u64);

impl Random {
    fn new(seed: u64, stream: u64) -> Self {
        Self(seed ^ stream.wrapping_add(1).wrapping_mul(0xd1b5_4a32_d192_ed03))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Exponentially distributed with mean 1.
    fn exponential(&mut self) -> f64 {
        // In (0, 1], so that the logarithm is finite.
        let uniform = ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        -uniform.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(pace: Pace, threads: usize, until: Nanos) -> Vec<Nanos> {
        let mut all = Vec::new();
        for index in 0..threads {
            let mut schedule = Schedule::new(pace, 0, index, threads, 7).expect("an open loop");
            while schedule.peek() < until {
                all.push(schedule.advance());
            }
        }
        all.sort_unstable();
        all
    }

    #[test]
    fn a_constant_rate_is_even_over_threads() {
        for threads in [1, 2, 3, 8] {
            let all = starts(Pace::Constant(1_000.0), threads, 1_000_000_000);
            assert_eq!(all.len(), 1_000, "{threads} threads");
            assert!(all.windows(2).all(|pair| (999_990..=1_000_010).contains(&(pair[1] - pair[0]))));
        }
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_spread_of_an_exponential_distribution() {
        let all = starts(Pace::Poisson(10_000.0), 2, 10_000_000_000);
        let gaps: Vec<f64> = all.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 100_000.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{}", variance.sqrt() / mean);
    }

    #[test]
    fn a_closed_loop_has_no_schedule() {
        assert!(Schedule::new(Pace::Closed, 0, 0, 1, 0).is_none());
    }
}
