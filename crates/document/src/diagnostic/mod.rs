//! What is wrong with a configuration: one type for every file and every command.
//!
//! A [`Diagnostic`] has a severity, a stable [`Code`], a place, a message and usually a hint. The place is a file with
//! line and column, a path within the document, or both. [`Found`] collects diagnostics while a document is read, a
//! [`Report`] is a finished list of them, and [`Style`] renders them: as text, as JSON and in APISIX's words.

pub mod codes;
mod page;
mod render;

pub use codes::Code;
pub use page::reference_page;
pub use render::{Style, apisix_errors, apisix_line};

use std::cell::RefCell;
use std::sync::Arc;

use crate::Position;

/// Whether the configuration may be used all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The configuration, or the resource, is refused.
    Error,
    /// It is accepted and most likely a mistake.
    Warning,
}

impl Severity {
    /// The name in text and in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// What kind of mistake it is; [`reference_page`] explains it.
    pub code: Code,
    /// The file as the operator named it; `None` for a value that is in no file, or whose reader doesn't know the file.
    pub file: Option<Arc<str>>,
    /// The position in the file; `None` for the file as a whole, or without a file.
    pub at: Option<Position>,
    /// The store key of the resource, such as `/routes/1`; empty for a document without resources.
    pub resource: String,
    /// In a resource a JSON pointer, such as `/upstream/nodes`; in `config.yaml` the path of the key, such as
    /// `apisix.node_listen[1].port`. Empty for the whole.
    pub path: String,
    /// What is wrong and what is expected.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The answer of APISIX's Admin API, if its words differ from `message`.
    pub apisix: Option<Box<str>>,
}

impl Diagnostic {
    /// Returns an error without a place.
    pub fn error(code: Code, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            code,
            file: None,
            at: None,
            resource: String::new(),
            path: String::new(),
            message: message.into(),
            hint: None,
            apisix: None,
        }
    }

    /// Returns a warning without a place.
    pub fn warning(code: Code, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, message) }
    }

    /// Sets the position.
    #[must_use]
    pub fn at(self, at: impl Into<Option<Position>>) -> Self {
        Self { at: at.into(), ..self }
    }

    /// Sets the path within the document or resource.
    #[must_use]
    pub fn path(self, path: impl Into<String>) -> Self {
        Self { path: path.into(), ..self }
    }

    /// Sets the resource by its store key.
    #[must_use]
    pub fn resource(self, key: impl Into<String>) -> Self {
        Self { resource: key.into(), ..self }
    }

    /// Sets the file.
    #[must_use]
    pub fn file(self, file: impl Into<Arc<str>>) -> Self {
        Self { file: Some(file.into()), ..self }
    }

    /// Sets the advice.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// Collects diagnostics while the sections of one document are read side by side.
#[derive(Debug, Default)]
pub struct Found(RefCell<Vec<Diagnostic>>);

impl Found {
    /// Keeps a diagnostic; one that two readers of a value have is kept once.
    pub fn add(&self, diagnostic: Diagnostic) {
        let mut found = self.0.borrow_mut();
        if !found.contains(&diagnostic) {
            found.push(diagnostic);
        }
    }

    /// Returns whether nothing was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Returns all diagnostics in the order of the document; those without a position come first.
    #[must_use]
    pub fn into_sorted(self) -> Vec<Diagnostic> {
        let mut diagnostics = self.0.into_inner();
        diagnostics.sort_by_key(|diagnostic| diagnostic.at);
        diagnostics
    }
}

/// The diagnostics of a check, in the order in which they are shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The diagnostics.
    pub diagnostics: Vec<Diagnostic>,
}

impl Report {
    /// Returns the report of one file: `file` becomes the file of each diagnostic that has none.
    #[must_use]
    pub fn of_file(file: &str, mut diagnostics: Vec<Diagnostic>) -> Self {
        let file: Arc<str> = file.into();
        for diagnostic in &mut diagnostics {
            diagnostic.file.get_or_insert_with(|| Arc::clone(&file));
        }
        Self { diagnostics }
    }

    /// Returns whether there are no diagnostics.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.diagnostics.is_empty()
    }

    /// Returns the number of errors.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.count(Severity::Error)
    }

    /// Returns the number of warnings.
    #[must_use]
    pub fn warnings(&self) -> usize {
        self.count(Severity::Warning)
    }

    fn count(&self, severity: Severity) -> usize {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count()
    }
}

impl std::error::Error for Report {}
