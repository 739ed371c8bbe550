//! From when to when a certificate is valid (RFC 5280 section 4.1.2.5).

use crate::der::element;
use crate::identity::certificates;

/// A certificate's time, in seconds since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub not_before: i64,
    /// The last second.
    pub not_after: i64,
}

impl Validity {
    /// The time during which the whole of a PEM chain is valid; `None` where it can't be read.
    #[must_use]
    pub fn of_chain(pem: &str) -> Option<Self> {
        let chain = certificates(pem).ok()?;
        let mut all: Option<Self> = None;
        for certificate in &chain {
            let one = Self::read(certificate)?;
            all = Some(all.map_or(one, |all| Self {
                not_before: all.not_before.max(one.not_before),
                not_after: all.not_after.min(one.not_after),
            }));
        }
        all
    }

    pub(crate) fn read(certificate: &[u8]) -> Option<Self> {
        let (_, body, _) = element(certificate)?;
        let (_, mut rest, _) = element(body)?;
        let (tag, _, after) = element(rest)?;
        if tag == 0xa0 {
            rest = after;
        }
        // Serial number, algorithm and issuer stand before it.
        for _ in 0..3 {
            (_, _, rest) = element(rest)?;
        }
        let (_, validity, _) = element(rest)?;
        let (first, not_before, rest) = element(validity)?;
        let (second, not_after, _) = element(rest)?;
        Some(Self { not_before: seconds(first, not_before)?, not_after: seconds(second, not_after)? })
    }
}

/// A `UTCTime` (`YYMMDDHHMMSSZ`, tag 23) or `GeneralizedTime` (`YYYYMMDDHHMMSSZ`, tag 24).
fn seconds(tag: u8, text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match tag {
        23 => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: i64 = year.parse().ok()?;
            (if year >= 50 { 1900 + year } else { 2000 + year }, rest)
        }
        24 => text.split_at_checked(4).and_then(|(year, rest)| Some((year.parse().ok()?, rest)))?,
        _ => return None,
    };
    let part = |at: usize| rest.get(at..at + 2)?.parse::<i64>().ok();
    let (month, day) = (part(0)?, part(2)?);
    if !(1..=12).contains(&month) {
        return None;
    }
    Some(days(year, month, day) * 86_400 + part(4)? * 3600 + part(6)? * 60 + part(8)?)
}

/// Days since 1970-01-01 of a day of the Gregorian calendar: years are counted from March, so that a leap day is the
/// last of its year, and 719,468 days lie between March 1st of the year 0 and 1970.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    year * 365 + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (month * 153 + 2) / 5
        + day
        - 1
        - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    #[test]
    fn times_are_seconds_since_1970() {
        for (tag, text, expected) in [
            (23, "700101000000Z", Some(0)),
            (23, "240229120000Z", Some(1_709_208_000)),
            (23, "491231235959Z", Some(2_524_607_999)),
            (24, "20500101000000Z", Some(2_524_608_000)),
            (24, "99991231235959Z", Some(253_402_300_799)),
            (23, "2402291200Z", None),
            (23, "240229120000", None),
            (23, "241329120000Z", None),
            (25, "240229120000Z", None),
        ] {
            assert_eq!(seconds(tag, text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_chain_is_valid_while_all_of_it_is() {
        let pem = |from: i32, to: i32| {
            let mut params = CertificateParams::new(["a.com".to_owned()]).unwrap();
            params.not_before = date_time_ymd(from, 1, 1);
            params.not_after = date_time_ymd(to, 1, 1);
            params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
        };
        let validity = Validity::of_chain(&format!("{}{}", pem(2020, 2040), pem(1999, 2030))).unwrap();
        assert_eq!(validity, Validity { not_before: 1_577_836_800, not_after: 1_893_456_000 });
        assert_eq!(Validity::of_chain("none"), None);
    }
}
