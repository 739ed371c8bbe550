//! The lines of a head, found in one pass and read strictly: a name is a token directly followed by its colon, a line
//! ends in CRLF, and nothing folds.
//!
//! An own scanner, because the general parser that stood here took 4,500 instructions for a request and its response,
//! of which 3,000 went into building a list that was then walked again; half of a plain exchange's budget.

use crate::Span;

/// A one in each of eight bytes.
const ONES: u64 = u64::from_ne_bytes([1; 8]);

/// The high bit of each of eight bytes.
const HIGH: u64 = ONES << 7;

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
    },
    /// The empty line; the body starts here.
    End(usize),
}

/// Bytes of a token (RFC 9110 section 5.6.2).
static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let allowed = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut at = 0;
    while at < allowed.len() {
        table[allowed[at] as usize] = true;
        at += 1;
    }
    table
};

/// Reads the line that starts at `start`. Inlined into its three callers: a call and the result's way through memory
/// would be a third of its cost.
#[inline(always)]
pub(super) fn line(bytes: &[u8], start: usize) -> Scan<Line> {
    let name_end = token_end(bytes, start);
    match bytes.get(name_end) {
        None => Scan::More,
        Some(b':') if name_end > start => {
            let mut from = name_end + 1;
            while matches!(bytes.get(from), Some(b' ' | b'\t')) {
                from += 1;
            }
            match text(bytes, from) {
                Scan::Done((value, end)) => {
                    Scan::Done(Line::Field { name: Span::new(start, name_end), value, end })
                }
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
    let mut at = start;
    loop {
        at = word_end(bytes, at);
        // What ends a word may still be one of the rarer bytes of a token, or stand too close to the end for a word.
        if !bytes.get(at).is_some_and(|byte| TOKEN[usize::from(*byte)]) {
            return at;
        }
        at += 1;
    }
}

/// The first position from `start` on of a byte that is neither a letter nor a hyphen, eight bytes at a time; at most
/// seven bytes before the end of `bytes` are not looked at.
#[inline]
fn word_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(chunk) = bytes.get(at..at + 8).and_then(|chunk| <[u8; 8]>::try_from(chunk).ok()) {
        let word = u64::from_le_bytes(chunk);
        let low = word & !HIGH;
        // Each sum sets bit 7 from a bound on, and carries into no other byte because bit 7 is clear before.
        let folded = low | (ONES * 0x20);
        let letter = (folded + ONES * u64::from(0x80 - b'a')) & !(folded + ONES * u64::from(0x7f - b'z'));
        let hyphen = !((low ^ (ONES * u64::from(b'-'))) + ONES * 0x7f);
        let flags = (word | !(letter | hyphen)) & HIGH;
        if flags != 0 {
            return at + flags.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at
}

/// Reads text (`HTAB / SP / VCHAR / obs-text`) up to its CRLF: the text without white space at its end, and where the
/// next line starts.
#[inline(always)]
pub(super) fn text(bytes: &[u8], start: usize) -> Scan<(Span, usize)> {
    let mut at = start;
    loop {
        at = control(bytes, at, 0x20);
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

/// The first position from `start` on of a byte below `floor` or of DEL; the end where there is none. Eight bytes at a
/// time: the lowest flagged byte is exact, those above it may be the borrow of a subtraction.
#[inline]
pub(super) fn control(bytes: &[u8], start: usize, floor: u8) -> usize {
    let mut at = start;
    while let Some(chunk) = bytes.get(at..at + 8).and_then(|chunk| <[u8; 8]>::try_from(chunk).ok()) {
        let word = u64::from_le_bytes(chunk);
        let delete = word ^ (ONES * 0x7f);
        let below = word.wrapping_sub(ONES * u64::from(floor)) & !word;
        let flags = (below | (delete.wrapping_sub(ONES) & !delete)) & HIGH;
        if flags != 0 {
            return at + flags.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|byte| *byte >= floor && *byte != 0x7f) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_strictly() {
        for (bytes, expected) in [
            (
                &b"A: b\r\n"[..],
                Scan::Done(Line::Field { name: Span::new(0, 1), value: Span::new(3, 4), end: 6 }),
            ),
            (
                b"A:\t b \t\r\n",
                Scan::Done(Line::Field { name: Span::new(0, 1), value: Span::new(4, 5), end: 9 }),
            ),
            (b"A:\r\n", Scan::Done(Line::Field { name: Span::new(0, 1), value: Span::new(2, 2), end: 4 })),
            (
                b"A: a\tb\xff\r\n",
                Scan::Done(Line::Field { name: Span::new(0, 1), value: Span::new(3, 7), end: 9 }),
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

    #[test]
    fn control_bytes_are_found_wherever_they_stand() {
        for length in 0..40 {
            for at in 0..length {
                for byte in [0, 0x1f, 0x7f, b'\r', b'\t'] {
                    let mut bytes = vec![b'a'; length];
                    bytes[at] = byte;
                    assert_eq!(control(&bytes, 0, 0x20), at, "{byte} at {at} of {length}");
                }
                let mut bytes = vec![0x80; length];
                bytes[at] = 0xff;
                assert_eq!(control(&bytes, 0, 0x20), length);
            }
        }
    }
}
