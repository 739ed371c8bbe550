//! nginx's notation of times and sizes: `60s`, `1h 30m`, `500ms`; `16k`, `1m`, `1g`.

use std::time::Duration;

/// Reads a time. Parts go from the larger unit to the smaller, with or without spaces between them; a number without
/// a unit counts seconds. Units: `ms s m h d w M` (30 days) `y` (365 days).
///
/// # Errors
/// What is expected, for a text in any other form.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("expected a time such as 60s, 500ms or 1h30m, found {text:?}");
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut total_ms: u64 = 0;
    let mut smallest = u64::MAX;
    while !rest.is_empty() {
        let (number, after) = leading_number(rest).ok_or_else(wrong)?;
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let unit_ms = unit_ms(&after[..letters]).ok_or_else(wrong)?;
        // Descending units only: nginx reads `30s 1m` as a mistake too.
        if unit_ms >= smallest {
            return Err(wrong());
        }
        smallest = unit_ms;
        total_ms = number
            .checked_mul(unit_ms)
            .and_then(|part| total_ms.checked_add(part))
            .ok_or_else(|| format!("the time {text:?} is too long"))?;
        rest = after[letters..].trim_start();
    }
    Ok(Duration::from_millis(total_ms))
}

/// Reads a time as [`duration`] does, or one number with a fraction and a unit: `1.5m`. nginx has no fractions, so this
/// is for command lines alone.
///
/// # Errors
/// As [`duration`].
pub fn fractional_duration(text: &str) -> Result<Duration, String> {
    let letters = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let fraction = text[..letters].parse::<f64>().ok().filter(|_| text.contains('.'));
    match (fraction, unit_ms(&text[letters..])) {
        #[expect(clippy::cast_precision_loss, reason = "a year in milliseconds is far below 2^53")]
        (Some(number), Some(unit_ms)) => Duration::try_from_secs_f64(number * unit_ms as f64 / 1000.0)
            .map_err(|_| format!("the time {text:?} is out of range")),
        _ => duration(text),
    }
}

/// The milliseconds of a unit; none is seconds.
fn unit_ms(unit: &str) -> Option<u64> {
    Some(match unit {
        "ms" => 1,
        "s" | "" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 604_800_000,
        "M" => 2_592_000_000,
        "y" => 31_536_000_000,
        _ => return None,
    })
}

/// Reads a size in bytes. Units: `k`, `m`, `g` in either case, powers of 1024.
///
/// # Errors
/// What is expected, for a text in any other form.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("expected a size such as 16k, 1m or a number of bytes, found {text:?}");
    let (number, unit) = leading_number(text.trim()).ok_or_else(wrong)?;
    let factor: u64 = match unit {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return Err(wrong()),
    };
    number.checked_mul(factor).ok_or_else(|| format!("the size {text:?} is too large"))
}

fn leading_number(text: &str) -> Option<(u64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..digits].parse().ok()?, &text[digits..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times() {
        let cases = [
            ("60s", 60_000),
            ("500ms", 500),
            ("60", 60_000),
            ("0", 0),
            ("1m", 60_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("1m 30", 90_000),
            (" 5s ", 5_000),
            ("1d", 86_400_000),
            ("1w", 604_800_000),
            ("1M", 2_592_000_000),
            ("1y", 31_536_000_000),
        ];
        for (text, ms) in cases {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in [
            "",
            "s",
            "-1s",
            "1.5s",
            "60x",
            "30s 1m",
            "1s1s",
            "99999999999999999999s",
            "9999999999999999y",
            "60s,",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn command_lines_may_have_fractions() {
        for (text, ms) in
            [("1.5m", 90_000), ("0.25s", 250), ("2.0", 2_000), ("1h30m", 5_400_000), ("500ms", 500)]
        {
            assert_eq!(fractional_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["-1.5s", "1.5x", "1.5.5s", ".", "1.5m 3s", "1e3.0s", "inf", "9999999999999999999999.0y"]
        {
            assert!(fractional_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes() {
        let cases =
            [("0", 0), ("16k", 16_384), ("16K", 16_384), ("1m", 1 << 20), ("2G", 2 << 30), ("512", 512)];
        for (text, bytes) in cases {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "k", "-1k", "1.5m", "1kb", "1t", "18446744073709551615k", "1 k"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in any::<String>()) {
            let _ = (duration(&text), fractional_duration(&text), size(&text));
        }
    }
}
