//! Dates as exact as their source: a year, a month or a day.

use jiff::civil::Date;
use serde::Deserialize;

/// After this many days a price is called old.
const OLD_AFTER_DAYS: i32 = 365;

/// `2022`, `2022-08` or `2022-08-08`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct AgedDate {
    written: String,
    /// The last day that it can mean.
    latest: Date,
}

impl AgedDate {
    /// Whether it lies more than a year before `today`, even if its last possible day is meant.
    pub fn is_old(&self, today: Date) -> bool {
        (today - self.latest).get_days() > OLD_AFTER_DAYS
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.written
    }
}

impl TryFrom<String> for AgedDate {
    type Error = String;

    fn try_from(written: String) -> Result<AgedDate, String> {
        let date = |text: &str| text.parse::<Date>().ok();
        let latest = match written.len() {
            4 => date(&format!("{written}-12-31")),
            7 => date(&format!("{written}-01")).map(Date::last_of_month),
            10 => date(&written),
            _ => None,
        };
        match latest {
            Some(latest) => Ok(AgedDate { written, latest }),
            None => Err(format!("`{written}` is not a date: write 2022, 2022-08 or 2022-08-08")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_counts_from_the_last_day_meant() {
        let today: Date = "2024-01-01".parse().unwrap();
        for (written, old) in [
            ("2022", true),
            ("2023", false),
            ("2022-12", true),
            ("2023-01", false),
            ("2022-12-31", true),
            ("2023-01-01", false),
            ("2030", false),
        ] {
            assert_eq!(AgedDate::try_from(written.to_owned()).unwrap().is_old(today), old, "{written}");
        }
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for written in ["", "22", "2022-13", "2022-02-30", "yesterday", "20220808", "2022-8-08"] {
            assert!(AgedDate::try_from(written.to_owned()).is_err(), "{written}");
        }
    }
}
