//! Whether an HTTP/2 connection to an upstream still has somebody at its other end.
//!
//! A node that vanishes without a word (power, network) leaves its connections open until TCP gives up, a quarter of an
//! hour later. With HTTP/1.1 a timed-out request closes its connection; with HTTP/2 it only ends a stream, and every further
//! request would meet the same dead connection. So a connection that is silent while requests wait on it is sent a PING
//! (RFC 9113 section 6.7), and is closed where nothing answers.

use crate::http2::ControlBudget;
use crate::transport::Stream;
use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How long the other side may be silent, with requests under way, before it is sent a PING.
const PING_AFTER_MS: u64 = 10_000;

/// How long until the next one, where nothing but PING was answered in between: gRPC servers close the connections of
/// clients that ping more often than every five minutes.
const PING_AGAIN_MS: u64 = 300_000;

/// How long it may take until anything answers a PING.
const PING_TIMEOUT_MS: u64 = 10_000;

/// Signs of life of one connection. Looked at by [`Pulse::check`], about once a second.
#[derive(Debug)]
pub(crate) struct Pulse {
    /// Worker time at the last check.
    now_ms: Cell<u64>,
    /// Whether bytes have come since then.
    heard: Cell<bool>,
    /// Whether some of them were part of a response.
    progressed: Cell<bool>,
    quiet_since_ms: Cell<u64>,
    /// How long a silence leads to the next PING.
    ping_after_ms: Cell<u64>,
    /// When the PING was sent that nothing has come after.
    pinged_ms: Cell<Option<u64>>,
    /// Whether a PING is to be sent.
    ping: Cell<bool>,
    /// Whether a request timed out, and nothing has come since.
    suspect: Cell<bool>,
    dead: Cell<bool>,
    /// The connection's task.
    task: RefCell<Option<Waker>>,
}

impl Default for Pulse {
    fn default() -> Self {
        Self {
            now_ms: Cell::new(0),
            // The first check finds out what time it is.
            heard: Cell::new(true),
            progressed: Cell::new(false),
            quiet_since_ms: Cell::new(0),
            ping_after_ms: Cell::new(PING_AFTER_MS),
            pinged_ms: Cell::new(None),
            ping: Cell::new(false),
            suspect: Cell::new(false),
            dead: Cell::new(false),
            task: RefCell::default(),
        }
    }
}

impl Pulse {
    /// Notes a request that timed out. The connection takes no further ones until something comes on it.
    pub(crate) fn suspect(&self) {
        self.suspect.set(true);
        if self.pinged_ms.get().is_none() {
            self.send_ping();
        }
    }

    /// Returns whether the connection may take another request.
    pub(super) fn is_sound(&self) -> bool {
        !self.suspect.get() && !self.dead.get()
    }

    /// Returns whether nothing has answered a PING in time.
    pub(super) fn is_dead(&self) -> bool {
        self.dead.get()
    }

    /// Returns whether a PING is to be sent now.
    pub(super) fn takes_ping(&self) -> bool {
        self.ping.take()
    }

    /// Has the task of `cx` woken when a PING is due or the connection is dead.
    pub(super) fn attend(&self, cx: &Context<'_>) {
        let mut task = self.task.borrow_mut();
        match &mut *task {
            Some(task) => task.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
    }

    /// Looks at what has come since the last check; `active` says whether requests are under way.
    pub(super) fn check(&self, now_ms: u64, active: bool) {
        self.now_ms.set(now_ms);
        if self.heard.take() {
            self.quiet_since_ms.set(now_ms);
            self.pinged_ms.set(None);
        }
        if self.progressed.take() {
            self.ping_after_ms.set(PING_AFTER_MS);
        }
        let quiet_ms = now_ms.saturating_sub(self.quiet_since_ms.get());
        match self.pinged_ms.get() {
            Some(at_ms) if now_ms.saturating_sub(at_ms) >= PING_TIMEOUT_MS => {
                self.dead.set(true);
                self.wake();
            }
            None if active && quiet_ms >= self.ping_after_ms.get() => {
                self.ping_after_ms.set(PING_AGAIN_MS);
                self.send_ping();
            }
            _ => {}
        }
    }

    fn send_ping(&self) {
        self.pinged_ms.set(Some(self.now_ms.get()));
        // What came before is no answer.
        self.heard.set(false);
        self.ping.set(true);
        self.wake();
    }

    fn wake(&self) {
        if let Some(task) = self.task.borrow_mut().take() {
            task.wake();
        }
    }
}

/// The connection's bytes, watched for signs of life and for floods of control frames.
pub(super) struct Attended {
    stream: Stream,
    pulse: Rc<Pulse>,
    budget: ControlBudget,
}

impl Attended {
    pub(super) fn new(stream: Stream, pulse: Rc<Pulse>) -> Self {
        Self { stream, pulse, budget: ControlBudget::of_upstream(0) }
    }
}

impl AsyncRead for Attended {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, into))?;
        let read = &into.filled()[before..];
        if read.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let now_ms = self.pulse.now_ms.get();
        let progress = self.budget.receive(read, now_ms);
        self.pulse.heard.set(true);
        self.pulse.suspect.set(false);
        if progress {
            self.pulse.progressed.set(true);
        }
        Poll::Ready(match self.budget.is_exhausted() {
            true => Err(io::Error::other("too many control frames")),
            false => Ok(()),
        })
    }
}

impl AsyncWrite for Attended {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, slices))?;
        self.budget.send(slices, count);
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_connection_with_requests_is_pinged_and_then_dead() {
        let pulse = Pulse::default();
        pulse.check(1000, true);
        pulse.check(10_999, true);
        assert!(!pulse.takes_ping());
        pulse.check(11_000, true);
        assert!(pulse.takes_ping() && !pulse.takes_ping());
        pulse.check(20_999, true);
        assert!(!pulse.is_dead());
        pulse.check(21_000, true);
        assert!(pulse.is_dead() && !pulse.is_sound());
    }

    #[test]
    fn a_connection_that_answers_is_not_pinged_often() {
        let pulse = Pulse::default();
        let mut pings = 0;
        for second in 1..=620 {
            pulse.check(second * 1000, true);
            if pulse.takes_ping() {
                pings += 1;
                pulse.heard.set(true);
            }
        }
        assert_eq!((pings, pulse.is_dead()), (3, false), "after 10 s, and every 5 minutes");
        // A response ends the wait for the next.
        pulse.heard.set(true);
        pulse.progressed.set(true);
        pulse.check(621_000, true);
        pulse.check(631_000, true);
        assert!(pulse.takes_ping());
    }

    #[test]
    fn an_idle_connection_is_left_alone() {
        let pulse = Pulse::default();
        (1..1000).for_each(|second| pulse.check(second * 1000, false));
        assert!(!pulse.takes_ping() && pulse.is_sound());
    }

    #[test]
    fn a_connection_on_which_a_request_timed_out_takes_no_more_until_it_answers() {
        let pulse = Pulse::default();
        pulse.check(1000, true);
        pulse.suspect();
        assert!(!pulse.is_sound() && pulse.takes_ping());
        pulse.check(2000, false);
        pulse.suspect();
        assert!(!pulse.takes_ping(), "one at a time");
        pulse.check(11_000, false);
        assert!(pulse.is_dead());
    }
}
