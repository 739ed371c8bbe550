//! Writing heads: runs of header lines are copied as they stand, those that end here are left out.

use crate::{Field, Known};

/// Copies header lines from one head into another, line by line where it must and run by run where it can.
///
/// Lines of a head stand without gaps, so lines kept side by side are one `memcpy`.
#[derive(Debug)]
pub struct Lines<'b, 'o> {
    bytes: &'b [u8],
    out: &'o mut Vec<u8>,
    /// Start of the run not yet copied; equal to `run_end` when there is none.
    run_start: usize,
    run_end: usize,
}

impl<'b, 'o> Lines<'b, 'o> {
    /// Copies from `bytes` to the end of `out`.
    pub fn new(bytes: &'b [u8], out: &'o mut Vec<u8>) -> Self {
        Self { bytes, out, run_start: 0, run_end: 0 }
    }

    /// Keeps `field`'s line.
    #[inline]
    pub fn keep(&mut self, field: &Field) {
        let start = field.name.start();
        if start != self.run_end {
            self.flush();
            self.run_start = start;
        }
        self.run_end = field.line_end as usize;
    }

    /// Copies what is kept so far; called at the end.
    #[inline]
    pub fn flush(&mut self) {
        self.out.extend_from_slice(self.bytes.get(self.run_start..self.run_end).unwrap_or_default());
        self.run_start = self.run_end;
    }
}

impl Known {
    /// Fields that concern one connection only and are never relayed (RFC 9110 section 7.6.1). `Transfer-Encoding` and
    /// `Content-Length` are among them because the relay frames the body itself, and their look-alikes because the next
    /// recipient may take them for these: requests with such a field are refused, responses lose it. nginx and HAProxy pass
    /// it on; RFC 9110 section 5.1 lets a proxy block fields.
    #[must_use]
    #[inline]
    pub fn is_hop_by_hop(self) -> bool {
        matches!(
            self,
            Self::Connection
                | Self::KeepAlive
                | Self::ProxyConnection
                | Self::Te
                | Self::Upgrade
                | Self::Expect
                | Self::TransferEncoding
                | Self::ContentLength
                | Self::FramingAlias
        )
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

/// Appends the size line of a chunk of `length` bytes; the caller appends the data and a CRLF. A length of 0 would end
/// the body and is not for this.
pub fn chunk_head(out: &mut Vec<u8>, length: usize) {
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
}
