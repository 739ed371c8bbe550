//! What is wrong with a transaction, and the refusals that say so.

use crate::{Admin, AdminResponse};
use document::diagnostic::apisix_errors;
use document::{Diagnostic, codes};
use serde_json::json;

/// Most mistakes that a refusal lists.
const FAULTS_MAX: usize = 1000;

/// What is wrong with a transaction. The paths are JSON pointers into its body.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<Diagnostic>);

impl Faults {
    /// Adds an error.
    pub(crate) fn push(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.extend([Diagnostic::error(codes::INVALID_RESOURCE, message).path(path)]);
    }

    /// Adds errors, up to the limit.
    pub(crate) fn extend(&mut self, errors: impl IntoIterator<Item = Diagnostic>) {
        let room = FAULTS_MAX.saturating_sub(self.0.len());
        self.0.extend(errors.into_iter().take(room));
    }

    /// Returns how many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns all of them.
    pub(crate) fn into_list(self) -> Vec<Diagnostic> {
        self.0
    }

    /// Returns the refusal, if there are any.
    pub(crate) fn verdict(&self) -> Result<(), AdminResponse> {
        let Some(Diagnostic { path, message, .. }) = self.0.first() else { return Ok(()) };
        let errors = apisix_errors(&self.0, "");
        Err(AdminResponse::json(400, &json!({ "error_msg": format!("{path}: {message}"), "errors": errors })))
    }
}

/// The refusal of a precondition that does not hold.
pub(crate) fn conflict(admin: &Admin, place: &str, key: &str, current: u64) -> AdminResponse {
    let index = place.rsplit('/').next().and_then(|index| index.parse::<usize>().ok());
    let message = match current {
        0 => format!("{key} does not exist"),
        _ => format!("{key} was changed: its modifiedIndex is {current}"),
    };
    let key = format!("{}{key}", admin.settings.prefix);
    AdminResponse::json(
        409,
        &json!({ "error_msg": message, "path": place, "index": index, "key": key, "modifiedIndex": current }),
    )
}
