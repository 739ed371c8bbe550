//! The middle and the spread of a few figures.

use super::{Interval, median_interval};

/// A few figures in brief.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// How many figures, at least 1.
    pub count: usize,
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// The distance between the quartiles (IQR), at least 0.
    pub spread: f64,
    /// Where the median lies with 95 %; from two figures on.
    pub interval: Option<Interval>,
}

impl Summary {
    /// Of finite figures; nothing if there are none.
    pub fn of(values: &[f64]) -> Option<Summary> {
        let sorted = sorted(values);
        Some(Summary {
            count: sorted.len(),
            median: quantile(&sorted, 0.5)?,
            min: *sorted.first()?,
            max: *sorted.last()?,
            spread: quantile(&sorted, 0.75)? - quantile(&sorted, 0.25)?,
            interval: median_interval(values),
        })
    }

    /// The spread over the median, 0 to 1 and above; nothing where the median is 0.
    pub fn relative_spread(&self) -> Option<f64> {
        (self.median > 0.0).then(|| self.spread / self.median)
    }
}

/// The median of finite figures in any order; nothing if there are none.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(&sorted(values), 0.5)
}

/// The figure that the share `at` (0 to 1) of `sorted` lies below, between neighbours in proportion (Hyndman and Fan's
/// definition 7, as R and NumPy have it).
pub fn quantile(sorted: &[f64], at: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = at.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (*sorted.get(place.floor() as usize)?, *sorted.get(place.ceil() as usize)?);
    Some(below + (above - below) * place.fract())
}

pub(super) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn middle_and_spread() {
        for (values, middle, spread) in [
            (&[5.0][..], 5.0, 0.0),
            (&[4.0, 2.0], 3.0, 1.0),
            (&[3.0, 1.0, 2.0], 2.0, 1.0),
            (&[1.0, 2.0, 3.0, 4.0, 100.0], 3.0, 2.0),
        ] {
            let summary = Summary::of(values).unwrap();
            assert_eq!((summary.median, summary.spread), (middle, spread), "{values:?}");
        }
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(median(&[]), None);
    }

    proptest! {
        #[test]
        fn a_quantile_lies_within_and_grows(values in proptest::collection::vec(0.0f64..1e6, 1..30), at in 0.0f64..1.0) {
            let sorted = sorted(&values);
            let here = quantile(&sorted, at).unwrap();
            prop_assert!(sorted[0] <= here && here <= sorted[sorted.len() - 1]);
            prop_assert!(quantile(&sorted, at * 0.5).unwrap() <= here + 1e-9);
        }

        #[test]
        fn a_summary_is_in_order_and_moves_with_its_figures(
            values in proptest::collection::vec(1.0f64..1e5, 1..20), shift in 0.0f64..1e5,
        ) {
            let summary = Summary::of(&values).unwrap();
            prop_assert!(summary.min <= summary.median && summary.median <= summary.max && summary.spread >= 0.0);
            let moved: Vec<f64> = values.iter().map(|value| value + shift).collect();
            prop_assert!((Summary::of(&moved).unwrap().median - summary.median - shift).abs() < 1e-6);
        }
    }
}
