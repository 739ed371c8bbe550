//! Limits that plugins set for one exchange, and those of the configuration that hold otherwise.

use plugin::{Exchange, ExchangeLimits};
use snapshot::Timeouts;
use std::borrow::Cow;
use std::time::Duration;

#[inline]
fn of<'x>(exchange: &'x Exchange<'_>) -> Option<&'x ExchangeLimits> {
    exchange.extras.as_ref().map(|extras| &extras.limits)
}

/// The largest request body that a plugin allows; `None` where none says anything about it.
#[inline]
pub(super) fn body_bytes_max(exchange: &Exchange<'_>) -> Option<u64> {
    let limit_bytes = of(exchange)?.body_bytes_max?;
    Some(if limit_bytes == 0 { u64::MAX } else { limit_bytes })
}

/// The time between two reads of the request's body.
pub(super) fn body_timeout(configured: Duration, exchange: &Exchange<'_>) -> Duration {
    of(exchange).and_then(|limits| limits.body_timeout).unwrap_or(configured)
}

/// The times of an upstream. Copied only where a plugin changes some of them.
#[inline]
pub(super) fn timeouts<'t>(exchange: &Exchange<'_>, configured: &'t Timeouts) -> Cow<'t, Timeouts> {
    match of(exchange) {
        None => Cow::Borrowed(configured),
        Some(limits) => Cow::Owned(Timeouts {
            connect: limits.connect_timeout.unwrap_or(configured.connect),
            send: limits.send_timeout.unwrap_or(configured.send),
            read: limits.read_timeout.unwrap_or(configured.read),
        }),
    }
}
