//! What became of each directive.

use document::{Diagnostic, Position, codes};
use serde_json::Value;
use std::fmt;
use std::path::PathBuf;

/// What became of one directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It stands in the translation.
    Taken,
    /// Tidegate does so anyway, or better.
    Equivalent,
    /// It has no counterpart, and nothing is lost without it.
    Ignored,
    /// It can't be translated: what it asks for won't happen. Said with the reason.
    Refused,
}

/// A directive's verdict, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The file it stands in.
    pub file: PathBuf,
    /// Its line, from 1.
    pub line: u32,
    /// Its column, from 1.
    pub column: u32,
    /// The directive with its arguments, as written.
    pub directive: String,
    /// What became of it.
    pub verdict: Verdict,
    /// Into what it was translated, or why it was not.
    pub reason: String,
}

/// A configuration, translated.
#[derive(Clone, Default)]
pub struct Translation {
    /// What belongs in `config.yaml`.
    pub config: Value,
    /// The resources: `{"routes": [...], "ssls": [...], ...}`, as in a standalone file.
    pub resources: Value,
    /// A verdict for each directive, in the order of the files.
    pub notes: Vec<Note>,
}

impl fmt::Debug for Translation {
    /// Without settings and resources, which hold private keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Translation").field("notes", &self.notes).finish_non_exhaustive()
    }
}

impl Note {
    /// Returns the warning about a directive that was refused; `None` for any other.
    #[must_use]
    pub fn diagnostic(&self) -> Option<Diagnostic> {
        let at = Position { line: self.line, column: self.column };
        let message = format!("{}: {}", self.directive, self.reason);
        let warning = Diagnostic::warning(codes::NGINX_REFUSED, message);
        (self.verdict == Verdict::Refused).then(|| warning.file(self.file.to_string_lossy()).at(at))
    }
}

impl Translation {
    /// What was refused.
    pub fn refusals(&self) -> impl Iterator<Item = &Note> {
        self.notes.iter().filter(|note| note.verdict == Verdict::Refused)
    }
}

impl Verdict {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Equivalent => "equivalent",
            Self::Ignored => "ignored",
            Self::Refused => "refused",
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, verdict) = (self.file.display(), self.verdict.as_str());
        write!(f, "{file}:{}:{}: {verdict}: {}", self.line, self.column, self.directive)?;
        if self.reason.is_empty() { Ok(()) } else { write!(f, ": {}", self.reason) }
    }
}
