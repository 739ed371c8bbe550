//! A head read again in the plainest way, without any code of the codec: what this reader and the codec agree upon,
//! no third one reads differently.

use std::ops::Range;
use wire::{Field, Known, Span};

/// The lines of `head` without their CRLF and without the empty one at the end. Every line must end in CRLF, and none
/// may have a CR, LF or NUL elsewhere.
pub(crate) fn lines(head: &[u8]) -> Vec<&[u8]> {
    let text = head.strip_suffix(b"\r\n\r\n").expect("a head ends in an empty line");
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") {
        lines.push(&rest[..end]);
        rest = &rest[end + 2..];
    }
    lines.push(rest);
    for line in &lines {
        assert!(!line.is_empty(), "an empty line inside the head");
        assert!(!line.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)), "a stray control byte");
    }
    lines
}

/// Name and value of a header line.
pub(crate) fn name_and_value(line: &[u8]) -> (&[u8], &[u8]) {
    let colon = line.iter().position(|byte| *byte == b':').expect("a header line has a colon");
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    assert!(!name.is_empty() && name.iter().all(|byte| is_token_byte(*byte)), "a name is a token");
    let start = value.iter().position(|byte| !is_space(byte)).unwrap_or(value.len());
    let end = value.iter().rposition(|byte| !is_space(byte)).map_or(start, |at| at + 1);
    let value = &value[start..end];
    assert!(value.iter().all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f)), "a clean value");
    (name, value)
}

/// Bytes of a token (RFC 9110 section 5.6.2).
pub(crate) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// The values of all fields called `name`.
pub(crate) fn values<'h>(lines: &[&'h [u8]], name: &str) -> Vec<&'h [u8]> {
    let fields = lines.iter().map(|line| name_and_value(line));
    fields.filter(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value).collect()
}

/// The codec's `fields` are exactly these `lines`, and stand without gaps in `place` of `bytes`.
pub(crate) fn assert_fields(bytes: &[u8], place: Range<usize>, fields: &[Field], lines: &[&[u8]]) {
    assert_eq!(fields.len(), lines.len());
    let mut at = place.start;
    for (field, line) in fields.iter().zip(lines) {
        let (name, value) = name_and_value(line);
        assert_eq!(field.name.start(), at, "lines without gaps");
        at += line.len() + 2;
        assert_eq!(field.line_end as usize, at);
        assert_within(field.name, &place);
        assert_within(field.value, &place);
        assert_eq!((field.name.get(bytes), field.value.get(bytes)), (name, value));
        assert_eq!(field.known, Known::classify(name));
    }
    assert_eq!(at + 2, place.end, "nothing but the empty line is left");
}

/// `span` lies within `place`.
pub(crate) fn assert_within(span: Span, place: &Range<usize>) {
    assert!(span.start() <= span.end() && span.end() <= place.end, "{span:?} within {place:?}");
    assert!(span.is_empty() || span.start() >= place.start, "{span:?} within {place:?}");
}

/// A number made of all of `bytes` (FNV-1a): random choices that are the same for the same input.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
