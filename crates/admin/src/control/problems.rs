//! What the store holds and this process can't use: values that others wrote, or that were valid for another version.

use super::Control;
use crate::AdminResponse;
use serde_json::{Value, json};
use snapshot::Problem;
use store::Health;

/// All problems, in the order of keys.
pub(super) fn all(control: &Control) -> AdminResponse {
    let mut shown: Vec<Value> = source(control).into_iter().collect();
    shown.extend(control.status.problems().iter().map(|problem| show(control, problem)));
    AdminResponse::json(200, &json!({ "total": shown.len(), "list": shown }))
}

/// The config source, where its contents are rejected, or its file is not where it was.
fn source(control: &Control) -> Option<Value> {
    let (revision, message) = match &*control.source.as_ref()?.borrow() {
        Health::Rejected(rejection) => {
            (Some(rejection.serving.revision), format!("the config source is rejected: {}", rejection.reason))
        }
        Health::Detached { reason, .. } => (None, format!("the configuration store: {reason}")),
        _ => return None,
    };
    Some(json!({
        "key": "config_source",
        "place": null,
        "revision_in_use": revision,
        "in_use": "an earlier version",
        "errors": [{ "path": "", "message": message }],
    }))
}

fn show(control: &Control, problem: &Problem) -> Value {
    let errors = problem.errors.iter();
    json!({
        "key": control.shown_key(&problem.key),
        "place": problem.place,
        "revision_in_use": problem.revision_in_use,
        "in_use": if problem.earlier_in_use { "an earlier version" } else { "nothing" },
        "errors": errors.map(|error| json!({ "path": error.path, "message": error.message })).collect::<Value>(),
    })
}
