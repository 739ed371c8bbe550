//! What is wrong with a configuration file: where, what, and what to do about it.

use std::cell::RefCell;
use std::fmt;

pub(crate) use document::Position;

/// Whether the gateway may start all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The start is refused.
    Error,
    /// The gateway starts; the operator should know.
    Warning,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Error or warning.
    pub severity: Severity,
    /// Where it stands; `None` where the file as a whole is meant, or an environment variable of the process.
    pub at: Option<Position>,
    /// The key's path, such as `apisix.node_listen[1].port`; empty for the whole document.
    pub path: String,
    /// What is wrong and what is expected.
    pub message: String,
    /// What the operator can do.
    pub hint: Option<String>,
}

impl Problem {
    /// An error at a place.
    pub fn error(at: Option<Position>, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, at, path: path.into(), message: message.into(), hint: None }
    }

    /// A warning at a place.
    pub fn warning(at: Option<Position>, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(at, path, message) }
    }

    /// The same with advice.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<document::Error> for Problem {
    fn from(error: document::Error) -> Self {
        let hint = Some(error.hint).filter(|hint| !hint.is_empty());
        Self { hint, ..Self::error(error.at, "", error.message) }
    }
}

/// Collects findings while sections of one file are read side by side.
#[derive(Debug, Default)]
pub struct Problems {
    found: RefCell<Vec<Problem>>,
    /// The paths that were asked for, `[]` in place of indices.
    #[cfg(test)]
    pub(super) asked: RefCell<std::collections::BTreeSet<String>>,
}

impl Problems {
    /// Keeps a finding; one that two readers of a value have is kept once.
    pub fn add(&self, problem: Problem) {
        let mut found = self.found.borrow_mut();
        if !found.contains(&problem) {
            found.push(problem);
        }
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// All findings, in the order of the file; those without a place come first.
    pub fn into_sorted(self) -> Vec<Problem> {
        let mut problems = self.found.into_inner();
        problems.sort_by_key(|problem| problem.at);
        problems
    }
}

/// The findings of one file, ready to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The file as the operator named it.
    pub file: String,
    /// In the order of the file.
    pub problems: Vec<Problem>,
}

impl Report {
    /// How many errors there are.
    pub fn errors(&self) -> usize {
        self.problems.iter().filter(|problem| problem.severity == Severity::Error).count()
    }

    /// Each finding with its file, place and hint, for a log whose entries are lines.
    pub fn entries(&self) -> impl Iterator<Item = String> + '_ {
        self.problems.iter().map(|problem| {
            let mut entry = String::new();
            let written = write_problem(&mut entry, &self.file, problem, "; hint: ");
            debug_assert!(written.is_ok(), "a String takes everything");
            entry
        })
    }
}

/// `file:line:column: path: message`, and below it the hint, for each finding.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write_problem(f, &self.file, problem, "\n  hint: ")?;
        }
        Ok(())
    }
}

fn write_problem(out: &mut impl fmt::Write, file: &str, problem: &Problem, hint_mark: &str) -> fmt::Result {
    out.write_str(file)?;
    if let Some(Position { line, column }) = problem.at {
        write!(out, ":{line}:{column}")?;
    }
    out.write_str(if problem.severity == Severity::Warning { ": warning: " } else { ": " })?;
    if !problem.path.is_empty() {
        write!(out, "{}: ", problem.path)?;
    }
    out.write_str(&problem.message)?;
    if let Some(hint) = &problem.hint {
        write!(out, "{hint_mark}{hint}")?;
    }
    Ok(())
}

impl std::error::Error for Report {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_file_line_column_path_and_hint() {
        let problems = Problems::default();
        problems.add(Problem::warning(Some(Position { line: 3, column: 5 }), "apisix.nod", "unknown key"));
        problems.add(Problem::error(None, "", "no such file").hint("create it"));
        let report = Report { file: "conf/config.yaml".into(), problems: problems.into_sorted() };
        assert_eq!(
            report.to_string(),
            "conf/config.yaml: no such file\n  hint: create it\n\
             conf/config.yaml:3:5: warning: apisix.nod: unknown key"
        );
        assert_eq!(report.errors(), 1);
        assert_eq!(
            report.entries().next().as_deref(),
            Some("conf/config.yaml: no such file; hint: create it")
        );
    }
}
