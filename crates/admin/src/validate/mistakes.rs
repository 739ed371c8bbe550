//! All that is wrong with a resource, and the one line of it that APISIX would answer.

use crate::AdminResponse;
use model::ConfigError;
use model::schema::{MISTAKES, Report};
use serde_json::{Value, json};

/// Mistakes in the order in which APISIX looks, the first of them in its words.
#[derive(Debug, Default)]
pub(crate) struct Mistakes {
    first: Option<String>,
    errors: Vec<ConfigError>,
}

impl Mistakes {
    /// One mistake that is worded the same in both.
    pub(crate) fn push(&mut self, path: impl Into<String>, message: impl Into<String>) {
        let message = message.into();
        self.push_as(message.clone(), vec![ConfigError::new(path, message)]);
    }

    /// Mistakes that APISIX would answer as `first`.
    pub(crate) fn push_as(&mut self, first: impl Into<String>, errors: Vec<ConfigError>) {
        self.first.get_or_insert_with(|| first.into());
        let room = MISTAKES.saturating_sub(self.errors.len());
        self.errors.extend(errors.into_iter().take(room));
    }

    /// What a schema said, with words before its first line.
    pub(crate) fn report(&mut self, before: &str, report: Report) {
        if let Some(first) = report.first {
            self.push_as(format!("{before}{first}"), report.errors);
        }
    }

    /// The fields that nobody knows, where that is a mistake.
    pub(crate) fn unknown(&mut self, fields: &[String]) {
        for field in fields {
            self.push_as(format!("unknown field {field}"), vec![ConfigError::new(field, "unknown field")]);
        }
    }

    /// Whether there are any.
    pub(crate) fn any(&self) -> bool {
        self.first.is_some()
    }

    /// All of them, each with its place in the resource.
    pub(crate) fn errors(&self) -> &[ConfigError] {
        &self.errors
    }

    /// The line that APISIX would answer.
    pub(crate) fn line(&self) -> &str {
        self.first.as_deref().unwrap_or_default()
    }

    /// The refusal: APISIX's `error_msg`, and with `all` also `errors` with the place of each mistake. Clients compare
    /// the body with APISIX's, so that the list is for those who ask.
    pub(crate) fn refusal(&self, all: bool) -> AdminResponse {
        if !all {
            return AdminResponse::error(400, self.line());
        }
        AdminResponse::json(400, &json!({ "error_msg": self.line(), "errors": self.listed("") }))
    }

    /// Each mistake with its place, seen from a document in which the resource stands at `prefix`.
    pub(crate) fn listed(&self, prefix: &str) -> Vec<Value> {
        let shown = |error: &ConfigError| json!({ "path": format!("{prefix}{}", error.path), "message": error.message });
        self.errors.iter().map(shown).collect()
    }
}
