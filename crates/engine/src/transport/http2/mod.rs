//! A stream of an HTTP/2 connection as the rest of the engine sees it: bytes of an HTTP/1.1 connection that carries one
//! message each way.
//!
//! An exchange is written once, for messages in HTTP/1.1's form. Here they become HEADERS and DATA, trailers included,
//! and back; what the form costs is a head's text and, for bodies of unknown length, a few bytes per frame.

mod incoming;
mod outgoing;

pub(crate) use outgoing::Streams;

use bytes::Bytes;
use h2::client::SendRequest;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use incoming::Incoming;
use outgoing::{Outgoing, Peer};
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tokio::io::ReadBuf;
use wire::Method;

/// One stream. Both directions share it, so each call borrows it for its own length.
pub(crate) struct Http2Stream(RefCell<Both>);

struct Both {
    incoming: Incoming,
    outgoing: Outgoing,
}

impl Http2Stream {
    /// The stream of a client's request with `method`: its body is read, chunked where `chunked` says so, and its
    /// response written.
    pub(crate) fn of_client(
        body: RecvStream,
        chunked: bool,
        respond: SendResponse<Bytes>,
        method: Method,
    ) -> Box<Self> {
        Box::new(Self(RefCell::new(Both {
            incoming: Incoming::body(body, chunked),
            outgoing: Outgoing::new(Peer::Client { respond, method }),
        })))
    }

    /// A stream for one request to an upstream: the request is written, and its response read. `streams` counts it for
    /// as long as it lives.
    pub(crate) fn to_upstream(send: SendRequest<Bytes>, secure: bool, streams: Rc<Streams>) -> Box<Self> {
        Box::new(Self(RefCell::new(Both {
            incoming: Incoming::default(),
            outgoing: Outgoing::new(Peer::Upstream { send, secure, _streams: streams }),
        })))
    }

    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().incoming.poll_read(cx, into)
    }

    /// Sends as much as the windows and the stream's buffer take.
    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let Some(slice) = slices.iter().find(|slice| !slice.is_empty()) else { return Poll::Ready(Ok(0)) };
        self.poll_send(cx, slice, Bytes::copy_from_slice)
    }

    /// The same for bytes that are shared, not copied.
    pub(crate) fn poll_share(&self, cx: &mut Context<'_>, bytes: &Bytes) -> Poll<io::Result<usize>> {
        self.poll_send(cx, bytes, |data| bytes.slice_ref(data))
    }

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        owned: impl Fn(&[u8]) -> Bytes,
    ) -> Poll<io::Result<usize>> {
        let Both { incoming, outgoing } = &mut *self.0.borrow_mut();
        let polled = outgoing.poll_write(cx, bytes, owned);
        if let Some((response, method)) = outgoing.take_response() {
            *incoming = Incoming::response(response, method);
        }
        polled
    }

    /// Ends a message whose end nothing else tells.
    pub(crate) fn finish(&self) {
        self.0.borrow_mut().outgoing.finish();
    }

    /// As [`super::WriteSide::poll_left`]: whether the other side has reset the stream, or its connection is gone.
    pub(crate) fn poll_left(&self, cx: &mut Context<'_>) -> Poll<bool> {
        self.0.borrow_mut().outgoing.poll_reset(cx).map(|()| true)
    }

    /// Whether the other side has reset the stream before it got the whole answer.
    pub(crate) fn is_cut(&self) -> bool {
        let outgoing = &mut self.0.borrow_mut().outgoing;
        !outgoing.is_done() && outgoing.poll_reset(&mut Context::from_waker(Waker::noop())).is_ready()
    }
}

impl std::fmt::Debug for Http2Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Http2Stream")
    }
}

/// Why a stream failed, where that says more than the end of a connection would. The source of an [`io::Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamError {
    /// The other side has not processed the request, which may be sent again whatever its method (RFC 9113 section 8.7):
    /// it was never sent, reset with REFUSED_STREAM, or is above the last stream of a GOAWAY.
    Refused,
    /// The other side reset the stream after it had begun to process it.
    Reset,
}

impl StreamError {
    fn io(self) -> io::Error {
        io::Error::new(io::ErrorKind::ConnectionReset, self)
    }

    /// The reason behind `error`, if it came from a stream.
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl std::fmt::Display for StreamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Refused => "request not processed (REFUSED_STREAM or GOAWAY)",
            Self::Reset => "stream reset by peer (RST_STREAM)",
        })
    }
}

impl std::error::Error for StreamError {}

/// A stream's error as an error of its bytes.
fn broken(error: &h2::Error) -> io::Error {
    let refused = error.is_go_away() || error.reason() == Some(Reason::REFUSED_STREAM);
    match error.get_io() {
        Some(io) => io.kind().into(),
        // GOAWAY fails the streams alone that are above its last one; those below it go on.
        None if error.is_remote() && refused => StreamError::Refused.io(),
        None if error.is_remote() && error.is_reset() => StreamError::Reset.io(),
        None => io::ErrorKind::ConnectionReset.into(),
    }
}
