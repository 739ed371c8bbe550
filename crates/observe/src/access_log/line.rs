//! A line in the making.
//!
//! A line is some thirty values and bits of text, most of them shorter than 16 bytes. Appending each to a growing buffer
//! takes more instructions than everything else: room is asked for, and a call made to copy three bytes. So a line is
//! written into room that is there already, in blocks of fixed size which may overlap. Where the room is too small
//! the line says so and is written again into more of it.

/// Text that stands in every line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Text {
    bytes: Box<[u8]>,
    /// Its bytes and zeros, where it is short: copied whole, of which the zeros are overwritten by what follows.
    block: Option<[u8; 16]>,
}

impl Text {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        let mut block = [0; 16];
        let short = block.get_mut(..bytes.len()).map(|room| room.copy_from_slice(&bytes)).is_some();
        Self { bytes: bytes.into(), block: short.then_some(block) }
    }
}

/// The room for a line, and how much of it is used.
pub(super) struct Line<'r> {
    room: &'r mut [u8],
    length: usize,
    overflown: bool,
}

impl<'r> Line<'r> {
    pub(super) fn new(room: &'r mut [u8]) -> Self {
        Self { room, length: 0, overflown: false }
    }

    /// The line's length; `None` where it did not fit.
    pub(super) fn finish(self) -> Option<usize> {
        (!self.overflown).then_some(self.length)
    }

    /// Appends text that was prepared.
    #[inline]
    pub(super) fn push_text(&mut self, text: &Text) {
        if let Some(block) = &text.block
            && let Some(room) = self.room.get_mut(self.length..).and_then(|room| room.first_chunk_mut())
        {
            *room = *block;
            self.length += text.bytes.len();
        } else {
            self.push(&text.bytes);
        }
    }

    /// Appends bytes.
    #[inline]
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        match self.room.get_mut(self.length..end) {
            Some(room) => {
                copy(room, bytes);
                self.length = end;
            }
            None => self.overflown = true,
        }
    }

    /// Appends a few bytes whose number is known.
    #[inline]
    pub(super) fn push_block<const N: usize>(&mut self, bytes: [u8; N]) {
        match self.room.get_mut(self.length..).and_then(|room| room.first_chunk_mut()) {
            Some(room) => {
                *room = bytes;
                self.length += N;
            }
            None => self.overflown = true,
        }
    }

    /// Appends a number in decimal.
    #[inline]
    pub(super) fn push_number(&mut self, number: u64) {
        self.push(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Appends a status in three digits, as nginx does: `000` where there is none.
    #[inline]
    pub(super) fn push_status(&mut self, status: u16) {
        self.push_block(three_digits(status));
    }

    /// Appends seconds with milliseconds: `0.005`.
    #[inline]
    pub(super) fn push_seconds(&mut self, seconds: u64, ms: u16) {
        let [a, b, c] = three_digits(ms);
        if seconds < 10 {
            // Nearly all requests.
            self.push_block([b'0' + seconds as u8, b'.', a, b, c]);
        } else {
            self.push_number(seconds);
            self.push_block([b'.', a, b, c]);
        }
    }

    /// Appends 32 hexadecimal digits.
    #[inline(never)]
    pub(super) fn push_hex(&mut self, number: u128) {
        let mut digits = [0; 32];
        for (pair, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(number.to_be_bytes()) {
            *pair = HEX[usize::from(byte)];
        }
        self.push_block(digits);
    }
}

/// Copies between slices of one length; short ones by their first and last bytes.
#[inline]
fn copy(to: &mut [u8], from: &[u8]) {
    match from.len() {
        0 => {}
        1..4 => {
            // First, middle and last are all there is.
            let (middle, last) = (from.len() / 2, from.len() - 1);
            (to[0], to[middle], to[last]) = (from[0], from[middle], from[last]);
        }
        4..8 => ends::<4>(to, from),
        8..16 => ends::<8>(to, from),
        16..=32 => ends::<16>(to, from),
        _ => to.copy_from_slice(from),
    }
}

#[inline]
fn ends<const N: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) {
        if let Some(to) = to.first_chunk_mut() {
            *to = *first;
        }
        if let Some(to) = to.last_chunk_mut() {
            *to = *last;
        }
    }
}

/// A byte's two digits.
const HEX: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    pairs
};

/// The last three decimal digits.
#[inline]
fn three_digits(number: u16) -> [u8; 3] {
    let digit = |number: u16| b'0' + (number % 10) as u8;
    [digit(number / 100), digit(number / 10), digit(number)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Line<'_>)) -> Vec<u8> {
        let mut room = [b'.'; 200];
        let mut line = Line::new(&mut room);
        write(&mut line);
        let length = line.finish().expect("room enough");
        room[..length].to_vec()
    }

    #[test]
    fn bytes_of_every_length_arrive() {
        let bytes: Vec<u8> = (0..100).collect();
        for end in 0..bytes.len() {
            let out = written(|line| {
                line.push_text(&Text::new(b"before".to_vec()));
                line.push(&bytes[..end]);
            });
            assert_eq!(out, [b"before", &bytes[..end]].concat(), "{end}");
        }
    }

    #[test]
    fn numbers_are_written_as_nginx_does() {
        let text =
            |write: &dyn Fn(&mut Line<'_>)| String::from_utf8(written(|line| write(line))).expect("ascii");
        assert_eq!(text(&|line| line.push_seconds(0, 5)), "0.005");
        assert_eq!(text(&|line| line.push_seconds(1_793_620_800, 250)), "1793620800.250");
        assert_eq!(text(&|line| line.push_status(0)), "000");
        assert_eq!(text(&|line| line.push_hex(0xab << 120 | 1)), format!("{:032x}", 0xab_u128 << 120 | 1));
    }

    #[test]
    fn a_line_without_room_says_so() {
        for (room, fits) in [(7, true), (6, false), (0, false)] {
            let mut room = vec![0; room];
            let mut line = Line::new(&mut room);
            line.push_text(&Text::new(b"abcd".to_vec()));
            line.push_status(200);
            assert_eq!(line.finish().is_some(), fits);
        }
    }
}
