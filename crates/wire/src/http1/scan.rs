//! The lines of a head, found in one pass and read strictly: a name is a token directly followed by its colon, a line
//! ends in CRLF, and nothing folds.
//!
//! An own scanner, because the general parser that stood here took 4,500 instructions for a request and its response,
//! of which 3,000 went into building a list that was then walked again; half of a plain exchange's budget.

use crate::head::TOKEN_BYTES;
use crate::{Known, Span};
use stdx::bytes::{Byte, Control, Range, all, find, split};

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scan<T> {
    /// It is there.
    Done(T),
    /// It may be there when more bytes have come.
    More,
    /// It is not there, and more bytes won't help.
    Bad(&'static str),
}

/// A header line, or the empty line after the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// `name: value`, and where the next line starts.
    Field {
        /// The name.
        name: Span,
        /// The value without the white space around it.
        value: Span,
        /// One past the LF.
        end: usize,
        /// Which field it is.
        known: Known,
    },
    /// The empty line; the body starts here.
    End(usize),
}

/// Bytes of a token (RFC 9110 section 5.6.2).
static TOKEN: [bool; 256] = TOKEN_BYTES;

/// Reads the line that starts at `start`. Inlined into its three callers: a call and the result's way through memory
/// would be a third of its cost.
#[inline(always)]
pub(super) fn line(bytes: &[u8], start: usize) -> Scan<Line> {
    match bytes.get(start..) {
        Some([b'\r', b'\n', ..]) => Scan::Done(Line::End(start + 2)),
        Some(rest) if let Some(field) = plain_field(rest, start) => Scan::Done(field),
        _ => any_line(bytes, start),
    }
}

/// The field at the beginning of `rest`, which stands at `start`, in the form that nearly all have: one space before the
/// value, none after it, no tab in it. `None` says nothing about the line.
#[inline(always)]
fn plain_field(rest: &[u8], start: usize) -> Option<Line> {
    let (name, [_, b' ', value @ ..]) = split(rest, Byte::<b':'>)? else { return None };
    let known = Known::classify(name);
    // Those that are known by name consist of the bytes of that name.
    if known == Known::Other && !is_token(rest, name.len()) {
        return None;
    }
    let (value, rest) = split(value, Control::<0x1f>)?;
    if !rest.starts_with(b"\r\n") {
        return None;
    }
    let (colon, length) = (name.len(), value.len());
    if let [b' ', ..] | [.., b' '] = value {
        return None;
    }
    let from = start + colon + 2;
    Some(Line::Field {
        name: Span::new(start, start + colon),
        value: Span::new(from, from + length),
        end: from + length + 2,
        known,
    })
}

/// Reads the line that starts at `start`, whatever it is.
#[inline(never)]
fn any_line(bytes: &[u8], start: usize) -> Scan<Line> {
    let name_end = token_end(bytes, start);
    match bytes.get(name_end) {
        None => Scan::More,
        Some(b':') if name_end > start => {
            let mut from = name_end + 1;
            while matches!(bytes.get(from), Some(b' ' | b'\t')) {
                from += 1;
            }
            match text(bytes, from) {
                Scan::Done((value, end)) => Scan::Done(Line::Field {
                    name: Span::new(start, name_end),
                    value,
                    end,
                    known: Known::classify(&bytes[start..name_end]),
                }),
                Scan::More => Scan::More,
                Scan::Bad(why) => Scan::Bad(why),
            }
        }
        Some(b'\r') if name_end == start => match bytes.get(start + 1) {
            None => Scan::More,
            Some(b'\n') => Scan::Done(Line::End(start + 2)),
            Some(_) => Scan::Bad("bare CR"),
        },
        Some(b'\n') if name_end == start => Scan::Bad("bare LF"),
        Some(b' ' | b'\t') if name_end == start => Scan::Bad("folded header line"),
        Some(_) => Scan::Bad("invalid header name"),
    }
}

/// One past the token that starts at `start`.
#[inline]
pub(super) fn token_end(bytes: &[u8], start: usize) -> usize {
    let rest = bytes.get(start..).unwrap_or_default();
    start + rest.iter().position(|byte| !TOKEN[usize::from(*byte)]).unwrap_or(rest.len())
}

/// Whether the name of `length` bytes at the beginning of `rest` is a token: nearly all are made of letters, digits and
/// hyphens.
#[inline(always)]
fn is_token(rest: &[u8], length: usize) -> bool {
    const USUAL: (Range<b'a', b'z'>, (Range<b'A', b'Z'>, (Range<b'0', b'9'>, Byte<b'-'>))) =
        (Range, (Range, (Range, Byte)));
    length > 0 && (all(rest, length, USUAL) || is_unusual_token(rest, length))
}

#[inline(never)]
fn is_unusual_token(rest: &[u8], length: usize) -> bool {
    rest.iter().take(length).all(|byte| TOKEN[usize::from(*byte)])
}

