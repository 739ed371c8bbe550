//! The three forms of diagnostics: text, JSON, and the line that APISIX's Admin API answers.

use std::fmt::{self, Write as _};
use std::io::IsTerminal;

use serde_json::{Value, json};

use super::{Code, Diagnostic, Report, Severity, codes};
use crate::Position;

/// How diagnostics are written as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    /// Whether severity, code and hint have the colours of ECMA-48.
    pub colour: bool,
}

const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[1;33m";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

impl Style {
    /// Returns the style for a stream: with colours if it is a terminal and `NO_COLOR` (<https://no-color.org>) is unset
    /// or empty.
    #[must_use]
    pub fn of(stream: &impl IsTerminal) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colour: stream.is_terminal() && !refused }
    }

    /// Writes a report, a diagnostic after the other, without a line end behind the last.
    #[must_use]
    pub fn text(self, report: &Report) -> String {
        let blocks: Vec<String> =
            report.diagnostics.iter().map(|diagnostic| self.one(diagnostic, "\n  hint: ")).collect();
        blocks.join("\n")
    }

    /// `FILE:LINE:COLUMN: error: PATH: message [CODE]`, and the hint behind `mark`.
    fn one(self, diagnostic: &Diagnostic, mark: &str) -> String {
        let paint = |colour: &'static str| if self.colour { colour } else { "" };
        let reset = paint(RESET);
        let mut out = String::new();
        let severity_colour = match diagnostic.severity {
            Severity::Error => paint(RED),
            Severity::Warning => paint(YELLOW),
        };
        let place = diagnostic.place();
        if !place.is_empty() {
            let _ = write!(out, "{}{place}:{reset} ", paint(BOLD));
        }
        let _ = write!(out, "{severity_colour}{}:{reset} ", diagnostic.severity.as_str());
        let Diagnostic { resource, path, message, .. } = diagnostic;
        if !resource.is_empty() || !path.is_empty() {
            let _ = write!(out, "{resource}{path}: ");
        }
        let _ = write!(out, "{message} {}[{}]{reset}", paint(DIM), diagnostic.code);
        if let Some(hint) = &diagnostic.hint {
            let _ = write!(out, "{mark}{hint}");
        }
        out
    }
}

impl Diagnostic {
    /// Returns `FILE:LINE:COLUMN`, as much of it as is known.
    #[must_use]
    pub fn place(&self) -> String {
        match (&self.file, self.at) {
            (Some(file), Some(at)) => format!("{file}:{at}"),
            (Some(file), None) => file.to_string(),
            (None, Some(at)) => at.to_string(),
            (None, None) => String::new(),
        }
    }

    fn from_json(value: &Value) -> Self {
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| value[name].as_u64().and_then(|number| u32::try_from(number).ok());
        Self {
            severity: if value["severity"] == "error" { Severity::Error } else { Severity::Warning },
            code: Code::parse(&text("code")).unwrap_or(codes::INVALID_RESOURCE),
            file: value["file"].as_str().map(Into::into),
            at: number("line").zip(number("column")).map(|(line, column)| Position { line, column }),
            resource: text("key"),
            path: text("path"),
            message: text("message"),
            hint: value["hint"].as_str().map(str::to_owned),
            apisix: None,
        }
    }

    /// Returns the diagnostic as one JSON object. Members without a value are null.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        json!({
            "severity": self.severity.as_str(),
            "code": self.code.to_string(),
            "rule": self.code.name(),
            "file": self.file.as_deref(),
            "line": self.at.map(|at| at.line),
            "column": self.at.map(|at| at.column),
            "key": text(&self.resource),
            "path": self.path,
            "message": self.message,
            "hint": self.hint,
        })
    }
}

impl Report {
    /// Reads what [`Self::to_json`] wrote. Members that are missing, as those of another version may be, are left empty.
    #[must_use]
    pub fn from_json(value: &Value) -> Self {
        let list = value["list"].as_array().into_iter().flatten();
        Self { diagnostics: list.map(Diagnostic::from_json).collect() }
    }

    /// Returns the numbers in words: `2 errors, 1 warning`.
    #[must_use]
    pub fn summary(&self) -> String {
        let count = |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
        let errors = count(self.errors(), "error");
        match self.warnings() {
            0 => errors,
            warnings => format!("{errors}, {}", count(warnings, "warning")),
        }
    }

