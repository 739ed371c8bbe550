//! Where entries go.

/// What takes a batch. It may wait: it is asked on a thread that does nothing else.
pub trait Destination: Send + Sync + 'static {
    /// Hands a batch over.
    ///
    /// # Errors
    /// Why it could not be; the batch may be tried again.
    fn send(&self, entries: &[Vec<u8>]) -> Result<(), String>;

    /// How many batches may be handed over at the same time.
    fn at_once(&self) -> usize {
        crate::limits::IN_FLIGHT_MAX
    }
}

/// What becomes of the entries of a batch, each of which is JSON or text by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// A JSON array.
    Array,
    /// Lines, the last one without an end.
    Lines,
    /// One after the other, as they are.
    Plain,
}

impl Framing {
    /// The bytes of a batch.
    #[must_use]
    pub fn join(self, entries: &[Vec<u8>]) -> Vec<u8> {
        match self {
            Self::Array => [b"[", &entries.join(&b","[..])[..], b"]"].concat(),
            Self::Lines => entries.join(&b"\n"[..]),
            Self::Plain => entries.concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_framed() {
        let entries = [b"1".to_vec(), b"2".to_vec()];
        for (framing, expected) in
            [(Framing::Array, &b"[1,2]"[..]), (Framing::Lines, b"1\n2"), (Framing::Plain, b"12")]
        {
            assert_eq!(framing.join(&entries), expected);
        }
    }
}
