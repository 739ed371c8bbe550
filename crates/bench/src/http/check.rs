//! Whether a body is the expected one.

use ring::digest::{Context, SHA256};

/// What every body must be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BodyCheck {
    /// Its length in bytes.
    pub length: Option<u64>,
    /// Its SHA-256.
    pub sha256: Option<[u8; 32]>,
}

/// The check of one body, as its bytes come.
#[derive(Clone)]
pub(super) struct Checking {
    length: u64,
    context: Option<Context>,
}

impl BodyCheck {
    /// The 32 bytes that 64 hexadecimal digits stand for.
    #[must_use]
    pub fn parse_sha256(text: &str) -> Option<[u8; 32]> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok()?;
        }
        Some(bytes)
    }

    pub(super) fn begin(&self) -> Checking {
        Checking { length: 0, context: self.sha256.map(|_| Context::new(&SHA256)) }
    }
}

impl Checking {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        if let Some(context) = &mut self.context {
            context.update(bytes);
        }
    }

    /// What is wrong with the complete body, if anything.
    pub(super) fn finish(self, expected: &BodyCheck) -> Option<String> {
        if let Some(length) = expected.length.filter(|length| *length != self.length) {
            return Some(format!("a body had {} bytes instead of {length}", self.length));
        }
        let digest = self.context?.finish();
        let differs = expected.sha256.is_some_and(|sha256| digest.as_ref() != sha256);
        differs.then(|| format!("a body of {} bytes had another SHA-256 than the expected one", self.length))
    }
}

impl std::fmt::Debug for Checking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checking").field("length", &self.length).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_and_hash_are_compared() {
        let hello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        let sha256 = BodyCheck::parse_sha256(hello);
        assert!(sha256.is_some());
        for (length, sha256, body, wrong) in [
            (Some(5), sha256, &b"hello"[..], None),
            (Some(4), sha256, b"hello", Some("5 bytes instead of 4")),
            (None, sha256, b"hellO", Some("SHA-256")),
            (Some(5), None, b"hellO", None),
        ] {
            let check = BodyCheck { length, sha256 };
            let mut checking = check.begin();
            body.chunks(2).for_each(|part| checking.add(part));
            let found = checking.finish(&check);
            assert_eq!(found.is_some(), wrong.is_some(), "{found:?}");
            assert!(found.unwrap_or_default().contains(wrong.unwrap_or_default()));
        }
        for text in ["", "2cf2", &"x".repeat(64), &"ü".repeat(32)] {
            assert_eq!(BodyCheck::parse_sha256(text), None);
        }
    }
}
