//! The basic encoding rules (X.690) as LDAP restricts them: definite lengths, tags of one byte (RFC 4511 section 5.1).

/// An element with this tag and content.
pub(super) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match content.len() {
        short @ 0..=0x7f => out.push(short as u8),
        long => {
            let bytes = long.to_be_bytes();
            let first = bytes.iter().position(|byte| *byte != 0).unwrap_or_default();
            out.push(0x80 | (bytes.len() - first) as u8);
            out.extend_from_slice(&bytes[first..]);
        }
    }
    out.extend_from_slice(content);
    out
}

/// An INTEGER or ENUMERATED, not negative.
pub(super) fn number(tag: u8, value: u32) -> Vec<u8> {
    // A zero byte in front where the first bit would be the sign.
    let bytes = u64::from(value).to_be_bytes();
    let first = (0..7).find(|at| bytes[*at] != 0 || bytes[at + 1] >= 0x80).unwrap_or(7);
    element(tag, &bytes[first..])
}

/// How much of the element at the start of `bytes` is there.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Its end is not known yet.
    Unknown,
    /// Its length, header included; the bytes may not all be there.
    Known(usize),
    /// It is no element of LDAP.
    Malformed,
}

/// Finds the end of the element at the start of `bytes`.
pub(super) fn extent(bytes: &[u8]) -> Extent {
    match header(bytes) {
        Some(Some((header, length))) => header.checked_add(length).map_or(Extent::Malformed, Extent::Known),
        Some(None) => Extent::Malformed,
        None => Extent::Unknown,
    }
}

/// The lengths of header and content; `None` where bytes are missing, `Some(None)` where the header is malformed.
fn header(bytes: &[u8]) -> Option<Option<(usize, usize)>> {
    let (&tag, &first) = (bytes.first()?, bytes.get(1)?);
    // Tags of several bytes, and lengths that only the content's end tells.
    if tag & 0x1f == 0x1f || first == 0x80 {
        return Some(None);
    }
    if first < 0x80 {
        return Some(Some((2, usize::from(first))));
    }
    let count = usize::from(first & 0x7f);
    if count > 4 {
        return Some(None);
    }
    let length = bytes.get(2..2 + count)?.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
    Some(Some((2 + count, length)))
}

/// The elements in a sequence.
pub(super) struct Elements<'b>(pub(super) &'b [u8]);

impl<'b> Elements<'b> {
    /// The tag and content of the next element; `None` at the end and where it isn't whole.
    pub(super) fn next(&mut self) -> Option<(u8, &'b [u8])> {
        let (header, length) = header(self.0)??;
        let (element, rest) = self.0.split_at_checked(header.checked_add(length)?)?;
        self.0 = rest;
        Some((element[0], &element[header..]))
    }

    /// The content of the next element, if that has this tag.
    pub(super) fn take(&mut self, tag: u8) -> Option<&'b [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }

    /// The number that the next element is, if that has this tag and isn't negative.
    pub(super) fn number(&mut self, tag: u8) -> Option<u32> {
        let content = self.take(tag)?;
        if content.is_empty() || content.len() > 5 || content[0] >= 0x80 {
            return None;
        }
        u32::try_from(content.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte))).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for value in [0, 1, 127, 128, 255, 256, 0x7fff, 0x8000, 0x7fff_ffff, u32::MAX] {
            let written = number(2, value);
            assert_eq!(Elements(&written).number(2), Some(value), "{written:?}");
            assert_eq!(extent(&written), Extent::Known(written.len()));
        }
        for length in [0, 1, 127, 128, 255, 256, 70_000] {
            let written = element(4, &vec![7; length]);
            assert_eq!(Elements(&written).take(4).map(<[u8]>::len), Some(length));
            assert_eq!(extent(&written), Extent::Known(written.len()));
            for cut in 0..written.len().min(8) {
                assert!(matches!(extent(&written[..cut]), Extent::Unknown | Extent::Known(_)), "{cut}");
            }
            assert!(Elements(&written[..written.len() - 1]).next().is_none());
        }
    }

    #[test]
    fn lengths_that_lie_are_seen() {
        for (bytes, expected) in [
            (&[0x30, 0x80][..], Extent::Malformed),
            (&[0x30, 0x85, 1, 1, 1, 1, 1], Extent::Malformed),
            (&[0x1f, 1], Extent::Malformed),
            (&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff], Extent::Known(6 + 0xffff_ffff)),
            (&[0x30], Extent::Unknown),
            (&[0x30, 0x82, 1], Extent::Unknown),
        ] {
            assert_eq!(extent(bytes), expected, "{bytes:?}");
            assert!(Elements(bytes).next().is_none());
        }
        assert_eq!(Elements(&[2, 1, 0x80]).number(2), None, "negative");
        assert_eq!(Elements(&[2, 0]).number(2), None);
    }
}
