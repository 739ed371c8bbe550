//! What plugins may put into a request line and `Host`: types that can't hold a byte which ends the line.
//!
//! Values come from templates, and templates hold what clients sent, decoded. The head writer accepts these types alone,
//! so that no plugin can add a line to a request, or a request to a connection.

use std::borrow::Cow;
use std::ops::Deref;

/// A request target for the upstream: path and query, percent-encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target(Vec<u8>);

impl Target {
    /// A target from a path and query that are encoded already. Control characters, spaces, `#` and bytes beyond ASCII,
    /// which no target may hold (RFC 9112 section 3.2), are percent-encoded; a path without its slash gets one.
    #[must_use]
    pub fn new(encoded: impl Into<Vec<u8>>) -> Self {
        let encoded = encoded.into();
        let is_whole = encoded.first() == Some(&b'/') || encoded == b"*";
        if is_whole && !encoded.iter().any(is_no_target_byte) {
            return Self(encoded);
        }
        let mut target = Vec::with_capacity(encoded.len() + 8);
        if !is_whole {
            target.push(b'/');
        }
        encode(&encoded, is_no_target_byte, &mut target);
        Self(target)
    }

    /// The target that asks for a decoded path, without a query.
    #[must_use]
    pub fn of_path(path: &[u8]) -> Self {
        let mut target = Vec::with_capacity(path.len() + 8);
        if path.first() != Some(&b'/') {
            target.push(b'/');
        }
        encode_path(path, &mut target);
        Self(target)
    }
}

impl Deref for Target {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// The value of `Host` for the upstream: a host, perhaps with a port (RFC 9110 section 7.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority(Vec<u8>);

impl Authority {
    /// The authority that `bytes` spell; `None` where they spell none. The rule is the one for clients' own `Host`.
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Option<Self> {
        let bytes = bytes.into();
        wire::host_of(&bytes).is_some().then_some(Self(bytes))
    }
}

impl Deref for Authority {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// A method for the upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MethodName(Cow<'static, str>);

impl MethodName {
    /// `GET`
    pub const GET: Self = Self(Cow::Borrowed("GET"));
    /// `POST`
    pub const POST: Self = Self(Cow::Borrowed("POST"));

    /// The method called `name`; `None` where no method can be called so. As in nginx, methods are capital letters,
    /// hyphens and underscores.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Option<Self> {
        let name = name.into();
        let valid = !name.is_empty() && name.bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b'-' | b'_'));
        valid.then_some(Self(Cow::Owned(name)))
    }
}

impl Deref for MethodName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// Percent-encodes a path as nginx does for a request line: control characters, spaces, `%`, `?`, `#` and bytes beyond
/// ASCII.
pub fn encode_path(path: &[u8], out: &mut Vec<u8>) {
    encode(path, |byte| matches!(byte, b'%' | b'?') || is_no_target_byte(byte), out);
}

/// Percent-encodes the control characters and spaces of a query, which would end the request line.
pub fn encode_controls(query: &[u8], out: &mut Vec<u8>) {
    encode(query, |byte| matches!(byte, 0..=b' ' | 0x7f), out);
}

fn is_no_target_byte(byte: &u8) -> bool {
    matches!(byte, 0..=b' ' | b'#' | 0x7f..)
}

fn encode(bytes: &[u8], is_encoded: impl Fn(&u8) -> bool, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        if is_encoded(byte) {
            out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        } else {
            out.push(*byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_keep_request_lines_whole() {
        let mut out = Vec::new();
        encode_path(b"/a b%?\r\n#\xc3\xa4", &mut out);
        encode_controls(b"?a=b c\r\n%20", &mut out);
        assert_eq!(String::from_utf8_lossy(&out), "/a%20b%25%3F%0D%0A%23%C3%A4?a=b%20c%0D%0A%20");
    }

    #[test]
    fn targets_hold_no_byte_that_ends_a_line() {
        for (encoded, target) in [
            (&b"/a%20b?c=d"[..], "/a%20b?c=d"),
            (b"*", "*"),
            (b"", "/"),
            (b"a", "/a"),
            (b"/a HTTP/1.1\r\nX: 1\r\n\r\n", "/a%20HTTP/1.1%0D%0AX:%201%0D%0A%0D%0A"),
            (b"/\x00#\x7f\xff", "/%00%23%7F%FF"),
        ] {
            assert_eq!(&*Target::new(encoded), target.as_bytes());
        }
        assert_eq!(&*Target::of_path(b"s/m HTTP/1.1\r\n?%"), b"/s/m%20HTTP/1.1%0D%0A%3F%25");
    }

    #[test]
    fn hosts_and_methods_are_valid_or_none() {
        for (bytes, valid) in [
            ("a.com:80", true),
            ("[::1]:80", true),
            ("", true),
            ("a b", false),
            ("a\r\nX: 1", false),
            ("a/b", false),
            ("a:b", false),
        ] {
            assert_eq!(Authority::new(bytes).is_some(), valid, "{bytes:?}");
        }
        for (name, valid) in [("GET", true), ("", false), ("get", false), ("GET ", false), ("G\r", false)] {
            assert_eq!(MethodName::new(name).is_some(), valid, "{name:?}");
        }
    }
}
