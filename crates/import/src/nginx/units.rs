//! Numbers, times and sizes as nginx writes them.

/// `on` or `off`.
pub(crate) fn switch(text: &str) -> Option<bool> {
    match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

/// A size in bytes: `512`, `8k`, `1m`, `2g`.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    stdx::units::size(text).ok()
}

/// A time in seconds: `30`, `300s`, `500ms`, `1h30m`.
pub(crate) fn seconds(text: &str) -> Option<f64> {
    stdx::units::duration(text).ok().map(|time| time.as_secs_f64())
}

/// A JSON number, whole where it is: `60` and not `60.0`.
pub(crate) fn number(value: f64) -> serde_json::Value {
    #[expect(clippy::cast_possible_truncation, reason = "compared with what it came from")]
    let whole = value as i64;
    #[expect(clippy::cast_precision_loss, reason = "times and sizes of a configuration are small")]
    if whole as f64 == value { whole.into() } else { value.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_nginxs() {
        let sizes = [("8", Some(8)), ("8k", Some(8192)), ("1M", Some(1_048_576)), ("x", None), ("", None)];
        for (text, expected) in sizes {
            assert_eq!(bytes(text), expected, "{text}");
        }
        let times = [
            ("30", Some(30.0)),
            ("300s", Some(300.0)),
            ("500ms", Some(0.5)),
            ("1h30m", Some(5400.0)),
            ("1x", None),
        ];
        for (text, expected) in times {
            assert_eq!(seconds(text), expected, "{text}");
        }
        assert_eq!(number(60.0), serde_json::json!(60));
        assert_eq!(number(0.5), serde_json::json!(0.5));
    }
}
