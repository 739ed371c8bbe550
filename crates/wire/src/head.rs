//! Fields on their way out: what a head is made of, whichever version of HTTP it is sent by.

use crate::Field;

/// Where the fields of a head are written: the text of HTTP/1.1 (`Vec<u8>`), or the field section of an HTTP/2 message
/// ([`crate::http2::FieldSection`]).
///
/// No name and no value can end a line. Names are [`FieldName`]s, or were parsed; values were parsed, or are
/// [`FieldValue`]s.
pub trait FieldSink {
    /// Adds a field whose value is made of `pieces`, in this order.
    fn joined<'p>(&mut self, name: FieldName, pieces: impl Iterator<Item = FieldValue<'p>>);

    /// Adds a field.
    #[inline]
    fn field(&mut self, name: FieldName, value: FieldValue<'_>) {
        self.joined(name, std::iter::once(value));
    }

    /// Adds a field whose value is a number.
    fn number(&mut self, name: FieldName, value: u64);

    /// Adds a field whose name and value are anybody's. Control characters of the value become spaces; a name that is no
    /// token (RFC 9110 section 5.6.2) could end the head, and its field is left out.
    fn any(&mut self, name: &str, value: &[u8]);

    /// Adds fields that were made before.
    fn lines(&mut self, lines: MadeLines<'_>);

    /// Adds those fields of a received head that `keeps` wants, in their order. `bytes` are the head's.
    fn relay(&mut self, bytes: &[u8], fields: &[Field], keeps: impl FnMut(&Field) -> bool);
}

/// The name of a field that the gateway writes: a token (RFC 9110 section 5.6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldName(&'static str);

impl FieldName {
    /// `Content-Length`
    pub const CONTENT_LENGTH: Self = Self::of("Content-Length: ");
    /// `Transfer-Encoding`
    pub const TRANSFER_ENCODING: Self = Self::of("Transfer-Encoding: ");
    /// `Connection`
    pub const CONNECTION: Self = Self::of("Connection: ");

    /// The name in `line`, which is `Name: `, as a line of HTTP/1.1 begins.
    ///
    /// # Panics
    /// Where that is not its form: a constant with another one does not compile.
    #[must_use]
    pub const fn of(line: &'static str) -> Self {
        let bytes = line.as_bytes();
        let Some(length) = bytes.len().checked_sub(2) else { panic!("a name, a colon and a space") };
        assert!(
            length > 0 && bytes[length] == b':' && bytes[length + 1] == b' ',
            "a name, a colon and a space"
        );
        let mut at = 0;
        while at < length {
            assert!(TOKEN_BYTES[bytes[at] as usize], "a token");
            at += 1;
        }
        Self(line)
    }

    /// The name alone.
    #[must_use]
    #[inline]
    pub fn as_str(self) -> &'static str {
        &self.0[..self.0.len() - 2]
    }

    /// The name with the colon and the space after it.
    #[must_use]
    #[inline]
    pub(crate) fn line(self) -> &'static [u8] {
        self.0.as_bytes()
    }
}

/// The value of a field, or a piece of one: no control byte but tabs (RFC 9110 section 5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldValue<'v>(&'v [u8]);

impl<'v> FieldValue<'v> {
    /// `chunked`
    pub const CHUNKED: FieldValue<'static> = FieldValue::of("chunked");

    /// A value that is written in the source.
    ///
    /// # Panics
    /// Where it has a control byte: a constant with one does not compile.
    #[must_use]
    pub const fn of(value: &'static str) -> FieldValue<'static> {
        let bytes = value.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            assert!(!is_control(bytes[at]), "a value without control bytes");
            at += 1;
        }
        FieldValue(bytes)
    }

    /// `bytes` as a value; `None` where they have a control byte.
    #[must_use]
    pub fn new(bytes: &'v [u8]) -> Option<Self> {
        (!bytes.iter().any(|byte| is_control(*byte))).then_some(Self(bytes))
    }

    /// A value that was parsed as a part of a head, an authority or a number, none of which holds a control byte. Checked
    /// only where debug assertions are on.
    #[must_use]
    #[inline]
    pub fn parsed(bytes: &'v [u8]) -> Self {
        debug_assert!(Self::new(bytes).is_some(), "control bytes in {}", bytes.escape_ascii());
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    #[inline]
    pub fn bytes(self) -> &'v [u8] {
        self.0
    }
}

/// Some of [`crate::FieldLines`].
#[derive(Debug, Clone, Copy)]
pub struct MadeLines<'l>(&'l [u8]);

impl<'l> MadeLines<'l> {
    /// `lines`, which are complete lines of fields.
    #[inline]
    pub(crate) fn of(lines: &'l [u8]) -> Self {
        Self(lines)
    }

    /// The text of the lines.
    #[must_use]
    #[inline]
    pub fn bytes(self) -> &'l [u8] {
        self.0
    }

    /// The names and values.
    pub fn fields(self) -> impl Iterator<Item = (&'l [u8], &'l [u8])> {
        Self::fields_of(self.0)
    }

    /// The names and values in `lines`.
    pub(crate) fn fields_of(lines: &'l [u8]) -> impl Iterator<Item = (&'l [u8], &'l [u8])> {
        lines.split(|byte| *byte == b'\n').filter_map(|line| {
            let colon = memchr::memchr(b':', line)?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        })
    }
}

/// `value` as [`FieldSink::any`] writes it.
pub(crate) fn push_clean(value: &[u8], out: &mut Vec<u8>) {
    if value.iter().any(|byte| is_control(*byte)) {
        out.extend(value.iter().map(|byte| if is_control(*byte) { b' ' } else { *byte }));
    } else {
        out.extend_from_slice(value);
    }
}

/// Whether `name` is a token.
pub(crate) fn is_token(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| TOKEN_BYTES[usize::from(*byte)])
}

const fn is_control(byte: u8) -> bool {
    (byte < b' ' && byte != b'\t') || byte == 0x7f
}

/// The bytes of a token (RFC 9110 section 5.6.2).
pub(crate) const TOKEN_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let allowed = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut at = 0;
    while at < allowed.len() {
        table[allowed[at] as usize] = true;
        at += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_checked_where_they_are_written() {
        const NAME: FieldName = FieldName::of("X-A: ");
        assert_eq!(NAME.as_str(), "X-A");
        assert_eq!(FieldValue::of("a b").bytes(), b"a b");
        assert!(FieldValue::new(b"a\tb\xff").is_some());
        for bytes in [&b"a\r"[..], b"\n", b"\0", b"\x7f"] {
            assert!(FieldValue::new(bytes).is_none());
        }
        for line in ["X-A", "X-A:", ": ", "X A: ", "X\r\nA: "] {
            assert!(std::panic::catch_unwind(|| FieldName::of(line)).is_err(), "{line:?}");
        }
    }
}
