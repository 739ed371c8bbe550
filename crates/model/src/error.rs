//! What is wrong with a configuration, and where.

use std::fmt;

/// One mistake in a configuration. Validation collects them all; nothing stops at the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// JSON pointer (RFC 6901) to the value that is wrong; empty for the whole document.
    pub path: String,
    /// What is wrong and what is expected, one sentence without the path.
    pub message: String,
}

impl ConfigError {
    /// A mistake at `path`.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }

    /// The same mistake seen from a document in which this one stands at `prefix` (a JSON pointer).
    #[must_use]
    pub fn under(mut self, prefix: &str) -> Self {
        self.path.insert_str(0, prefix);
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

impl std::error::Error for ConfigError {}
