//! Upstreams whose nodes a service has, before anything was heard of the service: requests wait for it, a little.

use crate::timer::TimeLimit;
use snapshot::{Discovered, Upstream};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// The upstream with its nodes; `None` where nothing was heard of them before `limit` was over.
pub(crate) async fn form(discovered: &Discovered, limit: TimeLimit<'_>) -> Option<Arc<Upstream>> {
    match discovered.form() {
        Some(form) => Some(form),
        // Rare, and large: not part of every connection's state.
        None => Box::pin(first_form(discovered, limit)).await,
    }
}

async fn first_form(discovered: &Discovered, mut limit: TimeLimit<'_>) -> Option<Arc<Upstream>> {
    let mut known = pin!(discovered.known());
    poll_fn(|cx| match known.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending if limit.is_over() => Poll::Ready(()),
        Poll::Pending => Poll::Pending,
    })
    .await;
    discovered.form()
}
