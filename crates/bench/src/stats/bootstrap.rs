//! Intervals by bootstrap: the figures are drawn again and again with replacement, and the middle 95 % of what comes out is
//! the interval. The draws come from a fixed seed, so that the same file gives the same report.

use super::quantile::{quantile, sorted};

/// Resamplings. The ends of the interval then move by about 1 % of its width from seed to seed.
const RESAMPLES: usize = 4_000;

/// Any constant; fixed so that reports are reproducible.
const SEED: u64 = 0x7469_6465_6761_7465;

/// A range that holds the true figure with 95 %.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end, at least the lower.
    pub high: f64,
}

impl Interval {
    /// Both ends over `by`; nothing where that is not above 0.
    pub fn over(self, by: f64) -> Option<Interval> {
        (by > 0.0).then(|| Interval { low: self.low / by, high: self.high / by })
    }

    /// Whether `value` lies within.
    pub fn holds(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// The 95 % interval of the median; nothing for fewer than two figures, whose spread nobody knows.
pub fn median_interval(values: &[f64]) -> Option<Interval> {
    if values.len() < 2 {
        return None;
    }
    let mut draws = Draws::new();
    let mut sample = Vec::with_capacity(values.len());
    let medians: Vec<f64> = (0..RESAMPLES).filter_map(|_| draws.median(values, &mut sample)).collect();
    middle_95(&medians)
}

/// The 95 % interval of `median(these) / median(those)`; nothing for fewer than two figures on either side or where the
/// divisor can be 0.
pub fn ratio_interval(these: &[f64], those: &[f64]) -> Option<Interval> {
    if these.len() < 2 || those.len() < 2 || those.iter().any(|value| *value <= 0.0) {
        return None;
    }
    let mut draws = Draws::new();
    let mut sample = Vec::with_capacity(these.len().max(those.len()));
    let ratios: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            let dividend = draws.median(these, &mut sample)?;
            Some(dividend / draws.median(those, &mut sample)?)
        })
        .collect();
    middle_95(&ratios)
}

fn middle_95(outcomes: &[f64]) -> Option<Interval> {
    let outcomes = sorted(outcomes);
    Some(Interval { low: quantile(&outcomes, 0.025)?, high: quantile(&outcomes, 0.975)? })
}

/// SplitMix64: enough for drawing indices, and the same on every machine.
struct Draws(u64);

impl Draws {
    fn new() -> Draws {
        Draws(SEED)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The median of as many figures as `values` has, drawn with replacement; `sample` is scratch.
    fn median(&mut self, values: &[f64], sample: &mut Vec<f64>) -> Option<f64> {
        sample.clear();
        let count = values.len() as u64;
        // The modulo's bias is `count / 2^64`.
        sample.extend((0..count).filter_map(|_| values.get((self.next() % count) as usize)));
        sample.sort_by(f64::total_cmp);
        quantile(sample, 0.5)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_same_figures_give_the_same_interval() {
        let values = [12_100.0, 12_500.0, 12_300.0, 11_900.0, 12_600.0];
        assert_eq!(median_interval(&values), median_interval(&values));
        assert!(median_interval(&values).unwrap().holds(12_300.0));
    }

    #[test]
    fn too_few_figures_have_none() {
        assert_eq!(median_interval(&[]), None);
        assert_eq!(median_interval(&[1.0]), None);
        assert_eq!(ratio_interval(&[1.0, 2.0], &[1.0]), None);
        assert_eq!(ratio_interval(&[1.0, 2.0], &[0.0, 1.0]), None);
    }

    #[test]
    fn the_interval_covers_the_truth_about_as_often_as_it_says() {
        // 200 samples of 15 uniform figures whose median is known to be 0.5.
        let mut draws = Draws(1);
        let mut covered = 0;
        for _ in 0..200 {
            let sample: Vec<f64> =
                (0..15).map(|_| (draws.next() >> 11) as f64 / (1u64 << 53) as f64).collect();
            covered += usize::from(median_interval(&sample).unwrap().holds(0.5));
        }
        assert!((180..=199).contains(&covered), "{covered} of 200");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn an_interval_lies_within_its_figures(values in proptest::collection::vec(1.0f64..1e5, 2..12)) {
            let interval = median_interval(&values).unwrap();
            let sorted = sorted(&values);
            prop_assert!(sorted[0] <= interval.low && interval.low <= interval.high);
            prop_assert!(interval.high <= sorted[sorted.len() - 1]);
        }

        #[test]
        fn a_ratio_scales_with_its_dividend(
            these in proptest::collection::vec(1.0f64..1e3, 2..8),
            those in proptest::collection::vec(1.0f64..1e3, 2..8),
        ) {
            let single = ratio_interval(&these, &those).unwrap();
            let doubled: Vec<f64> = these.iter().map(|value| value * 2.0).collect();
            let double = ratio_interval(&doubled, &those).unwrap();
            prop_assert!((double.low - 2.0 * single.low).abs() < 1e-9 * double.low.max(1.0));
            prop_assert!((double.high - 2.0 * single.high).abs() < 1e-9 * double.high.max(1.0));
        }
    }
}
