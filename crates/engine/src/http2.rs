//! A client's HTTP/2 connection: one task drives it, and each request is served by a task of its own.
//!
//! The requests of one connection are concurrent, so they can't share the connection's task as those of HTTP/1.1 do.
//! What a task serves is the same exchange.

mod budget;
mod limits;
mod stream;

pub(crate) use budget::ControlBudget;

use crate::buffers::Scratch;
use crate::open::Open;
use crate::timer::{Rest, Timer};
use crate::transport::Stream;
use crate::worker::Worker;
use bytes::{Buf, Bytes};
use h2::Reason;
use h2::server::Connection;
use observe::metrics::State;
use plugin::Client;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wire::FieldLines;

/// What the requests of one connection share.
struct Shared {
    worker: Rc<Worker>,
    client: Client,
    /// As in [`crate::link::Link`].
    forwarded: FieldLines,
    /// The wake-up of the connection's task.
    timer: Rc<Timer>,
    /// When the time of a connection without a request under way is up, in worker time.
    idle_until_ms: Cell<u64>,
    /// When the last request ended, in worker time: what it sent leaves before the connection does.
    rests_since_ms: Cell<u64>,
    /// Requests under way.
    active: Cell<usize>,
    /// Requests so far.
    number: Cell<u64>,
    /// Of these the ones that the client took back.
    cut: Cell<u64>,
    /// Whether the client has sent more control frames than it may.
    flooded: Cell<bool>,
}

