//! The response headers that tell clients where they stand.

use plugin::HeaderEdits;
use serde_json::Value;

/// What a rule's prefix is put before.
const PREFIXED: &str = "RateLimit-";

/// The names of the three headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HeaderNames {
    limit: String,
    remaining: String,
    reset: String,
}

/// Time until the window ends, in hundredths of a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reset(u64);

impl HeaderNames {
    /// The names that the plugin's metadata asks for, APISIX's where it asks for none. One that is no header name, which
    /// the metadata's schema refuses, is passed over as well: it could end a response's head.
    pub(super) fn of(metadata: Option<&Value>) -> Self {
        let name = |key: &str, default: &str| {
            let asked = metadata.and_then(|metadata| metadata.get(key)).and_then(Value::as_str);
            asked.filter(|name| is_token(name)).unwrap_or(default).to_owned()
        };
        Self {
            limit: name("limit_header", "X-RateLimit-Limit"),
            remaining: name("remaining_header", "X-RateLimit-Remaining"),
            reset: name("reset_header", "X-RateLimit-Reset"),
        }
    }

    /// The names of a rule: `X-RateLimit-Limit` becomes `X-<prefix>-RateLimit-Limit`.
    pub(super) fn with_prefix(&self, prefix: &str) -> Self {
        let prefixed = |name: &str| name.replacen(PREFIXED, &format!("{prefix}-{PREFIXED}"), 1);
        Self {
            limit: prefixed(&self.limit),
            remaining: prefixed(&self.remaining),
            reset: prefixed(&self.reset),
        }
    }

    #[inline]
    pub(super) fn write(&self, limit: u64, remaining: u64, reset: Reset, out: &mut HeaderEdits) {
        out.set_number(&self.limit, limit);
        out.set_number(&self.remaining, remaining);
        reset.write(&self.reset, out);
    }
}

impl Reset {
    #[inline]
    pub(super) fn rounded_down(ms: u64) -> Self {
        Self(ms / 10)
    }

    pub(super) fn rounded_up(ms: u64) -> Self {
        Self(ms.div_ceil(10))
    }

    /// Writes seconds with as many decimals as there are, at most two: `60`, `59.9`, `0.05`.
    #[inline]
    fn write(self, name: &str, out: &mut HeaderEdits) {
        let (seconds, hundredths) = (self.0 / 100, (self.0 % 100) as u8);
        if hundredths == 0 {
            out.set_number(name, seconds);
            return;
        }
        // 20 digits of a 64-bit number, the point, two decimals.
        let mut text = [0; 23];
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(seconds).as_bytes();
        let mut end = digits.len();
        text[..end].copy_from_slice(digits);
        text[end] = b'.';
        text[end + 1] = b'0' + hundredths / 10;
        end += 2;
        if !hundredths.is_multiple_of(10) {
            text[end] = b'0' + hundredths % 10;
            end += 1;
        }
        out.set(name, &text[..end]);
    }
}

/// Whether `name` may be (part of) a header's name: a token of RFC 9110, section 5.6.2.
pub(super) fn is_token(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn written(names: &HeaderNames, reset: Reset) -> String {
        let (mut edits, mut out) = (HeaderEdits::default(), Vec::new());
        names.write(10, 9, reset, &mut edits);
        edits.write(&mut out);
        String::from_utf8(out).expect("ascii")
    }

    #[test]
    fn reset_has_the_decimals_it_needs() {
        for (reset, shown) in [
            (Reset::rounded_down(60_000), "60"),
            (Reset::rounded_down(59_999), "59.99"),
            (Reset::rounded_down(59_909), "59.9"),
            (Reset::rounded_up(59_901), "59.91"),
            (Reset::rounded_down(59), "0.05"),
            (Reset::rounded_down(9), "0"),
            (Reset::rounded_down(u64::MAX), "18446744073709551.61"),
        ] {
            let headers = written(&HeaderNames::of(None), reset);
            assert!(headers.ends_with(&format!("\r\nX-RateLimit-Reset: {shown}\r\n")), "{headers}");
        }
    }

    #[test]
    fn names_come_from_the_metadata_and_take_a_prefix() {
        let metadata =
            json!({"limit_header": "X-Custom-RateLimit-Limit", "remaining_header": "evil\r\n", "x": 1});
        let names = HeaderNames::of(Some(&metadata));
        assert_eq!(names.limit, "X-Custom-RateLimit-Limit");
        assert_eq!(names.remaining, "X-RateLimit-Remaining");
        assert_eq!(names.with_prefix("1").limit, "X-Custom-1-RateLimit-Limit");
        assert_eq!(names.with_prefix("jack").reset, "X-jack-RateLimit-Reset");
    }
}
