//! What both sides of a fetch share: the right to it, and how a kept response is sent.

use cache::{Entry, Fetch, Message};
use plugin::{Exchange, KeptResponse};
use std::sync::Arc;

/// The field that says what became of a request.
pub(super) const STATUS: &str = "Apisix-Cache-Status";

/// Whether the upstream gets credentials, by which it may answer.
pub(super) fn shows_credentials(exchange: &Exchange<'_>) -> bool {
    exchange.request.header(b"authorization").is_some()
}

/// Says in the response that it comes from here.
pub(super) fn say(exchange: &mut Exchange<'_>, status: &str, entry: &Entry, now_ms: u64) {
    exchange.reply_headers.set(STATUS, status);
    exchange.reply_headers.set_number("Age", entry.age_seconds(now_ms));
}

pub(super) fn kept(message: &Message) -> KeptResponse {
    KeptResponse { head: Arc::clone(&message.head), body: message.body.clone() }
}

/// The right to fetch, where there is one.
pub(super) type Right = Option<Fetch>;
