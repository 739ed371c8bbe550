//! How nginx escapes values in log lines.

use super::line::Line;

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
    pub(super) fn push(self, out: &mut Line<'_>, value: &[u8]) {
        if self == Self::None || is_plain(value) {
            out.push(value);
        } else {
            self.push_escaped(out, value);
        }
    }

    /// Appends what stands for an absent value.
    #[inline]
    pub(super) fn push_absent(self, out: &mut Line<'_>) {
        if self == Self::Default {
            out.push_block(*b"-");
        }
    }

    #[cold]
    fn push_escaped(self, line: &mut Line<'_>, value: &[u8]) {
        let mut out = Vec::with_capacity(value.len() * 4);
        for &byte in value {
            match self {
                Self::Default if needs_escape(byte) => push_hex(&mut out, b"\\x", byte),
                Self::Json => push_json(&mut out, byte),
                _ => out.push(byte),
            }
        }
        line.push(&out);
    }
}

/// Bytes at which a value stops being copied as it is.
#[inline]
const fn needs_escape(byte: u8) -> bool {
    !matches!(byte, 0x20..=0x7e) || byte == b'"' || byte == b'\\'
}

/// Whether no byte needs escaping in any style: nearly every value. By eights, the last eight overlapping.
#[inline]
fn is_plain(value: &[u8]) -> bool {
    let (blocks, rest) = value.as_chunks::<8>();
    let plain = |block: &[u8; 8]| strange(u64::from_le_bytes(*block)) == 0;
    blocks.iter().all(plain)
        && match value.last_chunk() {
            Some(last) => plain(last),
            None => match (rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
                (Some(first), Some(last)) => {
                    let both =
                        u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last));
                    strange(both) == 0
                }
                _ => !rest.iter().any(|byte| needs_escape(*byte)),
            },
        }
}

/// Not 0 where one of eight bytes needs escaping: the bytes are looked at all at once, as is known from `strlen`. What is
/// found is exact; which byte it is, is not.
#[inline]
const fn strange(bytes: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = ONES << 7;
    let below_space = bytes.wrapping_sub(ONES * 0x20) & !bytes;
    let quote = bytes ^ (ONES * b'"' as u64);
    let backslash = bytes ^ (ONES * b'\\' as u64);
    let delete = bytes ^ (ONES * 0x7f);
    (bytes
        | below_space
        | (quote.wrapping_sub(ONES) & !quote)
        | (backslash.wrapping_sub(ONES) & !backslash)
        | (delete.wrapping_sub(ONES) & !delete))
        & HIGHS
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
    fn every_byte_that_needs_escaping_is_found_wherever_it_stands() {
        for byte in 0..=u8::MAX {
            for length in 1..20 {
                for at in 0..length {
                    let mut value = vec![b'a'; length];
                    value[at] = byte;
                    assert_eq!(is_plain(&value), !needs_escape(byte), "{byte:#x} at {at} of {length}");
                }
            }
        }
    }

    #[test]
    fn neighbours_of_eight_bytes_neither_hide_nor_feign_what_needs_escaping() {
        for at in 0..7 {
            for pair in 0..=u16::MAX {
                let mut value = [b'a'; 8];
                value[at..at + 2].copy_from_slice(&pair.to_le_bytes());
                let expected = value.iter().any(|byte| needs_escape(*byte));
                assert_eq!(strange(u64::from_le_bytes(value)) != 0, expected, "{value:?}");
            }
        }
    }

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
                let mut room = [0; 200];
                let mut line = Line::new(&mut room);
                escape.push(&mut line, value);
                let length = line.finish().expect("room enough");
                room[..length].to_vec()
            };
            assert_eq!(String::from_utf8(escaped(Escape::Default)).expect("ascii"), default);
            assert_eq!(String::from_utf8(escaped(Escape::Json)).expect("utf-8"), json);
            assert_eq!(escaped(Escape::None), value);
        }
    }
}