    /// Returns `{"errors": N, "warnings": N, "list": [...]}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let list: Vec<Value> = self.diagnostics.iter().map(Diagnostic::to_json).collect();
        json!({ "errors": self.errors(), "warnings": self.warnings(), "list": list })
    }

    /// Returns each diagnostic on one line, for a log.
    pub fn entries(&self) -> impl Iterator<Item = String> + '_ {
        self.diagnostics.iter().map(|diagnostic| Style::default().one(diagnostic, "; hint: "))
    }
}

/// Returns the `error_msg` of APISIX's Admin API: the first diagnostic in its words.
#[must_use]
pub fn apisix_line(diagnostics: &[Diagnostic]) -> &str {
    diagnostics.first().map_or("", |first| first.apisix.as_deref().unwrap_or(&first.message))
}

/// Returns the `errors` that Tidegate adds to an answer of APISIX's Admin API: path, message and code of each. `prefix` is
/// the JSON pointer to the resource in the request's body.
#[must_use]
pub fn apisix_errors(diagnostics: &[Diagnostic], prefix: &str) -> Vec<Value> {
    let shown = |diagnostic: &Diagnostic| {
        let Diagnostic { path, message, code, .. } = diagnostic;
        json!({ "path": format!("{prefix}{path}"), "message": message, "code": code.to_string() })
    };
    diagnostics.iter().map(shown).collect()
}

/// The text without colours.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Style::default().text(self))
    }
}

/// The text on one line, without colours.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Style::default().one(self, "; hint: "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Found;
    use super::*;

    fn report() -> Report {
        let found = Found::default();
        let at = Position { line: 3, column: 5 };
        found.add(Diagnostic::warning(codes::UNKNOWN_KEY, "unknown key").at(at).path("apisix.nod"));
        found.add(Diagnostic::error(codes::UNREADABLE_FILE, "no such file").hint("create it"));
        // Two readers of a value find the same.
        found.add(Diagnostic::error(codes::UNREADABLE_FILE, "no such file").hint("create it"));
        Report::of_file("conf/config.yaml", found.into_sorted())
    }

    #[test]
    fn text_has_file_line_column_severity_path_code_and_hint() {
        let report = report();
        assert_eq!(
            report.to_string(),
            "conf/config.yaml: error: no such file [TG0101]\n  hint: create it\n\
             conf/config.yaml:3:5: warning: apisix.nod: unknown key [TG0201]"
        );
        assert_eq!((report.errors(), report.warnings()), (1, 1));
        let entries: Vec<String> = report.entries().collect();
        assert_eq!(entries[0], "conf/config.yaml: error: no such file [TG0101]; hint: create it");
    }

    #[test]
    fn colours_change_nothing_but_the_colours() {
        let (plain, coloured) = (Style::default().text(&report()), Style { colour: true }.text(&report()));
        assert!(coloured.contains("\x1b[1;31merror:\x1b[0m") && coloured.contains("\x1b[1;33mwarning:"));
        let mut bare = coloured;
        for code in [RED, YELLOW, BOLD, DIM, RESET] {
            bare = bare.replace(code, "");
        }
        assert_eq!(bare, plain);
    }

    #[test]
    fn json_has_every_member() {
        let json = report().to_json();
        assert_eq!((&json["errors"], &json["warnings"]), (&1.into(), &1.into()));
        let expected = json!({
            "severity": "warning", "code": "TG0201", "rule": "unknown-key", "file": "conf/config.yaml", "line": 3,
            "column": 5, "key": null, "path": "apisix.nod", "message": "unknown key", "hint": null,
        });
        assert_eq!(json["list"][1], expected);
        assert_eq!(Report::from_json(&json), report());
        assert_eq!(report().summary(), "1 error, 1 warning");
    }

    #[test]
    fn apisix_hears_the_first_mistake_in_its_own_words() {
        assert_eq!(apisix_line(&[]), "");
        let own = Diagnostic::error(codes::INVALID_RESOURCE, "expected an integer");
        let theirs = Diagnostic { apisix: Some("wrong type".into()), ..own.clone() };
        assert_eq!(apisix_line(&[own.clone(), theirs.clone()]), "expected an integer");
        assert_eq!(apisix_line(&[theirs, own.clone()]), "wrong type");
        let expected = json!([{ "path": "/value/uri", "message": "expected an integer", "code": "TG0305" }]);
        assert_eq!(json!(apisix_errors(&[own.path("/uri")], "/value")), expected);
    }
}
