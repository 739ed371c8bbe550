//! Reading and writing under a deadline.

use crate::buffers::Buffers;
use crate::timer::Timer;
use crate::transport::Http2Stream;
use bytes::{Buf, Bytes};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::Poll;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Reads what is there, at least one byte; 0 at the end of the stream.
///
/// # Errors
/// The stream's, and `TimedOut` when the deadline passes first.
pub(crate) async fn read<R: AsyncRead + Unpin>(
    from: &mut R,
    into: &mut [u8],
    timer: &Timer,
) -> io::Result<usize> {
    poll_fn(|cx| {
        let mut buffer = ReadBuf::new(into);
        match Pin::new(&mut *from).poll_read(cx, &mut buffer) {
            Poll::Ready(result) => Poll::Ready(result.map(|()| buffer.filled().len())),
            Poll::Pending => pending(timer),
        }
    })
    .await
}

/// Reads what is there into a buffer that is lent for it, to be given back by the caller; none is held while nothing is
/// there. 0 bytes are the end.
///
/// # Errors
/// The stream's, and `TimedOut` when the deadline passes first.
pub(crate) async fn read_lent<R: AsyncRead + Unpin>(
    from: &mut R,
    buffers: &Buffers,
    timer: &Timer,
) -> io::Result<(Box<[u8]>, usize)> {
    poll_fn(|cx| {
        let mut lent = buffers.take_relay();
        let mut buffer = ReadBuf::new(&mut lent);
        let polled = Pin::new(&mut *from).poll_read(cx, &mut buffer);
        let filled = buffer.filled().len();
        let failed = match polled {
            Poll::Ready(Ok(())) => return Poll::Ready(Ok((lent, filled))),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => pending(timer),
        };
        buffers.put_relay(lent);
        failed
    })
    .await
}

/// Writes all of `bytes`, to the socket.
///
/// # Errors
/// The stream's, and `TimedOut` when the deadline passes first.
pub(crate) async fn write_all<W: AsyncWrite + Unpin>(
    to: &mut W,
    bytes: &[u8],
    timer: &Timer,
) -> io::Result<()> {
    let mut done = 0;
    poll_fn(|cx| {
        while done < bytes.len() {
            match Pin::new(&mut *to).poll_write(cx, &bytes[done..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => done += count,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return pending(timer),
            }
        }
        // What is encrypted may wait in the session's buffer.
        match Pin::new(&mut *to).poll_flush(cx) {
            Poll::Pending => pending(timer),
            flushed => flushed,
        }
    })
    .await
}

/// Hands all of `bytes` over to a stream of HTTP/2, which keeps a share of them until they are sent.
///
/// # Errors
/// The stream's, and `TimedOut` when the deadline passes first.
pub(crate) async fn share(to: &Http2Stream, mut bytes: Bytes, timer: &Timer) -> io::Result<()> {
    poll_fn(|cx| {
        while !bytes.is_empty() {
            match to.poll_share(cx, &bytes) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => bytes.advance(count),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return pending(timer),
            }
        }
        Poll::Ready(Ok(()))
    })
    .await
}

/// Writes `head` and then `body`, in one system call where the socket takes them.
///
/// # Errors
/// The stream's, and `TimedOut` when the deadline passes first.
pub(crate) async fn write_both<W: AsyncWrite + Unpin>(
    to: &mut W,
    head: &[u8],
    body: &[u8],
    timer: &Timer,
) -> io::Result<()> {
    let mut done = 0;
    poll_fn(|cx| {
        while done < head.len() {
            let slices = [IoSlice::new(&head[done..]), IoSlice::new(body)];
            match Pin::new(&mut *to).poll_write_vectored(cx, &slices) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => done += count,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return pending(timer),
            }
        }
        Poll::Ready(Ok(()))
    })
    .await?;
    write_all(to, &body[done - head.len()..], timer).await
}

/// Waits until the socket takes bytes.
///
/// # Errors
/// The stream's, and `TimedOut` when the deadline passes first.
pub(crate) async fn writable(stream: &TcpStream, timer: &Timer) -> io::Result<()> {
    poll_fn(|cx| match stream.poll_write_ready(cx) {
        Poll::Ready(result) => Poll::Ready(result),
        Poll::Pending => pending(timer),
    })
    .await
}

/// Sends what is buffered and closes the sending side.
///
/// # Errors
/// The stream's, and `TimedOut` when the deadline passes first: who doesn't read leaves no room for the last record of an
/// encrypted connection either.
pub(crate) async fn shutdown<W: AsyncWrite + Unpin>(stream: &mut W, timer: &Timer) -> io::Result<()> {
    poll_fn(|cx| {
        let polled = match Pin::new(&mut *stream).poll_flush(cx) {
            Poll::Ready(Ok(())) => Pin::new(&mut *stream).poll_shutdown(cx),
            unsent => unsent,
        };
        if polled.is_pending() { pending(timer) } else { polled }
    })
    .await
}

fn pending<T>(timer: &Timer) -> Poll<io::Result<T>> {
    if timer.expired() { Poll::Ready(Err(io::ErrorKind::TimedOut.into())) } else { Poll::Pending }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timer::Timers;
    use std::task::Context;
    use tokio::runtime::Builder;

    /// A stream whose other side doesn't read.
    struct Full;

    impl AsyncWrite for Full {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    #[test]
    fn nothing_waits_for_a_peer_beyond_its_deadline() {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let timers = Timers::default();
        let registered = timers.register();
        registered.timer.arm(1);
        timers.sweep(1);
        runtime.block_on(async {
            let late = |result: io::Result<()>| result.map_err(|error| error.kind());
            assert_eq!(late(shutdown(&mut Full, &registered.timer).await), Err(io::ErrorKind::TimedOut));
            assert_eq!(
                late(write_all(&mut Full, b"x", &registered.timer).await),
                Err(io::ErrorKind::TimedOut)
            );
        });
    }
}
