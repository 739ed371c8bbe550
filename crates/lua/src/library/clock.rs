//! Time: now, calendar forms, HTTP dates.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use mlua::LuaString;

use super::natives::Natives;

/// Adds the functions.
pub(super) fn open(natives: &Natives<'_>) -> mlua::Result<()> {
    // Milliseconds are all that `ngx.now` has.
    natives.function("now", |_, ()| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        #[expect(clippy::cast_precision_loss, reason = "milliseconds stay below 2^53 for 285,000 years")]
        let seconds = now.as_millis() as f64 / 1000.0;
        Ok(seconds)
    })?;
    natives.function("calendar", |_, (format, utc): (String, bool)| {
        let zone = if utc { TimeZone::UTC } else { TimeZone::system() };
        Ok(Timestamp::now().to_zoned(zone).strftime(&format).to_string())
    })?;
    natives.function("http_time", |_, seconds: f64| Ok(moment(seconds).map(httpdate::fmt_http_date)))?;
    natives.function("cookie_time", |_, seconds: f64| Ok(cookie_time(seconds)))?;
    natives.function("parse_http_time", |_, text: LuaString| {
        let moment = httpdate::parse_http_date(&text.to_string_lossy()).ok();
        Ok(moment.and_then(|moment| moment.duration_since(UNIX_EPOCH).ok()).map(|since| since.as_secs()))
    })
}

/// The moment `seconds` after 1970, or `None` before it and after the year 9999, which HTTP dates don't have.
fn moment(seconds: f64) -> Option<SystemTime> {
    let last = 253_402_300_799.0;
    (0.0..=last).contains(&seconds).then(|| UNIX_EPOCH + Duration::from_secs_f64(seconds.floor()))
}

/// The date in a cookie's `expires`: two digits of the year up to 2037, four after that, as nginx writes them.
fn cookie_time(seconds: f64) -> Option<String> {
    let moment = Timestamp::try_from(moment(seconds)?).ok()?.to_zoned(TimeZone::UTC);
    let format = if moment.year() > 2037 { "%a, %d-%b-%Y %H:%M:%S GMT" } else { "%a, %d-%b-%y %H:%M:%S GMT" };
    Some(moment.strftime(format).to_string())
}
