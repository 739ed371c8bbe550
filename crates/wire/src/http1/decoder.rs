//! Message bodies: where they end, and the chunked coding (RFC 9112 section 7.1), read strictly.

use super::TRAILERS_MAX;
use super::scan::{Line, Scan, line};
use crate::{BodyEvent, BodyLength, Known};

/// Why a body can't be read on. The connection it came from is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyError(pub &'static str);

/// Splits the bytes of a connection into one body's events.
#[derive(Debug, Clone, Copy)]
pub struct BodyDecoder {
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Bytes left of a body of known length.
    Exact(u64),
    /// Everything until the connection ends.
    UntilClose,
    /// At a chunk-size line.
    Size,
    /// Bytes left of the current chunk.
    Chunk(u64),
    /// At the CRLF that ends a chunk's data.
    ChunkEnd,
    /// At the trailer section.
    Trailers,
    /// Complete.
    Done,
}

/// A trailer section may have this many fields.
pub(crate) const TRAILERS_COUNT: usize = 32;

/// A chunk-size line may be this long: 16 digits, an extension of reasonable length, CRLF.
const SIZE_LINE_MAX: usize = 256;

impl BodyDecoder {
    /// A decoder at the start of a body.
    #[must_use]
    pub fn new(length: BodyLength) -> Self {
        let state = match length {
            BodyLength::None => State::Done,
            BodyLength::Exact(bytes) => State::Exact(bytes),
            BodyLength::Chunked => State::Size,
            BodyLength::UntilClose => State::UntilClose,
        };
        Self { state }
    }

    /// A decoder of a body that comes in frames, which the protocol below has taken apart (HTTP/2): one of unknown length
    /// ends where its stream does, see [`Self::end_after`].
    #[must_use]
    pub fn of_frames(length: BodyLength) -> Self {
        match length {
            BodyLength::Chunked => Self { state: State::UntilClose },
            _ => Self::new(length),
        }
    }

    /// The stream or the connection ends after `rest` more bytes of the body, which are read and not decoded yet. Returns
    /// whether that is a proper end here.
    pub fn end_after(&mut self, rest: usize) -> bool {
        match self.state {
            State::UntilClose if rest > 0 => self.state = State::Exact(rest as u64),
            State::UntilClose => self.state = State::Done,
            State::Exact(left) => return left <= rest as u64,
            State::Done => {}
            _ => return false,
        }
        true
    }

    /// Whether the body is complete.
    #[must_use]
    #[inline]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// How many bytes may be read without reading anything of what follows the body: as many as must come before it is
    /// complete.
    #[must_use]
    pub fn at_least(&self) -> u64 {
        // A line end, and the last chunk with the end of an empty trailer section.
        const LINE_END: u64 = 2;
        const LAST_CHUNK: u64 = 5;
        match self.state {
            State::Exact(left) => left,
            // Nothing follows.
            State::UntilClose => u64::MAX,
            State::Size => LAST_CHUNK,
            State::Chunk(left) => left.saturating_add(LINE_END + LAST_CHUNK),
            State::ChunkEnd => LINE_END + LAST_CHUNK,
            State::Trailers => LINE_END,
            State::Done => 0,
        }
    }

    /// Whether the body's bytes stand in what is decoded side by side, so that one event has all of them.
    #[must_use]
    #[inline]
    pub fn is_plain(&self) -> bool {
        matches!(self.state, State::Exact(_) | State::UntilClose | State::Done)
    }

    /// Whether the end of the connection is a proper end of the body here.
    #[must_use]
    pub fn ends_with_connection(&self) -> bool {
        matches!(self.state, State::UntilClose | State::Done)
    }