/// Serves a connection to its end. What has been read of it is the beginning of the client's preface.
pub(crate) async fn serve(
    worker: &Rc<Worker>,
    stream: Stream,
    scratch: Box<Scratch>,
    client: Client,
    timer: &Rc<Timer>,
    open: &Open<'_>,
) {
    let shared = Rc::new(Shared {
        worker: Rc::clone(worker),
        forwarded: crate::exchange::forwarded_lines(&client),
        client,
        timer: Rc::clone(timer),
        idle_until_ms: Cell::new(u64::MAX),
        rests_since_ms: Cell::new(0),
        active: Cell::new(0),
        number: Cell::new(0),
        cut: Cell::new(0),
        flooded: Cell::new(false),
    });
    let read = Bytes::copy_from_slice(&scratch.input[..scratch.filled]);
    worker.buffers.put_scratch(scratch);
    let stream = Rc::new(RefCell::new(stream));
    let budget = ControlBudget::of_client(worker.clock.now_ms());
    let begun = Begun { read, stream: Rc::clone(&stream), budget, shared: Rc::clone(&shared) };
    let mut handshake = pin!(limits::builder().handshake::<_, Bytes>(begun));
    let mut limit = timer.within(worker.config().client.header_timeout);
    let begun = poll_fn(|cx| match handshake.as_mut().poll(cx) {
        Poll::Ready(begun) => Poll::Ready(Some(begun)),
        Poll::Pending if limit.is_over() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await;
    let connection = match begun {
        Some(Ok(connection)) => connection,
        Some(Err(error)) => return shared.refused(mistake(&error)),
        None => return,
    };
    shared.rests();
    // It may be told to end at any time, because it does so in an orderly way.
    timer.set_rest(Rest::Idle);
    let mut driven = Driven { connection, shared: &shared, ends_at_ms: None };
    let end = poll_fn(|cx| {
        let mut polled = driven.poll(cx);
        // All that was written meanwhile leaves at once. Where the socket takes no more, it wakes this task.
        let flushed = Pin::new(&mut *stream.borrow_mut()).poll_flush(cx);
        if polled.is_pending() && matches!(flushed, Poll::Ready(Err(_))) {
            polled = Poll::Ready(None);
        }
        let (state, rest) = match shared.active.get() {
            0 => (State::Waiting, Rest::Idle),
            _ => (State::Writing, Rest::Drains),
        };
        open.is(state);
        timer.set_rest(rest);
        polled
    })
    .await;
    shared.refused(end);
}

/// What the client did wrong. What it accuses us of is not counted, only what was found here.
fn mistake(error: &h2::Error) -> Option<Reason> {
    error.reason().filter(|_| error.is_library())
}

impl Shared {
    /// No request is under way: the time that the connection may idle begins.
    fn rests(&self) {
        let patience = self.worker.config.borrow().client.keepalive_timeout;
        self.rests_since_ms.set(self.worker.clock.now_ms());
        self.ends_by(self.worker.clock.deadline_ms(patience));
    }

    /// Has the connection's task look at `at_ms` whether the connection is over.
    fn ends_by(&self, at_ms: u64) {
        self.idle_until_ms.set(at_ms);
        self.timer.wake_by(at_ms);
    }

    /// Whether it is time to look whether the connection is over. If not, the task is woken when it is.
    fn is_late(&self) -> bool {
        let at_ms = self.idle_until_ms.get();
        self.timer.wake_by(at_ms);
        self.worker.clock.now_ms() >= at_ms || self.worker.draining.get() || self.timer.is_evicted()
    }

    /// The connection is over; counted where it ends for the client's mistakes.
    fn refused(&self, mistake: Option<Reason>) {
        let Some(reason) = mistake.map(limits::name) else { return };
        self.worker.context.metrics.record_http2_refused(&self.worker.token, reason);
        tracing::warn!(client = %self.client.addr, reason, "HTTP/2 connection ended for the client's mistakes");
    }
}

/// A connection that is served.
struct Driven<'s> {
    connection: Connection<Begun, Bytes>,
    shared: &'s Rc<Shared>,
    /// When a connection that has been told to end is closed, if no request is under way then; in worker time.
    ends_at_ms: Option<u64>,
}

impl Driven<'_> {
    /// Accepts requests, and sends and receives for those under way. At the end what the client did wrong, if anything.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Reason>> {
        if self.shared.is_late() && self.is_over() {
            return Poll::Ready(None);
        }
        loop {
            let shared = self.shared;
            if shared.flooded.get() || limits::is_rapid(shared.number.get(), shared.cut.get()) {
                self.connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                // The last word, where the socket takes it at once.
                let _ = self.connection.poll_closed(cx);
                return Poll::Ready(Some(Reason::ENHANCE_YOUR_CALM));
            }
            match self.connection.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    let number = stream::start(self.shared, request, respond);
                    if number >= self.shared.worker.config.borrow().client.keepalive_requests {
                        self.end();
                    }
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(mistake(&error)),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending if shared.flooded.get() => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Whether the connection is over, now that its time is up or the worker drains.
    fn is_over(&mut self) -> bool {
        let shared = self.shared;
        let rests = shared.active.get() == 0;
        let now_ms = shared.worker.clock.now_ms();
        let rests_long = rests && now_ms > shared.rests_since_ms.get();
        let over = rests_long && self.ends_at_ms.is_some_and(|at| now_ms >= at);
        if rests || shared.worker.draining.get() {
            self.end();
        } else {
            shared.idle_until_ms.set(u64::MAX);
        }
        over
    }

    /// Tells the client to begin no more requests here (GOAWAY); those under way go on.
    fn end(&mut self) {
        let worker = &self.shared.worker;
        let ends_at_ms = match self.ends_at_ms {
            Some(at) => at.max(worker.clock.now_ms() + 1),
            None => {
                self.connection.graceful_shutdown();
                // The end of a response may still wait for a slow client.
                let sends = self.connection.has_streams();
                let patience = worker.config.borrow().client.send_timeout;
                worker.clock.deadline_ms(if sends { patience } else { limits::FAREWELL })
            }
        };
        self.ends_at_ms = Some(ends_at_ms);
        self.shared.ends_by(ends_at_ms);
    }
}

/// A connection of which some bytes have been read. What is written to it leaves when [`Driven::poll`] has had its turn: the
/// codec flushes after each frame, which would be a system call and a TLS record's end for each.
struct Begun {
    read: Bytes,
    stream: Rc<RefCell<Stream>>,
    budget: ControlBudget,
    shared: Rc<Shared>,
}

impl Begun {
    /// Reads what was read before, and then from the stream.
    fn poll_next(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            return Pin::new(&mut *self.stream.borrow_mut()).poll_read(cx, into);
        }
        let count = self.read.len().min(into.remaining());
        into.put_slice(&self.read[..count]);
        self.read.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Begun {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.shared.flooded.get() {
            // Nothing more is wanted: `Driven::poll` ends the connection.
            return Poll::Pending;
        }
        let before = into.filled().len();
        ready!(self.poll_next(cx, into))?;
        let now_ms = self.shared.worker.clock.now_ms();
        self.budget.receive(&into.filled()[before..], now_ms);
        self.shared.flooded.set(self.budget.is_exhausted());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Begun {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(self.stream.borrow_mut().poll_gather(cx, slices))?;
        self.budget.send(slices, count);
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream.borrow_mut()).poll_shutdown(cx)
    }
}
