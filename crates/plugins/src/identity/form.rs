//! Names and values as a query or a form carries them.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// All but unreserved characters (RFC 3986 section 2.3). A space becomes `%20`, which forms allow as well as `+`.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// `name=value&...`, percent-encoded.
pub(crate) fn encode_args<V: AsRef<[u8]>>(pairs: &[(&str, V)]) -> String {
    let encoded = pairs.iter().map(|(name, value)| {
        format!("{}={}", percent_encode(name.as_bytes(), ESCAPED), percent_encode(value.as_ref(), ESCAPED))
    });
    encoded.collect::<Vec<_>>().join("&")
}

/// `value`, percent-encoded: OpenResty's `escape_uri`.
pub(crate) fn escape(value: &str) -> String {
    percent_encode(value.as_bytes(), ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_add_arguments() {
        let encoded = encode_args(&[("a", "1&b=2"), ("c", "x y/\u{e9}\r\n")]);
        assert_eq!(encoded, "a=1%26b%3D2&c=x%20y%2F%C3%A9%0D%0A");
    }
}
