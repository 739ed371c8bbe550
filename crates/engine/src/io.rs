//! Reading and writing with timeouts.
//!
//! Every operation takes a [`TimeLimit`] and asks it only while it is pending. A write's timeout is the time between two
//! successful writes, as nginx's `send_timeout` is: a peer that keeps taking a little is slow, not gone.

use crate::buffers::Buffers;
use crate::sys::unacknowledged;
use crate::timer::TimeLimit;
use crate::transport::Http2Stream;
use bytes::{Buf, Bytes};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A stream to write to.
pub(crate) trait Sink: AsyncWrite + Unpin {
    /// Bytes that have left the stream's own buffer so far; always 0 for a stream without one. While a write or a flush is
    /// pending, a change of it is the progress that the write itself doesn't show.
    fn sent(&self) -> u64 {
        0
    }

    /// Bytes that the kernel holds until the peer acknowledges them; `None` where that is not for the stream to say.
    fn queued(&self) -> Option<u64> {
        None
    }

    /// Whether the stream frames bodies itself: they are written as they are ([`wire::Framing::Frames`]).
    fn is_framed(&self) -> bool {
        false
    }

    /// Says of a body that the stream frames, and whose length was unknown, that it ends after `count` more bytes, with the
    /// trailer section in `lines`.
    ///
    /// # Errors
    /// The stream's.
    fn end_after(&mut self, _count: usize, _lines: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

/// A stream to read from.
pub(crate) trait Source: AsyncRead + Unpin {
    /// Whether all of the message was read. Only frames tell it (HTTP/2) before a read finds nothing more.
    fn is_over(&self) -> bool {
        false
    }

    /// Whether the other side has ended its stream: pending while nothing has come, `false` when bytes wait.
    fn poll_left(&self, _cx: &mut Context<'_>) -> Poll<bool> {
        Poll::Pending
    }

    /// The lines of the trailer section of a message that is over, where that is not a part of the bytes read.
    fn take_trailers(&mut self) -> Vec<u8> {
        Vec::new()
    }
}

impl Sink for TcpStream {
    fn queued(&self) -> Option<u64> {
        unacknowledged(self)
    }
}

#[cfg(test)]
impl Sink for tokio::io::DuplexStream {}

#[cfg(test)]
impl Source for &[u8] {}

/// Reads what is there, at least one byte; 0 at the end of the stream.
///
/// # Errors
/// The stream's, and `TimedOut` when the limit is over first.
pub(crate) async fn read<R: AsyncRead + Unpin>(
    from: &mut R,
    into: &mut [u8],
    mut limit: TimeLimit<'_>,
) -> io::Result<usize> {
    poll_fn(|cx| poll_read(from, cx, into, &mut limit)).await
}

/// [`read`], once: for operations that watch something else as well.
#[inline]
pub(crate) fn poll_read<R: AsyncRead + Unpin>(
    from: &mut R,
    cx: &mut Context<'_>,
    into: &mut [u8],
    limit: &mut TimeLimit<'_>,
) -> Poll<io::Result<usize>> {
    let mut buffer = ReadBuf::new(into);
    match Pin::new(&mut *from).poll_read(cx, &mut buffer) {
        Poll::Ready(result) => Poll::Ready(result.map(|()| buffer.filled().len())),
        Poll::Pending => limit.pending(),
    }
}

/// Reads what is there into a buffer that is lent for it, to be given back by the caller; none is held while nothing is
/// there. 0 bytes are the end.
///
/// # Errors
/// The stream's, and `TimedOut` when the limit is over first.
pub(crate) async fn read_lent<R: AsyncRead + Unpin>(
    from: &mut R,
    buffers: &Buffers,
    mut limit: TimeLimit<'_>,
) -> io::Result<(Box<[u8]>, usize)> {
    poll_fn(|cx| {
        let mut lent = buffers.take_relay();
        let mut buffer = ReadBuf::new(&mut lent);
        let polled = Pin::new(&mut *from).poll_read(cx, &mut buffer);
        let filled = buffer.filled().len();
        let failed = match polled {
            Poll::Ready(Ok(())) => return Poll::Ready(Ok((lent, filled))),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => limit.pending(),
        };
        buffers.put_relay(lent);
        failed
    })
    .await
}

/// Writes all of `bytes`, to the socket. Each byte that the socket takes restarts the limit.
///
/// # Errors
/// The stream's, and `TimedOut` when the limit is over first.
pub(crate) async fn write_all<W: Sink>(to: &mut W, bytes: &[u8], limit: TimeLimit<'_>) -> io::Result<()> {
    let mut write = Write::new(limit);
    poll_fn(|cx| write.poll(to, cx, bytes, &[])).await
}

/// Writes `head` and then `body`, in one system call where the socket takes them. Each byte that the socket takes restarts
/// the limit.
///
/// # Errors
/// The stream's, and `TimedOut` when the limit is over first.
pub(crate) async fn write_both<W: Sink>(
    to: &mut W,
    head: &[u8],
    body: &[u8],
    limit: TimeLimit<'_>,
) -> io::Result<()> {
    let mut write = Write::new(limit);
    poll_fn(|cx| write.poll(to, cx, head, body)).await
}

/// A write under way.
pub(crate) struct Write<'t> {
    /// Bytes that were taken of head and body.
    done: usize,
    stall: Stall<'t>,
}

/// The time since a write's last progress.
///
/// A socket takes bytes again only when a third of its buffer is free, and that may be megabytes. A peer that reads slowly
/// therefore shows only in what it acknowledges. That is looked at a tick after the write began to wait, because most go
/// on sooner, and when its time would be up.
struct Stall<'t> {
    limit: TimeLimit<'t>,
    left: TimeLimit<'t>,
    /// What the stream had sent when the write was last pending.
    sent: u64,
    /// What the kernel held at the last look.
    queued: Option<u64>,
}

