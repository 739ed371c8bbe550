//! Changes to a head's fields, kept apart from the head until it is written.

use wire::{FieldLines, FieldSink};

/// Fields to add to a head and names to drop from it. One buffer, reused from exchange to exchange: setting a field
/// allocates nothing once the buffer has grown.
#[derive(Debug, Clone, Default)]
pub struct HeaderEdits {
    /// The lines of fields to be added; of those to be dropped, lines without a value.
    lines: FieldLines,
    ops: Vec<Op>,
    /// The lengths of the names whose fields are to be dropped.
    dropped_lengths: NameLengths,
    /// Whether `lines` has more than what is to be written: removals, lines overruled.
    gaps: bool,
}

/// A set of lengths of field names, modulo 32: most names of a head are cleared by one look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NameLengths(u32);

#[derive(Debug, Clone, Copy)]
struct Op {
    kind: Kind,
    /// Of the line in `lines`.
    start: usize,
    name_len: usize,
    end: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The field replaces all of its name.
    Set,
    /// The field is added to those of its name.
    Append,
    /// All fields of the name are dropped.
    Remove,
    /// Overruled by a later edit.
    Void,
}

impl HeaderEdits {
    /// Replaces all fields called `name` by one. A byte that no field value may hold becomes a space, and a field whose
    /// name is no token is left out: see [`FieldSink::any`].
    pub fn set(&mut self, name: &str, value: impl AsRef<[u8]>) {
        self.push(Kind::Set, name, value.as_ref());
    }

    /// As [`Self::set`] with a number.
    #[inline]
    pub fn set_number(&mut self, name: &str, value: u64) {
        self.void(name.as_bytes());
        let start = self.lines.len();
        self.lines.push_number(name, value);
        self.dropped_lengths.add(name.len());
        self.ops.push(Op { kind: Kind::Set, start, name_len: name.len(), end: self.lines.len() });
    }

    /// Replaces all fields of several names, which differ from each other, by one each. `write` appends complete lines
    /// (`Name: value` and CRLF) in the order of the names and says where each one ends in what it appended to.
    #[inline(always)]
    pub fn set_lines<const N: usize>(
        &mut self,
        names: [&str; N],
        write: impl FnOnce(&mut Vec<u8>) -> [usize; N],
    ) {
        if !self.ops.is_empty() {
            names.iter().for_each(|name| self.void(name.as_bytes()));
        }
        let mut start = self.lines.len();
        let ends = self.lines.push_made(write);
        self.ops.extend(std::array::from_fn::<_, N, _>(|at| {
            let (name_len, end) = (names[at].len(), ends[at]);
            self.dropped_lengths.add(name_len);
            debug_assert!((start + name_len..=self.lines.len()).contains(&end), "the end of a line");
            Op { kind: Kind::Set, start: std::mem::replace(&mut start, end), name_len, end }
        }));
    }

    /// Adds a field beside those of its name. Bytes as in [`Self::set`].
    pub fn append(&mut self, name: &str, value: impl AsRef<[u8]>) {
        self.push(Kind::Append, name, value.as_ref());
    }

    /// Drops all fields called `name`.
    pub fn remove(&mut self, name: &str) {
        self.void(name.as_bytes());
        let start = self.lines.len();
        if !self.lines.push(name, b"") {
            // No field can have such a name.
            return;
        }
        self.dropped_lengths.add(name.len());
        self.gaps = true;
        self.ops.push(Op { kind: Kind::Remove, start, name_len: name.len(), end: self.lines.len() });
    }

