//! Chunked bodies.

use super::lines::{hash, name_and_value};
use wire::http1::{BodyDecoder, BodyError, TRAILERS_MAX};
use wire::{BodyEvent, BodyLength, Framing};

/// What a chunked body decodes to.
#[derive(Debug, PartialEq, Eq)]
struct Decoded {
    body: Vec<u8>,
    trailers: Vec<u8>,
    /// Bytes after the body; `None` where the body is not complete.
    rest: Option<usize>,
}

/// Checks that `bytes` decode to the same however they are cut, and to what a plain reader makes of them; and that
/// they come back when they are encoded.
pub fn check(bytes: &[u8]) {
    let whole = decode(bytes, |_| usize::MAX);
    let mut seed = hash(bytes);
    let pieces = decode(bytes, |left| {
        seed = seed.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        1 + usize::try_from(seed % 17).expect("below 17").min(left)
    });
    // Where a broken body breaks may depend on the cuts; that it does may not.
    assert_eq!(whole.is_err(), pieces.is_err(), "{whole:?} and in pieces {pieces:?}");
    if let (Ok(whole), Ok(pieces)) = (&whole, &pieces) {
        assert_eq!(whole, pieces);
        if whole.rest.is_some() {
            assert_eq!(Some(whole), plain(bytes).as_ref(), "the plain reader reads something else");
        }
    }
    check_round_trip(bytes);
}

/// Decodes `bytes`, given in pieces as large as `piece` says when it is told how many are left.
fn decode(bytes: &[u8], mut piece: impl FnMut(usize) -> usize) -> Result<Decoded, BodyError> {
    let mut decoder = BodyDecoder::new(BodyLength::Chunked);
    let mut decoded = Decoded { body: Vec::new(), trailers: Vec::new(), rest: None };
    let (mut from, mut to) = (0, 0);
    loop {
        let (used, event) = decoder.next(&bytes[from..to])?;
        from += used;
        assert!(from <= to, "no more is consumed than was given");
        match event {
            BodyEvent::Data(data) => {
                assert!(!data.is_empty() && !decoder.is_done());
                decoded.body.extend_from_slice(data);
            }
            BodyEvent::Trailers(lines) => {
                assert!(decoded.trailers.is_empty() && !lines.is_empty() && decoder.is_done());
                decoded.trailers.extend_from_slice(lines);
            }
            BodyEvent::End => {
                assert!(decoder.is_done());
                decoded.rest = Some(bytes.len() - from);
                return Ok(decoded);
            }
            BodyEvent::NeedMore if to == bytes.len() => {
                assert!(!decoder.ends_with_connection());
                return Ok(decoded);
            }
            BodyEvent::NeedMore => {
                assert!(to - from <= TRAILERS_MAX, "framing that is awaited is bounded");
                to = to.saturating_add(piece(bytes.len() - to)).min(bytes.len());
            }
        }
    }
}

/// Reads a complete chunked body in the plainest way.
fn plain(bytes: &[u8]) -> Option<Decoded> {
    let mut decoded = Decoded { body: Vec::new(), trailers: Vec::new(), rest: None };
    let mut rest = bytes;
    loop {
        let line = take_line(&mut rest)?;
        let digits = line.split(|byte| *byte == b';').next()?;
        // White space may stand before an extension only (RFC 9112 section 7.1.1).
        let digits = if digits.len() < line.len() { digits.trim_ascii_end() } else { digits };
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let size = usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        if size == 0 {
            break;
        }
        let (data, after) = rest.split_at_checked(size)?;
        decoded.body.extend_from_slice(data);
        rest = after.strip_prefix(b"\r\n")?;
    }
    loop {
        let line = take_line(&mut rest)?;
        if line.is_empty() {
            decoded.rest = Some(rest.len());
            return Some(decoded);
        }
        let (name, _) = name_and_value(line);
        for forbidden in ["content-length", "transfer-encoding", "host", "x-forwarded-for", "authorization"] {
            assert!(!name.eq_ignore_ascii_case(forbidden.as_bytes()), "{forbidden} in the trailers");
        }
        decoded.trailers.extend_from_slice(line);
        decoded.trailers.extend_from_slice(b"\r\n");
    }
}

/// The next line without its CRLF; no control bytes in it.
fn take_line<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let line = &rest[..end];
    *rest = &rest[end + 2..];
    let clean = line.iter().all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f));
    clean.then_some(line)
}

/// `bytes` as a chunked body, cut at random, decode to themselves.
fn check_round_trip(bytes: &[u8]) {
    let mut wire = Vec::new();
    let mut seed = hash(bytes);
    let mut rest = bytes;
    while !rest.is_empty() {
        seed = seed.rotate_left(11).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let size = 1 + usize::try_from(seed % 40).expect("below 40").min(rest.len() - 1);
        Framing::Chunked.encode(&rest[..size], &mut wire);
        rest = &rest[size..];
    }
    Framing::Chunked.encode_end(&[], &mut wire);
    wire.extend_from_slice(b"next");
    for step in [1, 2, 7, usize::MAX] {
        let decoded = decode(&wire, |_| step).expect("what we encode is sound");
        assert_eq!((&decoded.body[..], decoded.rest), (bytes, Some(4)));
    }
}
