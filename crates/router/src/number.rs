//! Text to number as Lua's `tonumber` reads it, because operators compare by that rule.

/// The number that `text` spells: decimal, hexadecimal (`0x1f`, `0x.8p1`) or binary (`0b101`), spaces around it allowed;
/// `inf` and `nan` are numbers, as in LuaJIT.
pub(crate) fn to_number(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let text = text.trim_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    let magnitude = if let Some(hex) = strip_base(digits, 'x') {
        hexadecimal(hex)
    } else if let Some(binary) = strip_base(digits, 'b') {
        based(binary, 2)
    } else if digits.starts_with(['+', '-']) {
        None // Rust's parser would take a second sign
    } else {
        digits.parse().ok()
    };
    magnitude.map(|magnitude| sign * magnitude)
}

fn strip_base(digits: &str, base: char) -> Option<&str> {
    let rest = digits.strip_prefix('0')?;
    rest.strip_prefix([base, base.to_ascii_uppercase()])
}

fn hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, exponent) = match text.split_once(['p', 'P']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let value = based(&[whole, fraction].concat(), 16)?;
    let fraction_bits = 4 * i32::try_from(fraction.len()).ok()?;
    Some(value * 2f64.powi(exponent.saturating_sub(fraction_bits)))
}

/// Digits of one base; at least one.
fn based(digits: &str, base: u32) -> Option<f64> {
    if digits.is_empty() {
        return None;
    }
    digits
        .chars()
        .try_fold(0.0, |value, digit| Some(value * f64::from(base) + f64::from(digit.to_digit(base)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_lua_reads() {
        for (text, expected) in [
            ("18", Some(18.0)),
            (" 18\t", Some(18.0)),
            ("-1.5e2", Some(-150.0)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("0x1F", Some(31.0)),
            ("-0x10", Some(-16.0)),
            ("0x.8p1", Some(1.0)),
            ("0b101", Some(5.0)),
            ("inf", Some(f64::INFINITY)),
            ("", None),
            (" ", None),
            ("-", None),
            ("+-1", None),
            ("--1", None),
            ("0x", None),
            ("0b2", None),
            ("1a", None),
            ("1_0", None),
            ("1 2", None),
            (".", None),
        ] {
            assert_eq!(to_number(text.as_bytes()), expected, "{text:?}");
        }
        assert!(to_number(b"nan").is_some_and(f64::is_nan));
        assert_eq!(to_number(b"\xff"), None);
    }
}
