//! What a rule finds.

use serde_json::{Value, json};

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Requests fail, or will.
    Error,
    /// It does not do what it looks like.
    Warning,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule's name.
    pub rule: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// The store key of the resource, `/routes/1`, or `config.yaml`.
    pub key: String,
    /// A JSON pointer into it; empty for all of it.
    pub path: String,
    /// What is so.
    pub message: String,
    /// What to do about it.
    pub advice: String,
}

impl Severity {
    /// The name in answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

impl Finding {
    /// As answers have it; `prefix` goes before the key.
    #[must_use]
    pub fn to_json(&self, prefix: &str) -> Value {
        let Self { rule, severity, key, path, message, advice } = self;
        let prefix = if key.starts_with('/') { prefix } else { "" };
        json!({
            "rule": rule, "severity": severity.as_str(), "key": format!("{prefix}{key}"), "path": path,
            "message": message, "advice": advice,
        })
    }
}