    /// The value that the first edit gives `name`: `Some(None)` where it is removed, `None` where no edit speaks of it.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<Option<&[u8]>> {
        let op = self.ops.iter().find(|op| op.kind != Kind::Void && self.is(op, name))?;
        Some((op.kind != Kind::Remove).then(|| &self.line(op)[op.name_len + 2..]))
    }

    /// The names and values of the fields to be added.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let adds = self.ops.iter().filter(|op| matches!(op.kind, Kind::Set | Kind::Append));
        adds.map(|op| {
            let line = self.line(op);
            (&line[..op.name_len], &line[op.name_len + 2..])
        })
    }

    /// Whether there is nothing to do.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// The lengths that the names of fields to be dropped have: what isn't among them needs no look by [`Self::drops`].
    #[must_use]
    #[inline]
    pub fn dropped_lengths(&self) -> NameLengths {
        self.dropped_lengths
    }

    /// Whether the head's own fields called `name` are to be dropped.
    #[must_use]
    #[inline]
    pub fn drops(&self, name: &[u8]) -> bool {
        self.dropped_lengths.has(name.len())
            && self.ops.iter().any(|op| op.name_len == name.len() && self.drops_by(op, name))
    }

    /// Whether a client's field called `name` is to be dropped from a request: one that is to be replaced or removed, also
    /// where the client spelled it with underscores for hyphens. CGI, WSGI and Rack turn both into one name, so that
    /// `X_Consumer_Username` would stand beside the gateway's own `X-Consumer-Username`.
    #[must_use]
    #[inline]
    pub fn drops_spelled(&self, name: &[u8]) -> bool {
        self.dropped_lengths.has(name.len()) && self.ops.iter().any(|op| self.drops_op_spelled(op, name))
    }

    /// Writes the fields to be added.
    pub fn write(&self, out: &mut impl FieldSink) {
        if !self.gaps {
            return out.lines(self.lines.all());
        }
        for op in &self.ops {
            if matches!(op.kind, Kind::Set | Kind::Append) {
                out.lines(self.lines.between(op.start, op.end));
            }
        }
    }

    /// Forgets all edits and keeps the buffers.
    #[inline]
    pub fn clear(&mut self) {
        self.lines.clear();
        self.ops.clear();
        self.dropped_lengths = NameLengths::default();
        self.gaps = false;
    }

    fn drops_by(&self, op: &Op, name: &[u8]) -> bool {
        matches!(op.kind, Kind::Set | Kind::Remove) && self.is(op, name)
    }

    fn drops_op_spelled(&self, op: &Op, name: &[u8]) -> bool {
        let own = &self.line(op)[..op.name_len];
        let same =
            |(own, byte): (&u8, &u8)| own.eq_ignore_ascii_case(byte) || (*own == b'-' && *byte == b'_');
        matches!(op.kind, Kind::Set | Kind::Remove)
            && op.name_len == name.len()
            && own.iter().zip(name).all(same)
    }

    fn is(&self, op: &Op, name: &[u8]) -> bool {
        op.name_len == name.len() && self.line(op)[..op.name_len].eq_ignore_ascii_case(name)
    }

    /// The line of `op` without its end.
    #[inline]
    fn line(&self, op: &Op) -> &[u8] {
        &self.lines.all().bytes()[op.start..op.end - 2]
    }

    /// Overrules earlier edits of `name`.
    fn void(&mut self, name: &[u8]) {
        for at in 0..self.ops.len() {
            if self.is(&self.ops[at], name) {
                self.ops[at].kind = Kind::Void;
                self.gaps = true;
            }
        }
    }

    fn push(&mut self, kind: Kind, name: &str, value: &[u8]) {
        if kind == Kind::Set {
            self.void(name.as_bytes());
        }
        let start = self.lines.len();
        if !self.lines.push(name, value) {
            return;
        }
        if kind == Kind::Set {
            self.dropped_lengths.add(name.len());
        }
        self.ops.push(Op { kind, start, name_len: name.len(), end: self.lines.len() });
    }
}

impl NameLengths {
    /// All lengths.
    pub const ALL: Self = Self(u32::MAX);

    /// Whether `length` may be in the set.
    #[must_use]
    #[inline]
    pub fn has(self, length: usize) -> bool {
        self.0 & Self::bit(length) != 0
    }

    #[inline]
    fn add(&mut self, length: usize) {
        self.0 |= Self::bit(length);
    }

    #[inline]
    fn bit(length: usize) -> u32 {
        1 << (length % 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_edits_overrule_and_values_cannot_break_lines() {
        let mut edits = HeaderEdits::default();
        edits.set("X-A", "1");
        edits.append("X-B", "b1");
        edits.set_number("x-a", 2);
        edits.append("X-B", "b2\r\nX-Evil: 1");
        edits.remove("Server");
        let mut out = Vec::new();
        edits.write(&mut out);
        assert_eq!(String::from_utf8(out).expect("ascii"), "X-B: b1\r\nx-a: 2\r\nX-B: b2  X-Evil: 1\r\n");
        assert_eq!(edits.get(b"X-A"), Some(Some(&b"2"[..])));
        assert_eq!(edits.get(b"server"), Some(None));
        assert_eq!(edits.get(b"x-none"), None);
        edits.set_lines(["X-B", "X-C"], |lines| {
            lines.extend_from_slice(b"X-B: 3\r\n");
            let first = lines.len();
            lines.extend_from_slice(b"X-C: 4\r\n");
            [first, lines.len()]
        });
        assert_eq!(edits.get(b"x-b"), Some(Some(&b"3"[..])));
        assert_eq!(edits.get(b"x-c"), Some(Some(&b"4"[..])));
        assert!(edits.drops(b"X-a") && edits.drops(b"server") && edits.drops(b"x-b"));
    }

    #[test]
    fn fields_that_could_end_a_head_are_cleaned_or_left_out() {
        let mut edits = HeaderEdits::default();
        for name in ["", "X Y", "X:", "X\r\nY", "X\0"] {
            edits.set(name, "1");
            edits.append(name, "1");
        }
        assert!(edits.is_empty());
        edits.set("X-A", b"\x01a\tb\x0bc\x7f\xe4\0\r\n");
        let mut out = Vec::new();
        edits.write(&mut out);
        assert_eq!(out, b"X-A:  a\tb c \xe4   \r\n");
    }

    #[test]
    fn underscores_for_hyphens_are_the_same_name_in_requests() {
        let mut edits = HeaderEdits::default();
        edits.set("X-Tenant-Id", "1");
        edits.set("snake_case", "1");
        edits.append("X-Added", "1");
        for (name, dropped) in [
            ("x-tenant-id", true),
            ("X_Tenant_ID", true),
            ("x-tenant_id", true),
            ("snake_case", true),
            ("snake-case", false),
            ("X_Added", false),
            ("X_Tenant_I", false),
        ] {
            assert_eq!(edits.drops_spelled(name.as_bytes()), dropped, "{name}");
        }
    }
}
