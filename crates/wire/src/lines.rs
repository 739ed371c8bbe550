//! Fields that are made before they are written.

use crate::head::is_token;
use crate::http1::push_decimal;
use crate::{FieldSink, FieldValue, MadeLines};

/// Fields that were made before they are written: complete lines, `Name: value` and CRLF, none of which can end early.
#[derive(Debug, Clone, Default)]
pub struct FieldLines(Vec<u8>);

impl FieldLines {
    /// Adds a field as [`FieldSink::any`] does. Returns whether there is a line for it.
    pub fn push(&mut self, name: &str, value: &[u8]) -> bool {
        let before = self.0.len();
        self.0.any(name, value);
        self.0.len() > before
    }

    /// Adds a field whose name is a token, and whose value a number.
    #[inline]
    pub fn push_number(&mut self, name: &str, value: u64) {
        debug_assert!(is_token(name.as_bytes()), "no name: {name:?}");
        let out = &mut self.0;
        out.reserve(name.len() + 24);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b": ");
        push_decimal(out, value);
        out.extend_from_slice(b"\r\n");
    }

    /// Adds lines that `write` appends as they are: for names that are checked when a plugin is compiled, and values
    /// that are numbers. Checked only where debug assertions are on.
    #[inline(always)]
    pub fn push_made<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let start = self.0.len();
        let made = write(&mut self.0);
        debug_assert!(is_lines(&self.0[start..]), "no lines: {}", self.0[start..].escape_ascii());
        made
    }

    /// All of them.
    #[must_use]
    #[inline]
    pub fn all(&self) -> MadeLines<'_> {
        MadeLines::of(&self.0)
    }

    /// The lines from `start` to `end`, which are ends of lines.
    #[must_use]
    #[inline]
    pub fn between(&self, start: usize, end: usize) -> MadeLines<'_> {
        MadeLines::of(&self.0[start..end])
    }

    /// How many bytes they are.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets all fields and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Whether `bytes` are complete lines of fields.
fn is_lines(bytes: &[u8]) -> bool {
    let sound = |line: &[u8]| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        is_token(name) && name.len() < line.len() && FieldValue::new(line).is_some()
    };
    match bytes.strip_suffix(b"\n") {
        Some(lines) => lines.split(|byte| *byte == b'\n').all(sound),
        None => bytes.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_lines_are_whole() {
        let mut lines = FieldLines::default();
        for (name, value, made) in [
            ("X-A", &b"1"[..], true),
            ("X-B", b"b\r\nX-Evil: 1\0\x7f\t\xe4", true),
            ("", b"1", false),
            ("X C", b"1", false),
            ("X-C\r\n", b"1", false),
            ("X-D", b"", true),
        ] {
            assert_eq!(lines.push(name, value), made, "{name:?}");
        }
        assert!(is_lines(lines.all().bytes()));
        let fields: Vec<_> = lines.all().fields().collect();
        let expected = [(&b"X-A"[..], &b"1"[..]), (b"X-B", b"b  X-Evil: 1  \t\xe4"), (b"X-D", b"")];
        assert_eq!(fields, expected);
        for (bytes, sound) in [
            (&b""[..], true),
            (b"A: b\r\n", true),
            (b"A: b\r\nC: d\r\n", true),
            (b"A: b", false),
            (b"A b\r\n", false),
            (b"A: b\r\n\r\n", false),
            (b"A : b\r\n", false),
            (b"A: b\rc\r\n", false),
        ] {
            assert_eq!(is_lines(bytes), sound, "{}", bytes.escape_ascii());
        }
    }
}
