//! Heads that came as HTTP/2, laid out in memory as ranges of one buffer.

use crate::field::Span;
use crate::{Field, Known};

/// The buffer that a head is laid out in: a first line, the fields as lines, an empty line. Heads of HTTP/1.1 have this
/// layout from the start, and whoever copies runs of fields relies on it; nobody parses it.
pub(super) struct Page<'b> {
    bytes: &'b mut [u8],
    filled: usize,
    limits: Limits,
}

/// How long a field's line may be, and how many fields there may be.
pub(super) struct Limits {
    pub(super) line: usize,
    pub(super) fields: usize,
}

/// What doesn't fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

impl<'b> Page<'b> {
    pub(super) fn new(bytes: &'b mut [u8], limits: Limits) -> Self {
        Self { bytes, filled: 0, limits }
    }

    /// How much of the buffer is filled.
    pub(super) fn filled(&self) -> usize {
        self.filled
    }

    /// What is filled.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    /// Adds `bytes`: where they are.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<Span, TooLarge> {
        let start = self.filled;
        let end = start + bytes.len();
        self.bytes.get_mut(start..end).ok_or(TooLarge)?.copy_from_slice(bytes);
        self.filled = end;
        Ok(Span::new(start, end))
    }

    /// Adds a field whose value is made of `pieces`, to `fields` as well.
    pub(super) fn field<'p>(
        &mut self,
        name: &[u8],
        pieces: impl Iterator<Item = &'p [u8]>,
        fields: &mut Vec<Field>,
    ) -> Result<Field, TooLarge> {
        if fields.len() == self.limits.fields {
            return Err(TooLarge);
        }
        let name = self.add(name)?;
        let start = self.add(b": ")?.end();
        for piece in pieces {
            self.add(piece)?;
        }
        let value = Span::new(start, self.filled);
        let line_end = self.add(b"\r\n")?.end();
        if line_end - name.start() > self.limits.line {
            return Err(TooLarge);
        }
        let known = Known::classify(name.get(self.bytes));
        let field = Field { name, value, line_end: line_end as u32, known };
        fields.push(field);
        Ok(field)
    }
}

/// Whether a field belongs to one connection of HTTP/1.1, and makes a message of HTTP/2 malformed (RFC 9113 section
/// 8.2.2).
pub(super) fn is_malformed(known: Known) -> bool {
    matches!(
        known,
        Known::Connection
            | Known::KeepAlive
            | Known::ProxyConnection
            | Known::TransferEncoding
            | Known::Upgrade
    )
}
