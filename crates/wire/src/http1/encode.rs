//! Writing messages. Heads: runs of header lines are copied as they stand, those that end here are left out. Bodies: the
//! framing that [`super::BodyDecoder`] reads.

use crate::head::{is_token, push_clean};
use crate::{Field, FieldName, FieldSink, FieldValue, Framing, Known, MadeLines};

/// Copies header lines from one head into another, line by line where it must and run by run where it can.
///
/// Lines of a head stand without gaps, so lines kept side by side are one `memcpy`.
#[derive(Debug)]
struct Lines<'b, 'o> {
    bytes: &'b [u8],
    out: &'o mut Vec<u8>,
    /// Start of the run not yet copied; equal to `run_end` when there is none.
    run_start: usize,
    run_end: usize,
}

impl<'b, 'o> Lines<'b, 'o> {
    /// Copies from `bytes` to the end of `out`.
    fn new(bytes: &'b [u8], out: &'o mut Vec<u8>) -> Self {
        Self { bytes, out, run_start: 0, run_end: 0 }
    }

    /// Keeps `field`'s line.
    #[inline]
    fn keep(&mut self, field: &Field) {
        let start = field.name.start();
        if start != self.run_end {
            self.flush();
            self.run_start = start;
        }
        self.run_end = field.line_end as usize;
    }

    /// Copies what is kept so far; called at the end.
    #[inline]
    fn flush(&mut self) {
        self.out.extend_from_slice(self.bytes.get(self.run_start..self.run_end).unwrap_or_default());
        self.run_start = self.run_end;
    }
}

impl Known {
    /// Fields that concern one connection only and are never relayed (RFC 9110 section 7.6.1). `Transfer-Encoding` and
    /// `Content-Length` are among them because the relay frames the body itself, and their look-alikes because the next
    /// recipient may take them for these: requests with such a field are refused, responses lose it. nginx and HAProxy pass
    /// it on; RFC 9110 section 5.1 lets a proxy block fields.
    pub const HOP_BY_HOP: KnownSet = KnownSet(0)
        .with(Self::Connection)
        .with(Self::KeepAlive)
        .with(Self::ProxyConnection)
        .with(Self::Te)
        .with(Self::Upgrade)
        .with(Self::Expect)
        .with(Self::TransferEncoding)
        .with(Self::ContentLength)
        .with(Self::FramingAlias);

    /// Whether the field is one of [`Self::HOP_BY_HOP`].
    #[must_use]
    #[inline]
    pub fn is_hop_by_hop(self) -> bool {
        Self::HOP_BY_HOP.has(self)
    }
}

/// A set of fields: what a head leaves out is put together once, and asked for each of its lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownSet(u32);

impl KnownSet {
    /// The set with `known` in it.
    #[must_use]
    #[inline]
    pub const fn with(self, known: Known) -> Self {
        Self(self.0 | 1 << known as u32)
    }

    /// The set without `known`, if `leaves` says so.
    #[must_use]
    #[inline]
    pub const fn without_if(self, known: Known, leaves: bool) -> Self {
        Self(self.0 & !((leaves as u32) << known as u32))
    }

    /// Whether `known` is in the set.
    #[must_use]
    #[inline]
    pub const fn has(self, known: Known) -> bool {
        self.0 & 1 << known as u32 != 0
    }
}

/// Appends `number` in decimal.
#[inline]
pub fn push_decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        // The remainder is below 10.
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// The fields of a head in HTTP/1.1's form: lines.
impl FieldSink for Vec<u8> {
    #[inline]
    fn joined<'p>(&mut self, name: FieldName, pieces: impl Iterator<Item = FieldValue<'p>>) {
        self.extend_from_slice(name.line());
        pieces.for_each(|piece| self.extend_from_slice(piece.bytes()));
        self.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn number(&mut self, name: FieldName, value: u64) {
        self.extend_from_slice(name.line());
        push_decimal(self, value);
        self.extend_from_slice(b"\r\n");
    }

    fn any(&mut self, name: &str, value: &[u8]) {
        if is_token(name.as_bytes()) {
            self.extend_from_slice(name.as_bytes());
            self.extend_from_slice(b": ");
            push_clean(value, self);
            self.extend_from_slice(b"\r\n");
        }
    }

    #[inline]
    fn lines(&mut self, lines: MadeLines<'_>) {
        self.extend_from_slice(lines.bytes());
    }

    #[inline]
    fn relay(&mut self, bytes: &[u8], fields: &[Field], mut keeps: impl FnMut(&Field) -> bool) {
        let mut lines = Lines::new(bytes, self);
        for field in fields {
            if keeps(field) {
                lines.keep(field);
            }
        }
        lines.flush();
    }
}

