//! The response headers that tell clients where they stand.

use crate::headers::is_token;
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

/// The three header lines of one limit, as far as they are known before a request comes.
pub(super) struct Headers {
    names: HeaderNames,
    /// The first line and the second one's name, where the limit is the same for all requests; and the first one's end.
    head: Option<(Box<[u8]>, usize)>,
    /// From the second line's end to the third one's value.
    between: Box<[u8]>,
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
}

impl Headers {
    /// Lines with these names; `limit` where it is the same for all requests.
    pub(super) fn new(names: HeaderNames, limit: Option<u64>) -> Self {
        let between = format!("\r\n{}: ", names.reset).into_bytes().into();
        let head = limit.map(|limit| {
            let mut head = Vec::new();
            let first_end = names.push_head(limit, &mut head);
            (head.into(), first_end)
        });
        Self { names, head, between }
    }

    /// Sets the three fields: as few pieces as there are, since they are written for every request.
    #[inline(always)]
    pub(super) fn write(&self, limit: u64, remaining: u64, reset: Reset, out: &mut HeaderEdits) {
        let names = [&*self.names.limit, &self.names.remaining, &self.names.reset];
        out.set_lines(names, |lines| {
            let start = lines.len();
            let first_end = match &self.head {
                Some((head, first_end)) => {
                    lines.extend_from_slice(head);
                    start + first_end
                }
                None => self.names.push_head(limit, lines),
            };
            lines.extend_from_slice(itoa::Buffer::new().format(remaining).as_bytes());
            lines.extend_from_slice(&self.between);
            let second_end = lines.len() + 2 - self.between.len();
            reset.push(lines);
            [first_end, second_end, lines.len()]
        });
    }
}

impl HeaderNames {
    /// Appends the first line and the second one's name, and says where the first one ends.
    fn push_head(&self, limit: u64, out: &mut Vec<u8>) -> usize {
        out.extend_from_slice(format!("{}: {limit}\r\n", self.limit).as_bytes());
        let first_end = out.len();
        out.extend_from_slice(format!("{}: ", self.remaining).as_bytes());
        first_end
    }
}

/// The digits of 0 to 99.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < pairs.len() {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

impl Reset {
    #[inline]
    pub(super) fn rounded_down(ms: u64) -> Self {
        Self(ms / 10)
    }

    pub(super) fn rounded_up(ms: u64) -> Self {
        Self(ms.div_ceil(10))
    }

    /// Appends seconds with as many decimals as there are, at most two (`60`, `59.9`, `0.05`), and the line's end.
    #[inline(always)]
    fn push(self, out: &mut Vec<u8>) {
        let (seconds, hundredths) = (self.0 / 100, self.0 % 100);
        // The usual window is a minute.
        match PAIRS.get(seconds as usize) {
            Some(digits) => out.extend_from_slice(&digits[usize::from(seconds < 10)..]),
            None => out.extend_from_slice(itoa::Buffer::new().format(seconds).as_bytes()),
        }
        let [tenths, rest] = PAIRS[hundredths as usize];
        if hundredths == 0 {
            out.extend_from_slice(b"\r\n");
        } else if rest == b'0' {
            out.extend_from_slice(&[b'.', tenths, b'\r', b'\n']);
        } else {
            out.extend_from_slice(&[b'.', tenths, rest, b'\r', b'\n']);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn written(headers: &Headers, reset: Reset) -> String {
        let (mut edits, mut out) = (HeaderEdits::default(), Vec::new());
        edits.set("X-Other", "1");
        headers.write(10, 9, reset, &mut edits);
        assert_eq!(edits.get(b"x-ratelimit-remaining"), Some(Some(&b"9"[..])));
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
            let before = "X-Other: 1\r\nX-RateLimit-Limit: 10\r\nX-RateLimit-Remaining: 9\r\n";
            for limit in [Some(10), None] {
                let headers = written(&Headers::new(HeaderNames::of(None), limit), reset);
                assert_eq!(headers, format!("{before}X-RateLimit-Reset: {shown}\r\n"));
            }
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