impl<'t> Stall<'t> {
    fn new(limit: TimeLimit<'t>) -> Self {
        Self { limit, left: limit.one_tick().unwrap_or(limit), sent: 0, queued: None }
    }

    /// The write has made progress.
    #[inline]
    fn restart(&mut self) {
        self.left = self.limit.one_tick().unwrap_or(self.limit);
        self.queued = None;
    }

    fn pending<T>(&mut self, to: &impl Sink) -> Poll<io::Result<T>> {
        let sent = to.sent();
        if std::mem::replace(&mut self.sent, sent) != sent {
            self.restart();
        }
        if !self.left.is_over() {
            return Poll::Pending;
        }
        let queued = to.queued().unwrap_or_default();
        let moves = self.queued.replace(queued).is_none_or(|before| queued < before);
        if moves && self.limit.one_tick().is_some() {
            self.left = self.limit;
        }
        self.left.pending()
    }
}

impl<'t> Write<'t> {
    pub(crate) fn new(limit: TimeLimit<'t>) -> Self {
        Self { done: 0, stall: Stall::new(limit) }
    }

    /// [`write_both`], once: for operations that do something else as well.
    pub(crate) fn poll<W: Sink>(
        &mut self,
        to: &mut W,
        cx: &mut Context<'_>,
        head: &[u8],
        body: &[u8],
    ) -> Poll<io::Result<()>> {
        loop {
            let polled = if self.done < head.len() && !body.is_empty() {
                let slices = [IoSlice::new(&head[self.done..]), IoSlice::new(body)];
                Pin::new(&mut *to).poll_write_vectored(cx, &slices)
            } else {
                let rest = match self.done.checked_sub(head.len()) {
                    Some(done) => &body[done..],
                    None => &head[self.done..],
                };
                if rest.is_empty() {
                    break;
                }
                Pin::new(&mut *to).poll_write(cx, rest)
            };
            match polled {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => {
                    self.done += count;
                    self.stall.restart();
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return self.stall.pending(to),
            }
        }
        // What is encrypted may wait in the session's buffer.
        match Pin::new(&mut *to).poll_flush(cx) {
            Poll::Pending => self.stall.pending(to),
            flushed => flushed,
        }
    }
}

/// Hands all of `bytes` over to a stream of HTTP/2, which keeps a share of them until they are sent. Each byte that the
/// stream takes restarts the limit.
///
/// # Errors
/// The stream's, and `TimedOut` when the limit is over first.
pub(crate) async fn share(to: &Http2Stream, mut bytes: Bytes, limit: TimeLimit<'_>) -> io::Result<()> {
    let mut left = limit;
    poll_fn(|cx| {
        while !bytes.is_empty() {
            match to.poll_share(cx, &bytes) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => {
                    bytes.advance(count);
                    left = limit;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return left.pending(),
            }
        }
        Poll::Ready(Ok(()))
    })
    .await
}

/// Waits until the socket takes bytes.
///
/// # Errors
/// The stream's, and `TimedOut` when the limit is over first.
pub(crate) async fn writable(stream: &TcpStream, limit: TimeLimit<'_>) -> io::Result<()> {
    let mut stall = Stall::new(limit);
    poll_fn(|cx| match stream.poll_write_ready(cx) {
        Poll::Ready(result) => Poll::Ready(result),
        Poll::Pending => stall.pending(stream),
    })
    .await
}

/// Sends what is buffered and closes the sending side.
///
/// # Errors
/// The stream's, and `TimedOut` when the limit is over first: who doesn't read leaves no room for the last record of an
/// encrypted connection either.
pub(crate) async fn shutdown<W: Sink>(stream: &mut W, limit: TimeLimit<'_>) -> io::Result<()> {
    let mut stall = Stall::new(limit);
    poll_fn(|cx| {
        let polled = match Pin::new(&mut *stream).poll_flush(cx) {
            Poll::Ready(Ok(())) => Pin::new(&mut *stream).poll_shutdown(cx),
            unsent => unsent,
        };
        if polled.is_pending() { stall.pending(stream) } else { polled }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Now;
    use crate::timer::Timers;
    use std::collections::VecDeque;
    use std::future::Future;
    use std::pin::pin;
    use std::task::Waker;
    use std::time::Duration;

    /// A peer that takes and sends bytes only when the test says so.
    #[derive(Default)]
    struct Peer {
        /// How many bytes a write or a flush gets rid of next.
        takes: VecDeque<usize>,
        /// Whether writes go to a buffer of the stream's own, as with TLS.
        buffered: bool,
        held: usize,
        sent: u64,
    }

    impl Sink for Peer {
        fn sent(&self) -> u64 {
            if self.buffered { self.sent } else { 0 }
        }
    }

    impl AsyncRead for Peer {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Peer {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            if self.buffered {
                self.held += bytes.len();
                return Poll::Ready(Ok(bytes.len()));
            }
            self.takes.pop_front().map_or(Poll::Pending, |count| Poll::Ready(Ok(count.min(bytes.len()))))
        }

        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            if let Some(count) = self.takes.pop_front() {
                self.held -= count;
                self.sent += count as u64;
            }
            if self.held == 0 { Poll::Ready(Ok(())) } else { Poll::Pending }
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    fn poll<F: Future<Output = io::Result<()>> + ?Sized>(
        future: Pin<&mut F>,
    ) -> Option<Result<(), io::ErrorKind>> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Some(result.map_err(|error| error.kind())),
            Poll::Pending => None,
        }
    }

    const TIMEOUT: Duration = Duration::from_millis(900);
    const LATE: Option<Result<(), io::ErrorKind>> = Some(Err(io::ErrorKind::TimedOut));

    #[test]
    fn nothing_waits_for_a_peer_beyond_its_limit() {
        let now = Now::default();
        let timers = Timers::new(now.clone());
        let registered = timers.register();
        let limit = registered.timer.within(TIMEOUT);
        let [mut a, mut b, mut c] = [(); 3].map(|()| Peer::default());
        let mut into = [0];
        let mut operations: [Pin<Box<dyn Future<Output = io::Result<()>>>>; 3] = [
            Box::pin(shutdown(&mut a, limit)),
            Box::pin(write_all(&mut b, b"x", limit)),
            Box::pin(async { read(&mut c, &mut into, limit).await.map(drop) }),
        ];
        // A write's time begins with the first look at what it has in its queue.
        for (at_ms, expected) in [(5000, None), (5100, None), (5999, None), (6100, LATE)] {
            now.set(at_ms);
            for operation in &mut operations {
                assert_eq!(poll(operation.as_mut()), expected, "at {at_ms}");
            }
        }
    }

    #[test]
    fn a_peer_that_takes_bytes_has_its_whole_time_again() {
        for buffered in [false, true] {
            let now = Now::default();
            let timers = Timers::new(now.clone());
            let registered = timers.register();
            let cell = std::cell::RefCell::new(Peer { buffered, ..Peer::default() });
            let takes = |count: usize| cell.borrow_mut().takes.push_back(count);
            let mut shared = Shared(&cell);
            let mut writing = pin!(write_all(&mut shared, b"abcd", registered.timer.within(TIMEOUT)));
            assert_eq!(poll(writing.as_mut()), None);
            for at_ms in [500, 1000, 1500] {
                now.set(at_ms);
                takes(1);
                assert_eq!(poll(writing.as_mut()), None, "buffered: {buffered}");
            }
            for at_ms in [1600, 2599] {
                now.set(at_ms);
                assert_eq!(poll(writing.as_mut()), None);
            }
            now.set(2600);
            assert_eq!(poll(writing.as_mut()), LATE, "buffered: {buffered}");
        }
    }

    /// A peer that the test reaches while a write is under way.
    struct Shared<'p>(&'p std::cell::RefCell<Peer>);

    impl Sink for Shared<'_> {
        fn sent(&self) -> u64 {
            self.0.borrow().sent()
        }
    }

    impl AsyncWrite for Shared<'_> {
        fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Pin::new(&mut *self.0.borrow_mut()).poll_write(cx, bytes)
        }

        fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut *self.0.borrow_mut()).poll_flush(cx)
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }
}
