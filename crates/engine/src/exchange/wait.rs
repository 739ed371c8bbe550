//! Waiting for a plugin, or for an API of this process.

use crate::error::{ErrorKind, ProxyError, Side};
use crate::timer::TimeLimit;
use crate::transport::Stream;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

/// What `future` comes to; `None` where that takes longer than `limit`. The wait ends with the client: what it holds
/// elsewhere (a turn in a queue, a connection of a quota) is for those who are still there.
pub(super) async fn within<T>(
    limit: TimeLimit<'_>,
    future: Pin<Box<dyn Future<Output = T>>>,
    client: &mut Stream,
) -> Result<Option<T>, ProxyError> {
    let (_, client) = client.split();
    waited(limit, future, |cx| client.poll_left(cx)).await
}

/// The same for a client that `left` knows of: whether it has gone, once that can be said.
async fn waited<T>(
    mut limit: TimeLimit<'_>,
    mut future: Pin<Box<dyn Future<Output = T>>>,
    mut left: impl FnMut(&mut Context<'_>) -> Poll<bool>,
) -> Result<Option<T>, ProxyError> {
    let mut watches = true;
    poll_fn(|cx| {
        if let Poll::Ready(result) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(Some(result)));
        }
        if limit.is_over() {
            return Poll::Ready(Ok(None));
        }
        if watches && let Poll::Ready(left) = left(cx) {
            // Bytes that wait are the request's body or the next one: then there is nothing to watch for.
            watches = false;
            if left {
                let gone = "client closed while a plugin waited";
                return Poll::Ready(Err(ProxyError::new(Side::Client, ErrorKind::Connection, gone)));
            }
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Now;
    use crate::timer::Timers;
    use std::cell::Cell;
    use std::future::{pending, ready};
    use std::pin::pin;
    use std::task::Waker;
    use std::time::Duration;

    const LIMIT: Duration = Duration::from_secs(300);

    #[test]
    fn a_wait_ends_at_its_limit() {
        let now = Now::default();
        let timers = Timers::new(now.clone());
        let registered = timers.register();
        let mut waiting =
            pin!(waited(registered.timer.within(LIMIT), Box::pin(pending::<()>()), |_| Poll::Pending));
        let mut at = |ms| {
            now.set(ms);
            waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        };
        // One tick more, because the clock may be a tick behind.
        assert!(at(0).is_pending() && at(299_999).is_pending() && at(300_099).is_pending());
        assert!(matches!(at(300_100), Poll::Ready(Ok(None))));
    }

    fn once<F: Future>(future: F) -> Poll<F::Output> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_wait_ends_with_its_client_and_not_with_bytes_that_the_client_has_sent() {
        let timers = Timers::new(Now::default());
        let registered = timers.register();
        let limit = registered.timer.within(LIMIT);
        let gone = once(waited(limit, Box::pin(pending::<()>()), |_| Poll::Ready(true)));
        assert!(
            matches!(gone, Poll::Ready(Err(error)) if error.side == Side::Client && error.status() == 499)
        );
        let looks = Cell::new(0);
        let mut waiting = pin!(waited(limit, Box::pin(pending::<()>()), |_| {
            looks.set(looks.get() + 1);
            Poll::Ready(false)
        }));
        for _ in 0..3 {
            assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        assert_eq!(looks.get(), 1, "then there is nothing to watch for");
        // What a plugin has at last counts, even if the client has gone.
        let done = once(waited(limit, Box::pin(ready(7)), |_| Poll::Ready(true)));
        assert!(matches!(done, Poll::Ready(Ok(Some(7)))));
    }
}
