//! The body of a transaction, taken apart.

use super::faults::Faults;
use crate::http::body::raw_body;
use crate::http::identity::text_of;
use crate::http::json::parse;
use crate::http::target::Target;
use crate::{Admin, AdminRequest, AdminResponse};
use model::Kind;
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::time::Duration;
use store::limits::TTL_MAX;

/// What is done to a resource.
#[derive(Debug)]
pub(crate) enum Action {
    /// Written whole.
    Put(Value),
    /// A part merged into it.
    Patch(Value),
    /// Removed; with `force` even where others refer to it.
    Delete { force: bool },
}

/// One operation.
#[derive(Debug)]
pub(crate) struct Operation {
    /// The store key.
    pub key: String,
    /// What is done.
    pub action: Action,
    /// What `modifiedIndex` must be before; 0 where there must be no such resource.
    pub expected: Option<u64>,
    /// After which time it deletes itself.
    pub ttl: Option<Duration>,
}

/// A transaction as it was asked for.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// By their place in the body; `None` for what could not be read.
    pub operations: Vec<Option<Operation>>,
    /// Keys that are not written, and what their `modifiedIndex` must be.
    pub preconditions: Vec<(String, u64)>,
}

impl Operation {
    /// The name of the action in bodies.
    pub(crate) fn verb(&self) -> &'static str {
        match self.action {
            Action::Put(_) => "put",
            Action::Patch(_) => "patch",
            Action::Delete { .. } => "delete",
        }
    }
}

/// Reads the body; what is wrong with single operations goes to `faults`.
pub(crate) fn read(
    admin: &Admin,
    request: &AdminRequest,
    faults: &mut Faults,
) -> Result<Asked, AdminResponse> {
    let refuse = |message: String| AdminResponse::error(400, message);
    let body = raw_body(admin, request)?.unwrap_or_default();
    let body = parse(body).map_err(|error| refuse(format!("invalid request body: {error}")))?;
    let Value::Object(mut body) = body else {
        return Err(refuse("invalid request body: an object is expected".to_owned()));
    };
    let mut asked = Asked::default();
    let list = |value: Option<Value>| match value {
        Some(Value::Array(items)) => Some(items),
        Some(Value::Object(fields)) if fields.is_empty() => Some(Vec::new()),
        None => Some(Vec::new()),
        Some(_) => None,
    };
    let wrong = |name: &str| refuse(format!("invalid request body: {name} should be a list"));
    let operations = list(body.shift_remove("operations")).ok_or_else(|| wrong("operations"))?;
    let preconditions = list(body.shift_remove("preconditions")).ok_or_else(|| wrong("preconditions"))?;
    for name in body.keys() {
        faults.push(format!("/{name}"), "unknown field: there are operations and preconditions");
    }
    let mut seen = HashSet::new();
    for (at, item) in operations.into_iter().enumerate() {
        let place = format!("/operations/{at}");
        let operation = operation(admin, item, &place, faults);
        if let Some(operation) = &operation
            && !seen.insert(operation.key.clone())
        {
            faults.push(format!("{place}/key"), format!("{} stands twice in the transaction", operation.key));
        }
        asked.operations.push(operation);
    }
    for (at, item) in preconditions.iter().enumerate() {
        let place = format!("/preconditions/{at}");
        let key = item.get("key").and_then(Value::as_str).and_then(|key| key_of(admin, key));
        match (key, index(item.get("modifiedIndex"))) {
            (Some(key), Some(index)) => asked.preconditions.push((key, index)),
            (None, _) => faults.push(format!("{place}/key"), "should be a resource's key, such as /routes/1"),
            (_, None) => faults.push(format!("{place}/modifiedIndex"), INDEX),
        }
    }
    Ok(asked)
}

const INDEX: &str =
    "should be the modifiedIndex that a read has shown, or 0 where there is to be no such resource";

fn operation(admin: &Admin, item: Value, place: &str, faults: &mut Faults) -> Option<Operation> {
    let Value::Object(mut item) = item else {
        faults.push(place, "should be an object");
        return None;
    };
    let before = faults.len();
    let key = item.shift_remove("key").as_ref().and_then(Value::as_str).and_then(|key| key_of(admin, key));
    if key.is_none() {
        faults.push(format!("{place}/key"), "should be a resource's key, such as /routes/1");
    }
    let action = action(&mut item, place, faults);
    let expected = item.shift_remove("modifiedIndex");
    let expected_index = index(expected.as_ref());
    if expected.is_some() && expected_index.is_none() {
        faults.push(format!("{place}/modifiedIndex"), INDEX);
    }
    let ttl = ttl(item.shift_remove("ttl"), place, faults);
    for name in item.keys() {
        faults.push(format!("{place}/{name}"), "unknown field");
    }
    let (key, action) = (key?, action?);
    if let Some(target) = Target::of_key(&key) {
        let method = match action {
            Action::Patch(_) => "PATCH",
            _ => "PUT",
        };
        if !target.offers(method) {
            let message = format!("not supported `{method}` method for {}", target.kind.noun());
            faults.push(format!("{place}/op"), message);
        }
        if target.kind == Kind::StreamRoute && !admin.settings.streams {
            faults.push(format!("{place}/key"), "stream mode is disabled, can not add stream routes");
        }
    }
    (faults.len() == before).then_some(Operation { key, action, expected: expected_index, ttl })
}

fn action(item: &mut Map<String, Value>, place: &str, faults: &mut Faults) -> Option<Action> {
    let value = item.shift_remove("value");
    let force = item.shift_remove("force");
    let verb = item.shift_remove("op");
    match (verb.as_ref().and_then(Value::as_str), value) {
        (Some("put"), Some(value)) => Some(Action::Put(value)),
        (Some("patch"), Some(value)) => Some(Action::Patch(value)),
        (Some("delete"), None) => Some(Action::Delete { force: force == Some(Value::Bool(true)) }),
        (Some("delete"), Some(_)) => {
            faults.push(format!("{place}/value"), "a deletion has no value");
            None
        }
        (Some("put" | "patch"), None) => {
            faults.push(format!("{place}/value"), "missing configurations");
            None
        }
        _ => {
            faults.push(format!("{place}/op"), "should be put, patch or delete");
            None
        }
    }
}

fn ttl(value: Option<Value>, place: &str, faults: &mut Faults) -> Option<Duration> {
    let value = value?;
    let seconds = value.as_u64().filter(|seconds| (1..=TTL_MAX.as_secs()).contains(seconds));
    if seconds.is_none() {
        faults.push(format!("{place}/ttl"), format!("should be between 1 and {} seconds", TTL_MAX.as_secs()));
    }
    seconds.map(Duration::from_secs)
}

/// Numbers also as text, since 2^53 bounds those of many clients.
fn index(value: Option<&Value>) -> Option<u64> {
    value.and_then(|value| value.as_u64().or_else(|| text_of(value).parse().ok()))
}

/// A store key, also as answers show it: with the prefix.
pub(crate) fn key_of(admin: &Admin, key: &str) -> Option<String> {
    let key =
        key.strip_prefix(admin.settings.prefix.as_str()).filter(|key| key.starts_with('/')).unwrap_or(key);
    Kind::parse_key(key).map(|_| key.to_owned())
}
