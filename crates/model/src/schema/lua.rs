//! How APISIX's own validator, being Lua, sees and writes JSON values.
//!
//! Its messages are a compatibility feature: scripts grep them. So numbers, quotes and type names are written here as
//! LuaJIT writes them.

use serde_json::Value;
use std::fmt::Write;

/// The name of a value's type in messages. Lua has one type for arrays and objects, and its JSON library stands a
/// userdata in for `null`.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "userdata",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) | Value::Object(_) => "table",
    }
}

/// Whether `value` is the table that is empty array and empty object in one.
pub(super) fn is_empty_table(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// A number as `tostring` writes it: C's `%.14g`, since every number is a double there. (LuaJIT rounds a tie in the
/// last digit up, C and this to even.)
pub(super) fn number(number: f64) -> String {
    const DIGITS: i32 = 14;
    let scientific = format!("{number:.13e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS).contains(&exponent) {
        let decimals = usize::try_from(DIGITS - 1 - exponent).unwrap_or(0);
        return without_trailing_zeros(&format!("{number:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_trailing_zeros(mantissa), exponent.abs())
}

fn without_trailing_zeros(decimal: &str) -> &str {
    if decimal.contains('.') { decimal.trim_end_matches('0').trim_end_matches('.') } else { decimal }
}

/// A string as `%q` writes it.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' | '\\' | '\n' => out.extend(['\\', c]),
            // Three digits where a digit follows, or it would be read as a part of the escape.
            c if c.is_ascii_control() && rest.peek().is_some_and(char::is_ascii_digit) => {
                let _ = write!(out, "\\{:03}", u32::from(c));
            }
            c if c.is_ascii_control() => {
                let _ = write!(out, "\\{}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A text that two values share exactly when Lua's deep comparison calls them equal: `1` and `1.0` are, the order of
/// keys says nothing, and an empty array is an empty object.
pub(super) fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

/// Recursion is bounded by the values' depth, which [`super::Validator`] checks first.
fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Number(number) => {
            // Adding zero makes one zero of the two.
            let _ = write!(out, "{:e}", number.as_f64().unwrap_or(f64::NAN) + 0.0);
        }
        Value::Array(items) if !items.is_empty() => {
            for (i, item) in items.iter().enumerate() {
                out.push(if i == 0 { '[' } else { ',' });
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Array(_) => out.push_str("{}"),
        Value::Object(fields) => {
            let mut names: Vec<_> = fields.keys().collect();
            names.sort_unstable();
            out.push('{');
            for name in names {
                let _ = write!(out, "{name:?}:");
                write_canonical(&fields[name], out);
                out.push(',');
            }
            out.push('}');
        }
        Value::String(text) => {
            let _ = write!(out, "{text:?}");
        }
        Value::Null | Value::Bool(_) => {
            let _ = write!(out, "{value}");
        }
    }
}

/// Whether `value` stands for a secret that is looked up at run time (`$secret://...`, `$env://...` in any case):
/// its text says nothing about the secret's shape.
pub(super) fn is_secret_reference(value: &Value) -> bool {
    value.as_str().is_some_and(refers_to_secret)
}

/// Whether a text stands for a secret that is looked up at run time: `$secret://...`, or `$env://...` in any case.
#[must_use]
pub fn refers_to_secret(text: &str) -> bool {
    text.starts_with("$secret://") || text.get(..7).is_some_and(|head| head.eq_ignore_ascii_case("$env://"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_written_as_lua_writes_them() {
        for (written, expected) in [
            (0.0, "0"),
            (600.0, "600"),
            (-1.0, "-1"),
            (-0.1, "-0.1"),
            (0.00001, "1e-05"),
            (0.0001, "0.0001"),
            (1e14, "1e+14"),
            (12_345_678_901_234.0, "12345678901234"),
            (99_999_999_999_999.9, "1e+14"),
            (18_446_744_073_709_551_615.0, "1.844674407371e+19"),
            (1.0 / 3.0, "0.33333333333333"),
        ] {
            assert_eq!(number(written), expected);
        }
    }

    #[test]
    fn strings_are_quoted_as_lua_quotes_them() {
        assert_eq!(quoted(r#"a"b\c"#), r#""a\"b\\c""#);
        assert_eq!(quoted("a\nb\tc\x011ü"), "\"a\\\nb\\9c\\0011ü\"");
    }

    #[test]
    fn equality_is_luas() {
        for (a, b, equal) in [
            (json!(1), json!(1.0), true),
            (json!(0), json!(-0.0), true),
            (json!({}), json!([]), true),
            (json!({"a": 1, "b": [1]}), json!({"b": [1.0], "a": 1}), true),
            (json!("1"), json!(1), false),
            (json!([1, 2]), json!([2, 1]), false),
            (json!(["a", "b"]), json!(["a\",\"b"]), false),
            (json!(null), json!("null"), false),
        ] {
            assert_eq!(canonical(&a) == canonical(&b), equal, "{a} {b}");
        }
    }

    #[test]
    fn secrets_are_known_by_their_scheme() {
        assert!(is_secret_reference(&json!("$secret://vault/1/a/b")));
        assert!(is_secret_reference(&json!("$Env://NAME")));
        for other in [json!("$SECRET://a"), json!("env://A"), json!("$en"), json!(1)] {
            assert!(!is_secret_reference(&other), "{other}");
        }
    }
}
