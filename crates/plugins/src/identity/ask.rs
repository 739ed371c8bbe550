//! Calls to identity servers, whole: within a time, and with an answer of a bounded size.

use super::encode_args;
use futures_util::future::{Either, select};
use plugin::{BadCall, Call, CallBody, CallError, CallErrorKind, CallTimeouts, Endpoint, Fields, Services};
use serde_json::Value;
use std::rc::Rc;

/// Bytes of an answer that are read: tokens, claims and keys, not documents.
pub(crate) const ANSWER_MAX: usize = 1024 * 1024;

/// Characters of an answer that the log shows.
const SHOWN_MAX: usize = 200;

/// Sends `call` to `endpoint` and reads the answer: its status, its fields and its body. The whole takes no longer than
/// all of the call's timeouts together, however slowly the answer drips.
pub(crate) async fn ask(
    services: &Rc<dyn Services>,
    endpoint: &Endpoint,
    call: Call,
) -> Result<(u16, Fields, Vec<u8>), CallError> {
    let CallTimeouts { connect, send, read } = call.timeouts;
    let late = services.sleep(connect.saturating_add(send).saturating_add(read));
    let answer = services.call(&endpoint.upstream, call);
    let whole = Box::pin(async move { answer.await?.collect(ANSWER_MAX).await });
    match select(whole, late).await {
        Either::Left((answer, _)) => answer,
        Either::Right(((), _)) => {
            Err(CallError { kind: CallErrorKind::Timeout, reason: "the answer took too long" })
        }
    }
}

/// As [`ask`], for an answer in JSON: `None` where it is something else.
pub(crate) async fn ask_json(
    services: &Rc<dyn Services>,
    endpoint: &Endpoint,
    call: Call,
) -> Result<(u16, Option<Value>), CallError> {
    let (status, _, body) = ask(services, endpoint, call).await?;
    Ok((status, serde_json::from_slice(&body).ok()))
}

/// A POST of an encoded form to `endpoint`.
pub(crate) fn post_form<V: AsRef<[u8]>>(
    endpoint: &Endpoint,
    pairs: &[(&str, V)],
    timeouts: CallTimeouts,
) -> Result<Call, BadCall> {
    let mut call = Call::new("POST", endpoint.authority.as_str(), endpoint.target.as_str(), timeouts)?;
    call.headers.set("Content-Type", "application/x-www-form-urlencoded");
    call.body = CallBody::Bytes(encode_args(pairs).into());
    Ok(call)
}

/// A POST of a JSON document to `target` at `endpoint`.
pub(crate) fn post_json(
    endpoint: &Endpoint,
    target: &str,
    body: &Value,
    timeouts: CallTimeouts,
) -> Result<Call, BadCall> {
    let mut call = Call::new("POST", endpoint.authority.as_str(), target, timeouts)?;
    call.headers.set("Content-Type", "application/json");
    call.body = CallBody::Bytes(body.to_string().into());
    Ok(call)
}

/// The start of a text, for the log.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