    /// The next event at the start of `bytes`, and how many bytes it consumes. [`BodyEvent::NeedMore`] may consume
    /// bytes too (a chunk-size line, say).
    ///
    /// # Errors
    /// When the chunked coding is violated.
    #[inline]
    pub fn next<'b>(&mut self, bytes: &'b [u8]) -> Result<(usize, BodyEvent<'b>), BodyError> {
        match self.state {
            State::Done => Ok((0, BodyEvent::End)),
            _ if bytes.is_empty() => Ok((0, BodyEvent::NeedMore)),
            State::UntilClose => Ok((bytes.len(), BodyEvent::Data(bytes))),
            State::Exact(left) => {
                let (data, left) = take(bytes, left);
                self.state = if left == 0 { State::Done } else { State::Exact(left) };
                Ok((data.len(), BodyEvent::Data(data)))
            }
            _ => self.next_chunked(bytes),
        }
    }

    /// Decodes `bytes` as far as they go, and counts what was consumed of them in `at`, where decoding begins: each piece
    /// of the body goes to `piece`, the lines of its trailer section to `trailers`. Returns whether the body is complete.
    ///
    /// # Errors
    /// When the chunked coding is violated.
    #[inline]
    pub fn drain(
        &mut self,
        bytes: &[u8],
        at: &mut usize,
        trailers: &mut Vec<u8>,
        mut piece: impl FnMut(&[u8]),
    ) -> Result<bool, BodyError> {
        while !self.is_done() {
            let (used, event) = self.next(&bytes[*at..])?;
            *at += used;
            match event {
                BodyEvent::Data(data) => piece(data),
                BodyEvent::Trailers(lines) => trailers.extend_from_slice(lines),
                BodyEvent::End => {}
                BodyEvent::NeedMore => return Ok(false),
            }
        }
        Ok(true)
    }

    fn next_chunked<'b>(&mut self, bytes: &'b [u8]) -> Result<(usize, BodyEvent<'b>), BodyError> {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            match self.state {
                State::Chunk(left) if !rest.is_empty() => {
                    let (data, left) = take(rest, left);
                    self.state = if left == 0 { State::ChunkEnd } else { State::Chunk(left) };
                    return Ok((at + data.len(), BodyEvent::Data(data)));
                }
                State::ChunkEnd => match rest {
                    [b'\r', b'\n', ..] => {
                        at += 2;
                        self.state = State::Size;
                    }
                    [] | [b'\r'] => return Ok((at, BodyEvent::NeedMore)),
                    _ => return Err(BodyError("chunk data is not followed by CRLF")),
                },
                State::Size => match size_line(rest)? {
                    None => return Ok((at, BodyEvent::NeedMore)),
                    Some((length, size)) => {
                        at += length;
                        self.state = if size == 0 { State::Trailers } else { State::Chunk(size) };
                    }
                },
                State::Trailers => {
                    let Some(length) = trailer_section(rest)? else { return Ok((at, BodyEvent::NeedMore)) };
                    self.state = State::Done;
                    let lines = &rest[..length - 2];
                    let event = if lines.is_empty() { BodyEvent::End } else { BodyEvent::Trailers(lines) };
                    return Ok((at + length, event));
                }
                _ => return Ok((at, BodyEvent::NeedMore)),
            }
        }
    }
}

/// At most `left` bytes from the start of `bytes`, and how many are left then.
#[inline]
fn take(bytes: &[u8], left: u64) -> (&[u8], u64) {
    let count = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
    (&bytes[..count], left - count as u64)
}

/// Reads `1*HEXDIG [extensions] CRLF`: its length and the size; `None` when it is not complete.
fn size_line(bytes: &[u8]) -> Result<Option<(usize, u64)>, BodyError> {
    let window = &bytes[..bytes.len().min(SIZE_LINE_MAX)];
    let digits = window.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    if digits > 15 {
        return Err(BodyError("chunk size too large"));
    }
    let Some(end) = memchr::memchr(b'\n', window) else {
        let sound = digits > 0 || window.is_empty();
        return if sound && window.len() < SIZE_LINE_MAX && may_become_line(&window[digits..]) {
            Ok(None)
        } else {
            Err(BodyError("invalid chunk size"))
        };
    };
    let line = window[..end].strip_suffix(b"\r").ok_or(BodyError("bare LF after a chunk size"))?;
    let extension = line.get(digits..).unwrap_or_default();
    let clean = extension.iter().all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f));
    let extended = extension.is_empty() || extension.trim_ascii_start().starts_with(b";");
    if digits == 0 || !clean || !extended {
        return Err(BodyError("invalid chunk size"));
    }
    let size = line[..digits]
        .iter()
        .fold(0u64, |sum, digit| sum << 4 | u64::from(char::from(*digit).to_digit(16).unwrap_or_default()));
    Ok(Some((end + 1, size)))
}

/// Whether what follows the digits may still become an extension (after optional white space) or the line's end.
fn may_become_line(rest: &[u8]) -> bool {
    let spaces = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    match rest.get(spaces) {
        None => true,
        Some(b';') => true,
        Some(b'\r') => spaces == 0,
        Some(_) => false,
    }
}

