//! What the store holds and this process can't use: values that others wrote, or that were valid for another version.

use super::Control;
use crate::AdminResponse;
use serde_json::{Value, json};
use snapshot::Problem;

/// All problems, in the order of keys.
pub(super) fn all(control: &Control) -> AdminResponse {
    let shown: Vec<Value> = control.status.problems().iter().map(|problem| show(control, problem)).collect();
    AdminResponse::json(200, &json!({ "total": shown.len(), "list": shown }))
}

fn show(control: &Control, problem: &Problem) -> Value {
    let errors = problem.errors.iter();
    json!({
        "key": control.shown_key(&problem.key),
        "place": problem.place,
        "in_use": if problem.earlier_in_use { "an earlier version" } else { "nothing" },
        "errors": errors.map(|error| json!({ "path": error.path, "message": error.message })).collect::<Value>(),
    })
}
