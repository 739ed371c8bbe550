//! What is wrong with a transaction, and the refusals that say so.

use crate::{Admin, AdminResponse};
use serde_json::{Value, json};

/// Most mistakes that a refusal lists.
const FAULTS_MAX: usize = 1000;

/// What is wrong with a transaction, by JSON pointer into its body.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<(String, String)>);

impl Faults {
    /// One more.
    pub(crate) fn push(&mut self, path: impl Into<String>, message: impl Into<String>) {
        if self.0.len() < FAULTS_MAX {
            self.0.push((path.into(), message.into()));
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// All of them, each with its pointer.
    pub(crate) fn into_list(self) -> Vec<(String, String)> {
        self.0
    }

    /// The refusal, if there are any.
    pub(crate) fn verdict(&self) -> Result<(), AdminResponse> {
        let Some((path, message)) = self.0.first() else { return Ok(()) };
        let errors: Vec<Value> =
            self.0.iter().map(|(path, message)| json!({ "path": path, "message": message })).collect();
        let body = json!({ "error_msg": format!("{path}: {message}"), "errors": errors });
        Err(AdminResponse::json(400, &body))
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