/// Checks the trailer section at the start of `bytes`, line by line as in heads; its length with the final empty line,
/// or `None` when it is not complete.
fn trailer_section(bytes: &[u8]) -> Result<Option<usize>, BodyError> {
    let window = &bytes[..bytes.len().min(TRAILERS_MAX)];
    let (mut at, mut count) = (0, 0);
    loop {
        match line(window, at) {
            Scan::Done(Line::Field { name, end, .. })
                if count < TRAILERS_COUNT && may_trail(name.get(window)) =>
            {
                (at, count) = (end, count + 1);
            }
            Scan::Done(Line::End(end)) => return Ok(Some(end)),
            Scan::More if bytes.len() < TRAILERS_MAX => return Ok(None),
            _ => return Err(BodyError("invalid trailer section")),
        }
    }
}

/// Whether a trailer field may have this name. Receivers may merge trailers into the head (RFC 9110 section 6.5.2), so
/// none may say what was checked, chosen or rewritten when the head was read.
pub(crate) fn may_trail(name: &[u8]) -> bool {
    const HEAD_ONLY: [&[u8]; 9] = [
        b"authorization",
        b"content-encoding",
        b"content-range",
        b"content-type",
        b"cookie",
        b"proxy-authorization",
        b"range",
        b"set-cookie",
        b"trailer",
    ];
    Known::classify(name) == Known::Other && !HEAD_ONLY.iter().any(|other| name.eq_ignore_ascii_case(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `bytes` in pieces of `step`; the body, its trailers, and what was left over.
    fn decode(bytes: &[u8], step: usize) -> Result<(Vec<u8>, Vec<u8>, usize), BodyError> {
        let mut decoder = BodyDecoder::new(BodyLength::Chunked);
        let (mut body, mut trailers) = (Vec::new(), Vec::new());
        let (mut from, mut to) = (0, 0);
        loop {
            let (used, event) = decoder.next(&bytes[from..to])?;
            from += used;
            match event {
                BodyEvent::Data(data) => body.extend_from_slice(data),
                BodyEvent::Trailers(lines) => trailers.extend_from_slice(lines),
                BodyEvent::End => return Ok((body, trailers, bytes.len() - from)),
                BodyEvent::NeedMore if to == bytes.len() => return Err(BodyError("incomplete")),
                BodyEvent::NeedMore => to = (to + step).min(bytes.len()),
            }
        }
    }

    #[test]
    fn chunked_bodies_decode_however_they_are_cut() {
        let wire = b"5\r\nhello\r\n6;x=\"y\"\r\n world\r\n0\r\nX-Sum: 1\r\n\r\nNEXT";
        for step in 1..wire.len() {
            let (body, trailers, left) = decode(wire, step).expect("valid");
            assert_eq!(body, b"hello world");
            assert_eq!(trailers, b"X-Sum: 1\r\n");
            assert_eq!(left, 4);
        }
    }

    #[test]
    fn bad_chunks_are_refused_however_they_are_cut() {
        for wire in [
            &b"5\nhello\r\n0\r\n\r\n"[..],
            b"5\r\nhello0\r\n\r\n",
            b"5\r\nhello\n0\r\n\r\n",
            b"-5\r\nhello\r\n0\r\n\r\n",
            b"+5\r\nhello\r\n0\r\n\r\n",
            b"0x5\r\nhello\r\n0\r\n\r\n",
            b" 5\r\nhello\r\n0\r\n\r\n",
            b"5 \r\nhello\r\n0\r\n\r\n",
            b"5 6\r\nhello\r\n0\r\n\r\n",
            b"\r\nhello\r\n0\r\n\r\n",
            b"g\r\n",
            b"ffffffffffffffff\r\n",
            b"10000000000000000\r\n",
            b"5;\x00\r\nhello\r\n0\r\n\r\n",
            b"5;a\rb\r\nhello\r\n0\r\n\r\n",
            b"0\r\nContent-Length: 5\r\n\r\n",
            b"0\r\nX : y\r\n\r\n",
            b"0\r\nX: y\n\r\n",
        ] {
            for step in 1..wire.len() {
                let result = decode(wire, step);
                assert!(
                    result.as_ref().is_err_and(|e| e.0 != "incomplete"),
                    "{:?} in steps of {step}: {result:?}",
                    String::from_utf8_lossy(wire)
                );
            }
        }
    }
}
