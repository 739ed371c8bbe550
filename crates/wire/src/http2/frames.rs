//! The frames of one direction of a connection (RFC 9113 section 4.1), told apart by their heads alone.

/// Length of a frame's head.
const HEAD: usize = 9;

/// A client's connection preface (RFC 9113 section 3.4), which precedes its first frame.
pub const PREFACE: usize = 24;

/// A frame's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead {
    /// Length of the payload.
    pub length: u32,
    /// Frame type.
    pub kind: u8,
    /// Flags.
    pub flags: u8,
}

/// Frame types (RFC 9113 section 6).
impl FrameHead {
    /// DATA.
    pub const DATA: u8 = 0;
    /// HEADERS.
    pub const HEADERS: u8 = 1;
    /// The flag of DATA that ends a stream.
    const END_STREAM: u8 = 1;
    /// The flag of DATA that carries padding.
    const PADDED: u8 = 8;
    /// A padded payload up to this length may be nothing but padding.
    const PADDING_MAX: u32 = 256;

    /// Returns whether the frame carries bytes of a body, or its end.
    #[must_use]
    pub fn has_data(self) -> bool {
        let floor = if self.flags & Self::PADDED == 0 { 0 } else { Self::PADDING_MAX };
        self.kind == Self::DATA && (self.length > floor || self.flags & Self::END_STREAM != 0)
    }
}

/// Finds the heads of frames in a stream of bytes that comes in pieces. Payloads are skipped by their length, so a byte
/// of DATA costs nothing.
#[derive(Debug, Clone)]
pub struct FrameScanner {
    /// The part of a head that has come.
    head: [u8; HEAD],
    filled: usize,
    /// Bytes to skip before the next head.
    skip: usize,
}

impl FrameScanner {
    /// A scanner of a stream whose first frame comes after `skip` bytes.
    #[must_use]
    pub fn new(skip: usize) -> Self {
        Self { head: [0; HEAD], filled: 0, skip }
    }

    /// Takes in the next piece of the stream, and calls `found` for each head that is complete with it.
    pub fn scan(&mut self, mut bytes: &[u8], mut found: impl FnMut(FrameHead)) {
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return;
            }
            let count = (HEAD - self.filled).min(bytes.len());
            self.head[self.filled..self.filled + count].copy_from_slice(&bytes[..count]);
            self.filled += count;
            bytes = &bytes[count..];
            if self.filled < HEAD {
                return;
            }
            self.filled = 0;
            let [high, middle, low, kind, flags, ..] = self.head;
            let length = u32::from_be_bytes([0, high, middle, low]);
            self.skip = length as usize;
            found(FrameHead { length, kind, flags });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(length: u8, kind: u8, flags: u8) -> Vec<u8> {
        [&[0, 0, length, kind, flags, 0, 0, 0, 1], &vec![0xff; usize::from(length)][..]].concat()
    }

    #[test]
    fn frames_are_found_however_the_bytes_are_cut() {
        let frames = [(3, 4, 0), (0, 0, 1), (200, 0, 0), (8, 6, 1), (0, 1, 5), (4, 99, 0)];
        let wire: Vec<u8> = [vec![b'P'; PREFACE]]
            .into_iter()
            .chain(frames.map(|(length, kind, flags)| frame(length, kind, flags)))
            .flatten()
            .collect();
        let expected = frames.map(|(length, kind, flags)| FrameHead { length: length.into(), kind, flags });
        for step in 1..=wire.len() {
            let (mut scanner, mut found) = (FrameScanner::new(PREFACE), Vec::new());
            for piece in wire.chunks(step) {
                scanner.scan(piece, |head| found.push(head));
            }
            assert_eq!(found, expected, "in pieces of {step}");
        }
    }

    #[test]
    fn data_that_carries_nothing_is_told_from_data() {
        for (length, kind, flags, expected) in [
            (0, 0, 0, false),
            (0, 0, 1, true),
            (1, 0, 0, true),
            (256, 0, 8, false),
            (257, 0, 8, true),
            (1, 0, 9, true),
            (5, 4, 0, false),
        ] {
            assert_eq!(FrameHead { length, kind, flags }.has_data(), expected, "{length} {kind} {flags}");
        }
    }
}
