//! All that is wrong with a resource, and the one line of it that APISIX would answer.

use crate::AdminResponse;
use document::diagnostic::{apisix_errors, apisix_line};
use document::{Diagnostic, codes};
use model::ConfigError;
use model::schema::{MISTAKES, Report};
use serde_json::{Value, json};

/// Errors in the order in which APISIX looks, the first of them with its words; and warnings.
#[derive(Debug, Default)]
pub(crate) struct Mistakes {
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
}

impl Mistakes {
    /// Adds an error that has the same words in both.
    pub(crate) fn push(&mut self, path: impl Into<String>, message: impl Into<String>) {
        if self.errors.len() < MISTAKES {
            self.errors.push(Diagnostic::error(codes::INVALID_RESOURCE, message).path(path));
        }
    }

    /// Adds errors that APISIX would answer as `first`.
    pub(crate) fn push_as(&mut self, first: impl Into<String>, errors: Vec<ConfigError>) {
        let (first, from) = (first.into(), self.errors.len());
        if errors.is_empty() {
            self.push("", first);
            return;
        }
        for ConfigError { path, message } in errors {
            self.push(path, message);
        }
        if let Some(diagnostic) = self.errors.get_mut(from) {
            diagnostic.apisix = Some(first.into());
        }
    }

    /// Adds the errors of a schema, with words before APISIX's line.
    pub(crate) fn report(&mut self, before: &str, report: Report) {
        if let Some(first) = report.first {
            self.push_as(format!("{before}{first}"), report.errors);
        }
    }

    /// Adds fields that no schema knows, where that is an error.
    pub(crate) fn unknown(&mut self, fields: &[String]) {
        for field in fields.iter().take(MISTAKES.saturating_sub(self.errors.len())) {
            let error = Diagnostic::error(codes::UNKNOWN_FIELD, "unknown field").path(field);
            self.errors.push(Diagnostic { apisix: Some(format!("unknown field {field}").into()), ..error });
        }
    }

    /// Returns whether there are errors.
    pub(crate) fn any(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Adds a warning: the resource is accepted.
    pub(crate) fn warn(&mut self, warning: Diagnostic) {
        self.warnings.push(warning);
    }

    /// Returns the warnings, each with its path in the resource.
    pub(crate) fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// Returns the errors, each with its path in the resource.
    pub(crate) fn into_errors(self) -> Vec<Diagnostic> {
        self.errors
    }

    /// Returns errors and warnings, each with its path in the resource.
    pub(crate) fn into_diagnostics(self) -> impl Iterator<Item = Diagnostic> {
        self.errors.into_iter().chain(self.warnings)
    }

    /// Returns the line that APISIX would answer.
    pub(crate) fn line(&self) -> &str {
        apisix_line(&self.errors)
    }

    /// Returns the refusal: APISIX's `error_msg`, and with `all` also `errors` with the path of each error. Clients
    /// compare the body with APISIX's, so the list is only for those who ask.
    pub(crate) fn refusal(&self, all: bool) -> AdminResponse {
        if !all {
            return AdminResponse::error(400, self.line());
        }
        AdminResponse::json(400, &json!({ "error_msg": self.line(), "errors": self.listed("") }))
    }

    /// Returns each error with its path, seen from a document that has the resource at `prefix`.
    pub(crate) fn listed(&self, prefix: &str) -> Vec<Value> {
        apisix_errors(&self.errors, prefix)
    }
}
