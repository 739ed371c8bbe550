//! How nginx escapes values in log lines.

/// nginx's `log_format ... escape=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Escape {
    /// `"`, `\` and bytes outside printable ASCII become `\xHH`; what is absent shows as `-`.
    #[default]
    Default,
    /// As in JSON strings; what is absent is empty.
    Json,
    /// Nothing is escaped; what is absent is empty.
    None,
}

impl Escape {
    /// Appends a value.
    #[inline]
    pub(super) fn push(self, out: &mut Vec<u8>, value: &[u8]) {
        if is_plain(value) {
            out.extend_from_slice(value);
        } else {
            self.push_escaped(out, value);
        }
    }

    /// Appends what stands for an absent value.
    #[inline]
    pub(super) fn push_absent(self, out: &mut Vec<u8>) {
        if self == Self::Default {
            out.push(b'-');
        }
    }

    #[cold]
    fn push_escaped(self, out: &mut Vec<u8>, value: &[u8]) {
        for &byte in value {
            match self {
                Self::Default if needs_escape(byte) => push_hex(out, b"\\x", byte),
                Self::Json => push_json(out, byte),
                Self::Default | Self::None => out.push(byte),
            }
        }
    }
}

/// Bytes at which a value stops being copied as it is.
#[inline]
const fn needs_escape(byte: u8) -> bool {
    // One wrapped comparison for both ends of printable ASCII.
    byte.wrapping_sub(0x20) > 0x7e - 0x20 || byte == b'"' || byte == b'\\'
}

/// Whether no byte needs escaping in any style. By sixteens without a branch, which the compiler turns into vector
/// instructions: values are long (user agents, targets) and nearly always plain.
#[inline]
fn is_plain(value: &[u8]) -> bool {
    let (blocks, rest) = value.as_chunks::<16>();
    let strange = |bytes: &[u8]| bytes.iter().fold(false, |found, byte| found | needs_escape(*byte));
    !blocks.iter().any(|block| block.iter().fold(false, |found, byte| found | needs_escape(*byte)))
        && !strange(rest)
}

fn push_json(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        0x08 => out.extend_from_slice(b"\\b"),
        0x0c => out.extend_from_slice(b"\\f"),
        0..0x20 => push_hex(out, b"\\u00", byte),
        _ => out.push(byte),
    }
}

fn push_hex(out: &mut Vec<u8>, before: &[u8], byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend_from_slice(before);
    out.push(DIGITS[usize::from(byte >> 4)]);
    out.push(DIGITS[usize::from(byte & 15)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped_as_nginx_does() {
        for (value, default, json) in [
            (&b"plain /a?b=c&d=%20"[..], "plain /a?b=c&d=%20", "plain /a?b=c&d=%20"),
            (b"say \"x\"", r"say \x22x\x22", r#"say \"x\""#),
            (b"a\\b", r"a\x5Cb", r"a\\b"),
            (b"line\r\n\t\x08\x0c\x1f", r"line\x0D\x0A\x09\x08\x0C\x1F", r"line\r\n\t\b\f\u001F"),
            ("ä\u{7f}".as_bytes(), r"\xC3\xA4\x7F", "ä\u{7f}"),
            (b"sixteen bytes and then\x00", r"sixteen bytes and then\x00", r"sixteen bytes and then\u0000"),
        ] {
            let escaped = |escape: Escape| {
                let mut out = Vec::new();
                escape.push(&mut out, value);
                out
            };
            assert_eq!(String::from_utf8(escaped(Escape::Default)).expect("ascii"), default);
            assert_eq!(String::from_utf8(escaped(Escape::Json)).expect("utf-8"), json);
            assert_eq!(escaped(Escape::None), value);
        }
    }
}
