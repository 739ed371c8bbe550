//! The middle and the spread of a few figures.

use super::bootstrap::{Interval, median_interval};
use super::quantile::{quantile, sorted};

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
    }

    proptest! {
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
