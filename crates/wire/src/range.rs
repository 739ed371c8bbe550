//! Byte ranges (RFC 9110 section 14).

use stdx::Segment;

/// What a `Range` field asks of a representation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranges {
    /// The whole of it: nothing asked, nothing understood, or too much.
    All,
    /// These pieces, in the order asked: `(first, length)`. At least one, none empty, all within the representation.
    Some(Vec<(u64, u64)>),
    /// 416: nothing that there is.
    None,
}

/// The body of an answer with several ranges (RFC 9110 section 14.6).
#[derive(Debug)]
pub struct Multipart<'a> {
    /// Divides the parts. Must not occur in them.
    pub boundary: &'a str,
    /// `Content-Type` of the whole.
    pub media_type: &'a str,
    /// The length of the whole.
    pub length: u64,
}

/// The most ranges that are answered one by one. More, and the whole is sent: who asks for hundreds of pieces wants
/// them all, or wants to keep the server busy.
const RANGES_MAX: usize = 16;

/// Reads `field` for a representation of `length` bytes.
#[must_use]
pub fn parse(field: &[u8], length: u64) -> Ranges {
    let Some(list) = std::str::from_utf8(field).ok().and_then(bytes_unit) else { return Ranges::All };
    let mut wanted = Vec::new();
    let mut count = 0;
    for spec in list.split(',').map(str::trim).filter(|spec| !spec.is_empty()) {
        count += 1;
        match piece(spec, length) {
            Err(()) => return Ranges::All,
            Ok(found) => wanted.extend(found),
        }
        if count > RANGES_MAX {
            return Ranges::All;
        }
    }
    // Pieces that add up to more than the whole overlap; sending them costs more than the whole does.
    let total = wanted.iter().fold(0_u64, |sum, (_, length)| sum.saturating_add(*length));
    match wanted.len() {
        _ if count == 0 => Ranges::All,
        0 => Ranges::None,
        1 => Ranges::Some(wanted),
        _ if total > length => Ranges::All,
        _ => Ranges::Some(wanted),
    }
}

/// `Content-Range` of `length` bytes from `first` on, of a representation of `whole` bytes.
#[must_use]
pub fn content_range(first: u64, length: u64, whole: u64) -> String {
    format!("bytes {first}-{}/{whole}", first + length - 1)
}

/// `Content-Range` where no range is within the `whole` bytes.
#[must_use]
pub fn unsatisfied(whole: u64) -> String {
    format!("bytes */{whole}")
}

impl Multipart<'_> {
    /// `Content-Type` of the answer.
    #[must_use]
    pub fn content_type(&self) -> String {
        format!("multipart/byteranges; boundary={}", self.boundary)
    }

    /// The body: these pieces of `whole`, `(first, length)` each, with what stands around them.
    #[must_use]
    pub fn around(&self, whole: &Segment, pieces: &[(u64, u64)]) -> Vec<Segment> {
        let mut body = Vec::with_capacity(pieces.len() * 2 + 1);
        for (first, length) in pieces {
            body.push(self.before(*first, *length).into_bytes().into());
            body.push(whole.slice(*first, *length));
        }
        body.push(format!("\r\n--{}--\r\n", self.boundary).into_bytes().into());
        body
    }

    /// What stands before `length` bytes from `first` on.
    fn before(&self, first: u64, length: u64) -> String {
        let (boundary, range) = (self.boundary, content_range(first, length, self.length));
        let media_type = match self.media_type {
            "" => String::new(),
            media_type => format!("Content-Type: {media_type}\r\n"),
        };
        format!("\r\n--{boundary}\r\n{media_type}Content-Range: {range}\r\n\r\n")
    }
}

fn bytes_unit(field: &str) -> Option<&str> {
    let (unit, list) = field.split_once('=')?;
    unit.trim().eq_ignore_ascii_case("bytes").then_some(list)
}

/// One range: `None` where it lies outside of the whole, an error where it is none.
fn piece(spec: &str, length: u64) -> Result<Option<(u64, u64)>, ()> {
    let (first, last) = spec.split_once('-').ok_or(())?;
    let (first, last) = (number(first)?, number(last)?);
    let (first, last) = match (first, last) {
        (None, None) => return Err(()),
        (Some(first), Some(last)) if last < first => return Err(()),
        (Some(first), last) => (first, last.unwrap_or(u64::MAX)),
        // The last so many bytes.
        (None, Some(0)) => return Ok(None),
        (None, Some(count)) => (length.saturating_sub(count), u64::MAX),
    };
    Ok((first < length).then(|| (first, last.min(length - 1) - first + 1)))
}

/// A number, or none where nothing stands. One that is too large for us is larger than anything.
fn number(text: &str) -> Result<Option<u64>, ()> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(());
    }
    Ok(Some(text.parse().unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_are_read_as_the_rfc_says() {
        let some = |pieces: &[(u64, u64)]| Ranges::Some(pieces.to_vec());
        let cases = [
            ("bytes=0-0", some(&[(0, 1)])),
            ("bytes=0-499", some(&[(0, 100)])),
            ("bytes=10-19", some(&[(10, 10)])),
            ("Bytes = 10-19", some(&[(10, 10)])),
            ("bytes=90-", some(&[(90, 10)])),
            ("bytes=-10", some(&[(90, 10)])),
            ("bytes=-1000", some(&[(0, 100)])),
            ("bytes=0-9, 20-29", some(&[(0, 10), (20, 10)])),
            ("bytes=20-29,0-9,", some(&[(20, 10), (0, 10)])),
            ("bytes=0-9,500-", some(&[(0, 10)])),
            ("bytes=100-", Ranges::None),
            ("bytes=-0", Ranges::None),
            ("bytes=99999999999999999999-", Ranges::None),
            ("bytes=0-99999999999999999999", some(&[(0, 100)])),
            ("bytes=0-99,0-99", Ranges::All),
            ("bytes=9-0", Ranges::All),
            ("bytes=a-b", Ranges::All),
            ("bytes=+1-2", Ranges::All),
            ("bytes=-", Ranges::All),
            ("bytes=", Ranges::All),
            ("bytes", Ranges::All),
            ("lines=0-1", Ranges::All),
        ];
        for (field, expected) in cases {
            assert_eq!(parse(field.as_bytes(), 100), expected, "{field:?}");
        }
        let many = format!("bytes={}", (0..50).map(|n| format!("{n}-{n}")).collect::<Vec<_>>().join(","));
        assert_eq!(parse(many.as_bytes(), 100), Ranges::All);
        assert_eq!(parse(b"bytes=0-0", 0), Ranges::None);
    }

    proptest! {
        #[test]
        fn every_piece_lies_within_the_whole(field in "bytes=[0-9,-]{0,20}", length in 0_u64..64) {
            if let Ranges::Some(pieces) = parse(field.as_bytes(), length) {
                prop_assert!(!pieces.is_empty());
                for (first, count) in pieces {
                    prop_assert!(count > 0 && first + count <= length);
                }
            }
        }
    }
}
