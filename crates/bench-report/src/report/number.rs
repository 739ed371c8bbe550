//! How figures are written: as many digits as they carry.

use super::model::Row;
use crate::prices::{Price, Unit};
use bench::stats::Interval;

/// What stands where there is no figure.
pub(super) const NONE: &str = "–";

/// Requests a second.
pub(super) fn rate(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// Milliseconds, without the unit.
pub(super) fn ms(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 0.1 || value == 0.0 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

/// A ratio: 1.15.
pub(super) fn ratio(value: f64) -> String {
    if value >= 0.1 { format!("{value:.2}") } else { format!("{value:.4}") }
}

/// The distance of a ratio from level: +15 %. Published figures carry two digits, so their percents are whole.
pub(super) fn percent(ratio: f64, whole: bool) -> String {
    let percent = (ratio - 1.0) * 100.0;
    let text = if whole { format!("{percent:+.0} %") } else { format!("{percent:+.1} %") };
    // A minus before nothing would read as a loss.
    text.replace("-0 %", "±0 %")
        .replace("+0 %", "±0 %")
        .replace("-0.0 %", "±0.0 %")
        .replace("+0.0 %", "±0.0 %")
}

/// Both ends, each written by `end`.
pub(super) fn interval(interval: Interval, end: fn(f64) -> String) -> String {
    format!("{} to {}", end(interval.low), end(interval.high))
}

/// A price with its unit. A star marks what the list does not state itself.
pub(super) fn price(price: &Price) -> String {
    let star = if price.derived.is_some() { " *" } else { "" };
    match &price.unit {
        Unit::UsdPerHour => format!("{} USD/h{star}", trimmed(price.amount)),
        Unit::Of(family) => format!("{} × {family}{star}", ratio(price.amount)),
    }
}

/// A row's name; a dagger marks published figures.
pub(super) fn name(row: &Row) -> String {
    if row.published { format!("{} †", row.name) } else { row.name.clone() }
}

/// Up to six digits after the point, as price lists have them, without zeros at the end.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits() {
        assert_eq!([rate(12_500.0), rate(99.94), rate(0.0)], ["12500", "99.9", "0.0"]);
        assert_eq!(
            [ms(1.26), ms(0.0123), ms(12.34), ms(1234.5), ms(0.0)],
            ["1.26", "0.012", "12.3", "1234", "0.00"]
        );
        assert_eq!([ratio(1.1504), ratio(0.0123)], ["1.15", "0.0123"]);
        assert_eq!([trimmed(1.553888), trimmed(1.232), trimmed(2.0)], ["1.553888", "1.232", "2"]);
        for (value, whole, text) in [
            (1.4505, true, "+45 %"),
            (1.1099, true, "+11 %"),
            (0.904, false, "-9.6 %"),
            (1.0, true, "±0 %"),
            (0.9999, false, "±0.0 %"),
            (1.1, true, "+10 %"),
        ] {
            assert_eq!(percent(value, whole), text);
        }
    }
}
