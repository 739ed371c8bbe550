//! The deadlines of one connection to a server of the control plane.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// How long a request's head may take, from the connection's start or from the head's first byte.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may be idle between requests: nginx's `keepalive_timeout` is 75 s, and Prometheus asks every
/// 15 s to 60 s.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(75);

/// How long a write may wait for the client to read: nginx's `send_timeout`.
pub(super) const SEND_TIMEOUT: Duration = Duration::from_secs(60);

/// What a client gets whose head is late.
const LATE: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// Whether a request of the connection is being answered. The service sets it; the stream and the server's places read it.
#[derive(Debug, Clone)]
pub(super) struct Busy(Arc<AtomicU64>);

/// The order in which connections began to wait for their clients: the next number.
static ORDER: AtomicU64 = AtomicU64::new(0);

/// Stands for a connection that is being answered.
const ANSWERING: u64 = u64::MAX;

impl Default for Busy {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(ORDER.fetch_add(1, Ordering::Relaxed))))
    }
}

impl Busy {
    pub(super) fn set(&self, busy: bool) {
        let since = if busy { ANSWERING } else { ORDER.fetch_add(1, Ordering::Relaxed) };
        self.0.store(since, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) == ANSWERING
    }

    /// Since when the connection waits for its client, as a place in the order of all connections; `None` while it is
    /// being answered.
    pub(super) fn waits_since(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|since| *since != ANSWERING)
    }
}

/// What the connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// The first byte of the connection.
    First,
    /// The rest of a head.
    Head,
    /// The next request.
    Next,
    /// Nothing: a request is being answered. Its body's deadline is the service's.
    Answer,
}

/// A connection that ends when its client is too slow. A late head is answered with 408; an idle connection is closed.
#[derive(Debug)]
pub(super) struct Deadlines<S> {
    stream: S,
    busy: Busy,
    waiting: Waiting,
    read: Pin<Box<Sleep>>,
    /// Set while a write waits.
    write: Option<Pin<Box<Sleep>>>,
}

impl<S> Deadlines<S> {
    pub(super) fn new(stream: S, busy: Busy) -> Self {
        let read = Box::pin(sleep(HEAD_TIMEOUT));
        Self { stream, busy, waiting: Waiting::First, read, write: None }
    }

    fn wait_for(&mut self, waiting: Waiting, timeout: Duration) {
        self.waiting = waiting;
        self.read.as_mut().reset(Instant::now() + timeout);
    }

    /// Notices that the service began or ended an answer since the last read.
    fn follow_service(&mut self) {
        match (self.busy.is_set(), self.waiting) {
            (true, _) => self.waiting = Waiting::Answer,
            (false, Waiting::Answer) => self.wait_for(Waiting::Next, IDLE_TIMEOUT),
            (false, _) => {}
        }
    }
}

impl<S: AsyncWrite + Unpin> Deadlines<S> {
    /// Passes a write's result on, unless the client has read nothing for too long.
    fn wrote<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.write = None;
            // The answer is on its way: the client is not idle.
            if self.waiting == Waiting::Next {
                self.wait_for(Waiting::Next, IDLE_TIMEOUT);
            }
            return result;
        }
        let deadline = self.write.get_or_insert_with(|| Box::pin(sleep(SEND_TIMEOUT)));
        ready!(deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Deadlines<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.follow_service();
        let before = buffer.filled().len();
        if let Poll::Ready(result) = Pin::new(&mut self.stream).poll_read(cx, buffer) {
            match self.waiting {
                // The first byte of a connection doesn't put its deadline off.
                Waiting::First => self.waiting = Waiting::Head,
                Waiting::Next if buffer.filled().len() > before => {
                    self.wait_for(Waiting::Head, HEAD_TIMEOUT);
                }
                _ => {}
            }
            return Poll::Ready(result);
        }
        if self.waiting == Waiting::Answer {
            return Poll::Pending;
        }
        ready!(self.read.as_mut().poll(cx));
        if self.waiting != Waiting::Head {
            // The end of the stream: hyper closes in order.
            return Poll::Ready(Ok(()));
        }
        // Nothing else was sent since the last answer, so the socket has room; a client that doesn't read gets nothing.
        let _ = Pin::new(&mut self.stream).poll_write(cx, LATE);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Deadlines<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.wrote(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::timeout;

    fn pair() -> (DuplexStream, Deadlines<DuplexStream>, Busy) {
        let (client, server) = duplex(128);
        let busy = Busy::default();
        (client, Deadlines::new(server, busy.clone()), busy)
    }

    /// What the client gets after `sent`, and the seconds until then.
    async fn late(sent: &[&[u8]]) -> (Vec<u8>, u64) {
        let (mut client, mut server, _) = pair();
        let begin = Instant::now();
        let serving = async {
            let mut buffer = [0; 64];
            while server.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
            drop(server);
            begin.elapsed().as_secs()
        };
        let mut got = Vec::new();
        let asking = async {
            for part in sent {
                client.write_all(part).await.unwrap();
                sleep(Duration::from_secs(2)).await;
            }
            client.read_to_end(&mut got).await.unwrap();
        };
        let (seconds, ()) = tokio::join!(serving, asking);
        (got, seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_head_is_answered_with_408_and_silence_with_the_end() {
        assert_eq!(late(&[]).await, (Vec::new(), 10));
        assert_eq!(late(&[b"G"]).await, (LATE.to_vec(), 10));
        // Further bytes don't put the deadline off.
        assert_eq!(late(&[b"G", b"E", b"T", b" "]).await, (LATE.to_vec(), 10));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_takes_as_long_as_it_takes_and_idling_75_seconds() {
        let (mut client, mut server, busy) = pair();
        let mut buffer = [0; 64];
        client.write_all(b"GET / ").await.unwrap();
        assert_eq!(server.read(&mut buffer).await.unwrap(), 6);
        busy.set(true);
        let hour = Duration::from_secs(3600);
        assert!(timeout(hour, server.read(&mut buffer)).await.is_err(), "a body has its own deadline");
        busy.set(false);
        let begin = Instant::now();
        assert!(timeout(Duration::from_secs(70), server.read(&mut buffer)).await.is_err());
        assert_eq!(server.read(&mut buffer).await.unwrap(), 0, "closed");
        assert_eq!(begin.elapsed().as_secs(), 75);
        // The next head has ten seconds from its first byte.
        let (mut client, mut server, busy) = pair();
        busy.set(true);
        assert!(timeout(hour, server.read(&mut buffer)).await.is_err());
        busy.set(false);
        assert!(timeout(Duration::from_secs(60), server.read(&mut buffer)).await.is_err());
        client.write_all(b"G").await.unwrap();
        assert_eq!(server.read(&mut buffer).await.unwrap(), 1);
        let begin = Instant::now();
        assert_eq!(server.read(&mut buffer).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(begin.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_ends_the_write() {
        let (mut client, mut server, _) = pair();
        let begin = Instant::now();
        let error = server.write_all(&[0; 129]).await.unwrap_err();
        assert_eq!((error.kind(), begin.elapsed().as_secs()), (io::ErrorKind::TimedOut, 60));
        let mut got = [0; 128];
        client.read_exact(&mut got).await.unwrap();
        server.write_all(&[0; 128]).await.unwrap();
    }
}
