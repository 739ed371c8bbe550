//! CRC-32 as in Ethernet and zip (polynomial 0xEDB88320, reflected), with the running state in the open: the ring of
//! `chash` continues one state many times.

/// The state before the first byte.
const START: u32 = u32::MAX;

const TABLE: [u32; 256] = table();

/// The checksum of `bytes`.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    State::new().feed(bytes).finish()
}

/// A checksum under way.
#[derive(Clone, Copy)]
pub(crate) struct State(u32);

impl State {
    pub(crate) fn new() -> Self {
        Self(START)
    }

    pub(crate) fn feed(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |crc, &byte| TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8)))
    }

    /// The checksum of what was fed so far.
    pub(crate) fn finish(self) -> u32 {
        !self.0
    }
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_published_check_value() {
        assert_eq!(checksum(b""), 0);
        assert_eq!(checksum(b"123456789"), 0xcbf4_3926);
        assert_eq!(State::new().feed(b"1234").feed(b"56789").finish(), 0xcbf4_3926);
    }
}
