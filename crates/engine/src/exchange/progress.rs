//! What the two directions of an exchange know of each other.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::Duration;
use stdx::Moment;

/// What the two directions of an exchange have to know of each other.
#[derive(Debug, Default)]
pub(super) struct Upload {
    /// Whether all of the request's body was sent.
    pub(super) sent: Cell<bool>,
    /// Whether nothing more is sent. Only then is it the upstream that the gateway waits for.
    pub(super) over: Cell<bool>,
    /// Whether the response's final head is on its way: from then on nothing else can be answered.
    pub(super) answering: Cell<bool>,
    /// When something of the response last came, in worker time.
    pub(super) answered_ms: Cell<u64>,
    /// How long the upstream had to wait for the client: for its body, and until it took the response.
    pub(super) client_wait: Cell<Duration>,
}

impl Upload {
    /// That of a request that has been sent whole.
    pub(super) fn done() -> Self {
        Self { sent: Cell::new(true), over: Cell::new(true), ..Self::default() }
    }

    /// Completes `operation`, for which the upstream has to wait. The clock is read only if that is pending.
    pub(super) async fn delay<F: Future>(&self, operation: F) -> F::Output {
        let mut operation = pin!(operation);
        let mut since = None;
        poll_fn(|cx| {
            let polled = operation.as_mut().poll(cx);
            self.note_wait(&mut since, polled.is_ready());
            polled
        })
        .await
    }

    /// Takes note that an operation for which the upstream has to wait was polled.
    #[inline]
    pub(super) fn note_wait(&self, since: &mut Option<Moment>, ready: bool) {
        match (*since, ready) {
            (None, false) => *since = Some(Moment::now()),
            (Some(since), true) => self.client_wait.set(self.client_wait.get() + since.elapsed()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn time_that_an_upstream_waits_for_the_client_is_not_its_own() {
        let upload = Upload::default();
        let ready = Cell::new(true);
        let operation = || poll_fn(|_| if ready.get() { Poll::Ready(()) } else { Poll::Pending });
        let mut cx = Context::from_waker(Waker::noop());
        assert!(pin!(upload.delay(operation())).poll(&mut cx).is_ready());
        assert_eq!(upload.client_wait.get(), Duration::ZERO);
        ready.set(false);
        let mut slow = pin!(upload.delay(operation()));
        assert!(slow.as_mut().poll(&mut cx).is_pending());
        let since = Moment::now();
        while since.elapsed() < Duration::from_millis(2) {
            assert!(slow.as_mut().poll(&mut cx).is_pending());
        }
        ready.set(true);
        assert!(slow.as_mut().poll(&mut cx).is_ready());
        assert!(upload.client_wait.get() >= Duration::from_millis(2));
    }
}