/// Reads text (`HTAB / SP / VCHAR / obs-text`) up to its CRLF: the text without white space at its end, and where the
/// next line starts.
#[inline(always)]
pub(super) fn text(bytes: &[u8], start: usize) -> Scan<(Span, usize)> {
    let mut at = start;
    loop {
        at = control::<0x1f>(bytes, at);
        match bytes.get(at) {
            Some(b'\t') => at += 1,
            None => return Scan::More,
            Some(b'\r') => break,
            Some(b'\n') => return Scan::Bad("bare LF"),
            Some(_) => return Scan::Bad("control character in a header line"),
        }
    }
    match bytes.get(at + 1) {
        None => return Scan::More,
        Some(b'\n') => {}
        Some(_) => return Scan::Bad("bare CR"),
    }
    let mut end = at;
    while end > start && matches!(bytes[end - 1], b' ' | b'\t') {
        end -= 1;
    }
    Scan::Done((Span::new(start, end), at + 2))
}

/// The first position from `start` on of a byte up to `LAST` or of DEL; the end where there is none.
#[inline]
pub(super) fn control<const LAST: u8>(bytes: &[u8], start: usize) -> usize {
    let rest = bytes.get(start..).unwrap_or_default();
    start + find(rest, Control::<LAST>).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_read_strictly() {
        for (bytes, expected) in [
            (
                &b"A: b\r\n"[..],
                Scan::Done(Line::Field {
                    name: Span::new(0, 1),
                    value: Span::new(3, 4),
                    end: 6,
                    known: Known::Other,
                }),
            ),
            (
                b"A:\t b \t\r\n",
                Scan::Done(Line::Field {
                    name: Span::new(0, 1),
                    value: Span::new(4, 5),
                    end: 9,
                    known: Known::Other,
                }),
            ),
            (
                b"A:\r\n",
                Scan::Done(Line::Field {
                    name: Span::new(0, 1),
                    value: Span::new(2, 2),
                    end: 4,
                    known: Known::Other,
                }),
            ),
            (
                b"A: a\tb\xff\r\n",
                Scan::Done(Line::Field {
                    name: Span::new(0, 1),
                    value: Span::new(3, 7),
                    end: 9,
                    known: Known::Other,
                }),
            ),
            (b"\r\n", Scan::Done(Line::End(2))),
            (b"\r", Scan::More),
            (b"", Scan::More),
            (b"Name", Scan::More),
            (b"A: b\r", Scan::More),
            (b"A : b\r\n", Scan::Bad("invalid header name")),
            (b": b\r\n", Scan::Bad("invalid header name")),
            (b" A: b\r\n", Scan::Bad("folded header line")),
            (b"\n", Scan::Bad("bare LF")),
            (b"\rA", Scan::Bad("bare CR")),
            (b"A: b\n", Scan::Bad("bare LF")),
            (b"A: b\rc\r\n", Scan::Bad("bare CR")),
            (b"A: b\0c\r\n", Scan::Bad("control character in a header line")),
            (b"A: 12345678\x7f\r\n", Scan::Bad("control character in a header line")),
        ] {
            assert_eq!(line(bytes, 0), expected, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    proptest! {
        /// The short way says what the long one would.
        #[test]
        fn plain_fields_are_read_as_any_line(
            name in "[A-Za-z-]{0,12}|[\\x00-\\x7f]{0,20}|te|Host|Content_Length",
            between in ": |:|:  |:\t| : ",
            value in "[a-z0-9/ ]{0,40}|[\\x00-\\xff]{0,40}",
            end in "\r\n|\r|\n||\r\nbody and more of it",
        ) {
            let text = [name, between, value, end].concat();
            let bytes: Vec<u8> = text.chars().map(|c| c as u8).collect();
            if let Some(field) = plain_field(&bytes, 0) {
                prop_assert_eq!(Scan::Done(field), any_line(&bytes, 0));
            }
        }
    }

    /// Names that the gateway knows, and one that it doesn't.
    const NAMES: [&str; 9] = [
        "te",
        "host",
        "x-real-ip",
        "keep-alive",
        "content-length",
        "x-forwarded-for",
        "proxy-connection",
        "transfer-encoding",
        "x-unknown-field",
    ];

    #[test]
    fn a_name_with_a_byte_that_no_token_has_is_refused_wherever_it_stands() {
        for (name, ending) in NAMES.iter().flat_map(|name| [(name, ": v\r\n"), (name, ":v \r\n")]) {
            for at in 0..name.len() {
                for byte in 0..=u8::MAX {
                    let mut bytes = [name.as_bytes(), ending.as_bytes()].concat();
                    bytes[at] = byte;
                    let shown = bytes.escape_ascii().to_string();
                    let end = bytes.iter().position(|byte| *byte == b':').expect("there is a colon");
                    let is_name = end > 0 && bytes[..end].iter().all(|byte| TOKEN[usize::from(*byte)]);
                    match line(&bytes, 0) {
                        Scan::Done(Line::Field { name, .. }) => {
                            assert!(is_name && name == Span::new(0, end), "{shown}");
                        }
                        other => assert!(!is_name && matches!(other, Scan::Bad(_)), "{shown}: {other:?}"),
                    }
                }
            }
        }
    }

    #[test]
    fn tokens_end_where_the_table_says() {
        for length in 1..20 {
            for at in 0..length {
                for byte in 0..=255u8 {
                    let mut bytes = vec![b'x'; length];
                    bytes[at] = byte;
                    let expected = if TOKEN[usize::from(byte)] { length } else { at };
                    assert_eq!(token_end(&bytes, 0), expected, "{byte} at {at} of {length}");
                }
            }
        }
    }
}
