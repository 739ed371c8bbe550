//! A second of local time, in the forms that logs show.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::sync::OnceLock;

/// One second, formatted. Made once a second and copied into every line of that second.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LocalTime {
    /// `02/Nov/2026:12:00:00 +0000`
    pub(crate) common: String,
    /// `2026-11-02T12:00:00+00:00`
    pub(crate) iso8601: String,
    /// `2026/11/02 12:00:00`
    pub(crate) error_log: String,
}

impl LocalTime {
    /// The second `unix_s` in `zone`.
    #[cold]
    #[inline(never)]
    pub(crate) fn at(unix_s: i64, zone: &TimeZone) -> Self {
        let time = Timestamp::from_second(unix_s).unwrap_or_default().to_zoned(zone.clone());
        Self {
            common: time.strftime("%d/%b/%Y:%H:%M:%S %z").to_string(),
            iso8601: time.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            error_log: time.strftime("%Y/%m/%d %H:%M:%S").to_string(),
        }
    }
}

/// `$time_local` and `$time_iso8601` of the second `unix_s`, for whoever has no clock hand that shows them already.
#[must_use]
pub fn local_time(unix_s: i64) -> [String; 2] {
    static ZONE: OnceLock<TimeZone> = OnceLock::new();
    let time = LocalTime::at(unix_s, ZONE.get_or_init(TimeZone::system));
    [time.common, time.iso8601]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_shown_in_their_zone() {
        let zone = TimeZone::fixed(jiff::tz::offset(-3));
        let time = LocalTime::at(1_793_620_800, &zone);
        assert_eq!(time.common, "02/Nov/2026:09:00:00 -0300");
        assert_eq!(time.iso8601, "2026-11-02T09:00:00-03:00");
        assert_eq!(time.error_log, "2026/11/02 09:00:00");
    }
}
