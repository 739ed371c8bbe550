//! A connection's bytes, in the clear or encrypted. The clear comes first everywhere: it is the case that is counted in
//! instructions, and costs no more than one branch.

mod handshake;
mod http2;
mod tls;

pub(crate) use handshake::{accept, connect};
pub(crate) use http2::{Http2Stream, StreamError, Streams};
pub(crate) use tls::TlsStream;

use crate::io::{Sink, Source};
use crate::sys::{plain, unacknowledged};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

/// A connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
    /// One stream of an HTTP/2 connection: one message each way.
    Http2(Box<Http2Stream>),
    /// Nobody: for what is done behind a client's back. Nothing comes, and what is sent is gone.
    Nowhere,
}

/// What a connection sends us.
pub(crate) enum ReadSide<'s> {
    Plain(ReadHalf<'s>),
    Tls(&'s TlsStream),
    Http2(&'s Http2Stream),
    Nowhere,
}

/// What we send on a connection.
pub(crate) enum WriteSide<'s> {
    Plain(WriteHalf<'s>),
    Tls(&'s TlsStream),
    Http2(&'s Http2Stream),
    Nowhere,
}

impl Stream {
    /// Both directions at once.
    #[inline]
    pub(crate) fn split(&mut self) -> (ReadSide<'_>, WriteSide<'_>) {
        match self {
            Self::Plain(stream) => {
                let (read, write) = stream.split();
                (ReadSide::Plain(read), WriteSide::Plain(write))
            }
            Self::Tls(stream) => (ReadSide::Tls(stream), WriteSide::Tls(stream)),
            Self::Http2(stream) => (ReadSide::Http2(stream), WriteSide::Http2(stream)),
            Self::Nowhere => (ReadSide::Nowhere, WriteSide::Nowhere),
        }
    }

    /// Sends at once what the socket takes of `bytes`: how many that are, 0 when it takes none now, or when they are to
    /// be encrypted or framed first. No future is made, and no waker stored, for the writes that need no wait, which are nearly
    /// all.
    ///
    /// # Errors
    /// The stream's.
    #[inline]
    pub(crate) fn send_now(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => plain::send_now(stream, bytes),
            Self::Tls(_) | Self::Http2(_) | Self::Nowhere => Ok(0),
        }
    }

    /// Writes, encrypted as [`TlsStream::poll_gather`] says. In the clear there is nothing to gather in.
    pub(crate) fn poll_gather(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Tls(stream) => stream.poll_gather(cx, slices),
            _ => Pin::new(self).poll_write_vectored(cx, slices),
        }
    }

    /// As [`ReadSide::poll_readable`].
    #[inline]
    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Plain(stream) => stream.poll_read_ready(cx).map(drop),
            _ => Poll::Ready(()),
        }
    }

    /// Whether nothing has come on an idle connection since its last message. A look at the readiness that the event
    /// loop noted; a system call only where it noted some.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        match self {
            Self::Plain(stream) => plain::is_quiet(stream),
            Self::Tls(stream) => stream.is_quiet(),
            // Carries one message, and is never idle.
            Self::Http2(_) | Self::Nowhere => false,
        }
    }

    /// The stream of an HTTP/2 connection, if it is one.
    #[inline]
    pub(crate) fn http2(&self) -> Option<&Http2Stream> {
        if let Self::Http2(stream) = self { Some(stream) } else { None }
    }
}

impl ReadSide<'_> {
    /// Returns whether a read may find something; if not, the task is woken when one may. Asked before a read that will
    /// probably have to wait, so that no buffer is taken for it. Connections that are not in the clear only find out by
    /// reading, so they are always ready.
    #[inline]
    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            // An error is the read's to find.
            Self::Plain(half) => half.as_ref().poll_read_ready(cx).map(drop),
            _ => Poll::Ready(()),
        }
    }

    /// As [`Stream::http2`].
    #[inline]
    pub(crate) fn http2(&self) -> Option<&Http2Stream> {
        if let Self::Http2(stream) = self { Some(stream) } else { None }
    }
}

impl WriteSide<'_> {
    /// As [`Stream::http2`].
    #[inline]
    pub(crate) fn http2(&self) -> Option<&Http2Stream> {
        if let Self::Http2(stream) = self { Some(stream) } else { None }
    }

    /// [`Stream::send_now`] on this side.
    ///
    /// # Errors
    /// The stream's.
    #[inline]
    pub(crate) fn send_now(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(half) => plain::send_now(half.as_ref(), bytes),
            Self::Tls(_) | Self::Http2(_) | Self::Nowhere => Ok(0),
        }
    }
}

