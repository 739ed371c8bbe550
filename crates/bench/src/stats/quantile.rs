//! Quantiles of a few figures.

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
    fn nothing_has_no_median() {
        assert_eq!((median(&[]), median(&[4.0, 2.0])), (None, Some(3.0)));
    }

    proptest! {
        #[test]
        fn a_quantile_lies_within_and_grows(values in proptest::collection::vec(0.0f64..1e6, 1..30), at in 0.0f64..1.0) {
            let sorted = sorted(&values);
            let here = quantile(&sorted, at).unwrap();
            prop_assert!(sorted[0] <= here && here <= sorted[sorted.len() - 1]);
            prop_assert!(quantile(&sorted, at * 0.5).unwrap() <= here + 1e-9);
        }
    }
}