/// Encodes bodies: what [`super::BodyDecoder`] reads back.
impl Framing {
    /// Appends the next bytes of the body.
    #[inline]
    pub fn encode(self, data: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::None => {}
            Self::Exact(_) | Self::Frames | Self::Close => out.extend_from_slice(data),
            // An empty chunk would be the last.
            Self::Chunked if data.is_empty() => {}
            Self::Chunked => {
                chunk_head(out, data.len());
                out.extend_from_slice(data);
                out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Appends what ends the body. `trailers` are the lines of its trailer section, which chunks alone can carry.
    #[inline]
    pub fn encode_end(self, trailers: &[u8], out: &mut Vec<u8>) {
        if self == Self::Chunked {
            out.extend_from_slice(b"0\r\n");
            out.extend_from_slice(trailers);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Appends the size line of a chunk of `length` bytes.
fn chunk_head(out: &mut Vec<u8>, length: usize) {
    let digits = (usize::BITS - length.leading_zeros()).div_ceil(4).max(1);
    for position in (0..digits).rev() {
        let digit = (length >> (position * 4)) & 0xf;
        out.push(b"0123456789abcdef"[digit]);
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BodyLength;
    use crate::http1::BodyDecoder;

    #[test]
    fn a_set_has_what_was_put_in_and_nothing_else() {
        let all = [Known::Other, Known::Host, Known::ContentLength, Known::Upgrade, Known::Referer];
        for known in all {
            let set = KnownSet(0).with(known);
            assert!(all.iter().all(|other| set.has(*other) == (*other == known)), "{known:?}");
            assert!(all.iter().all(|other| set.without_if(*other, false) == set));
            assert_eq!(set.with(Known::Te).without_if(known, true), KnownSet(0).with(Known::Te));
        }
        assert!(Known::Upgrade.is_hop_by_hop() && !Known::Other.is_hop_by_hop());
    }

    #[test]
    fn numbers_are_written_as_printf_would() {
        for number in [0, 9, 10, 99, 65_536, u64::MAX] {
            let mut out = Vec::new();
            push_decimal(&mut out, number);
            assert_eq!(String::from_utf8(out).expect("digits"), number.to_string());
        }
        for length in [1usize, 15, 16, 255, 65_536] {
            let mut out = Vec::new();
            chunk_head(&mut out, length);
            assert_eq!(String::from_utf8(out).expect("digits"), format!("{length:x}\r\n"));
        }
    }

    /// Every framing, read back by the decoder that belongs to it.
    #[test]
    fn what_is_encoded_is_decoded() {
        let pieces = [&b"a"[..], b"", &[b'x'; 300], b"\r\n0\r\n\r\n"];
        let whole = pieces.concat();
        let length = whole.len() as u64;
        for (framing, length, trailers) in [
            (Framing::None, BodyLength::None, &b""[..]),
            (Framing::Exact(length), BodyLength::Exact(length), b""),
            (Framing::Close, BodyLength::UntilClose, b""),
            (Framing::Chunked, BodyLength::Chunked, b""),
            (Framing::Chunked, BodyLength::Chunked, b"X-Sum: 1\r\nX-B: 2\r\n"),
        ] {
            let mut out = Vec::new();
            pieces.iter().for_each(|piece| framing.encode(piece, &mut out));
            framing.encode_end(trailers, &mut out);
            let (mut decoder, mut at) = (BodyDecoder::new(length), 0);
            let (mut body, mut trailed) = (Vec::new(), Vec::new());
            let over = decoder.drain(&out, &mut at, &mut trailed, |piece| body.extend_from_slice(piece));
            assert_eq!(over, Ok(framing != Framing::Close), "{framing:?}");
            assert_eq!(at, out.len(), "{framing:?}");
            let expected = if framing == Framing::None { &b""[..] } else { &whole };
            assert_eq!((&body[..], &trailed[..]), (expected, trailers), "{framing:?}");
        }
    }
}