impl WriteSide<'_> {
    /// Whether the other side has said that it wants no more of this message. HTTP/1.1 can't say so but by its end, which
    /// a write finds.
    #[inline]
    pub(crate) fn is_reset(&self, cx: &mut Context<'_>) -> bool {
        match self {
            Self::Plain(_) | Self::Tls(_) | Self::Nowhere => false,
            Self::Http2(stream) => stream.poll_left(cx).is_ready(),
        }
    }
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => plain::poll_recv(stream, cx, into),
            Self::Tls(stream) => stream.poll_read(cx, into),
            Self::Http2(stream) => stream.poll_read(cx, into),
            Self::Nowhere => Poll::Pending,
        }
    }
}

impl AsyncRead for ReadSide<'_> {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(half) => plain::poll_recv(half.as_ref(), cx, into),
            Self::Tls(stream) => stream.poll_read(cx, into),
            Self::Http2(stream) => stream.poll_read(cx, into),
            Self::Nowhere => Poll::Pending,
        }
    }
}

/// The same for the whole connection and for its sending side.
macro_rules! write_as {
    ($name:ty) => {
        impl AsyncWrite for $name {
            #[inline]
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
                    Self::Tls(stream) => stream.poll_write(cx, &[io::IoSlice::new(bytes)]),
                    Self::Http2(stream) => stream.poll_write(cx, &[io::IoSlice::new(bytes)]),
                    Self::Nowhere => Poll::Ready(Ok(bytes.len())),
                }
            }

            #[inline]
            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                slices: &[io::IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
                    Self::Tls(stream) => stream.poll_write(cx, slices),
                    Self::Http2(stream) => stream.poll_write(cx, slices),
                    Self::Nowhere => Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum())),
                }
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            #[inline]
            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    // The task of an HTTP/2 connection sends what its streams have handed over.
                    Self::Plain(_) | Self::Http2(_) | Self::Nowhere => Poll::Ready(Ok(())),
                    Self::Tls(stream) => stream.poll_flush(cx),
                }
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
                    Self::Tls(stream) => stream.poll_shutdown(cx),
                    Self::Http2(_) | Self::Nowhere => Poll::Ready(Ok(())),
                }
            }
        }
    };
}

/// What a whole connection and its sending side have in common besides [`AsyncWrite`].
macro_rules! sink_as {
    ($name:ty) => {
        impl Sink for $name {
            fn sent(&self) -> u64 {
                if let Self::Tls(stream) = self { stream.sent() } else { 0 }
            }

            fn queued(&self) -> Option<u64> {
                match self {
                    Self::Plain(stream) => unacknowledged(stream.as_ref()),
                    Self::Tls(stream) => stream.queued(),
                    Self::Http2(_) | Self::Nowhere => None,
                }
            }

            fn is_framed(&self) -> bool {
                matches!(self, Self::Http2(_))
            }

            fn end_after(&mut self, count: usize, lines: &[u8]) -> io::Result<()> {
                if let Self::Http2(stream) = self { stream.end_after(count, lines) } else { Ok(()) }
            }
        }
    };
}

/// What a whole connection and its receiving side have in common besides [`AsyncRead`].
macro_rules! source_as {
    ($name:ty) => {
        impl Source for $name {
            fn is_over(&self) -> bool {
                self.http2().is_some_and(Http2Stream::is_over)
            }

            fn take_trailers(&mut self) -> Vec<u8> {
                self.http2().map(Http2Stream::take_trailers).unwrap_or_default()
            }

            fn poll_left(&self, cx: &mut Context<'_>) -> Poll<bool> {
                self.poll_left(cx)
            }
        }
    };
}

/// What both sides of a connection tell of its end.
macro_rules! watch_as {
    ($name:ty) => {
        impl $name {
            /// Whether the other side has ended its stream: pending while nothing has come, `false` when bytes wait. Asked
            /// on one side, so that it can be while something else owns the other.
            pub(crate) fn poll_left(&self, cx: &mut Context<'_>) -> Poll<bool> {
                match self {
                    Self::Plain(half) => {
                        let mut byte = [0u8; 1];
                        half.as_ref()
                            .poll_peek(cx, &mut ReadBuf::new(&mut byte))
                            .map(|peeked| !peeked.is_ok_and(|count| count > 0))
                    }
                    Self::Tls(stream) => stream.poll_left(cx),
                    Self::Http2(stream) => stream.poll_left(cx),
                    Self::Nowhere => Poll::Pending,
                }
            }
        }
    };
}

watch_as!(Stream);
watch_as!(ReadSide<'_>);
watch_as!(WriteSide<'_>);
source_as!(Stream);
source_as!(ReadSide<'_>);
sink_as!(Stream);
sink_as!(WriteSide<'_>);
write_as!(Stream);
write_as!(WriteSide<'_>);
