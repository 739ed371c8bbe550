//! A stream of an HTTP/2 connection: one message each way. Heads are sent and received as such, bodies read and written as
//! bytes without a framing of their own.

mod error;
mod incoming;
mod outgoing;

pub(crate) use error::StreamError;
pub(crate) use outgoing::Streams;

use bytes::Bytes;
use h2::RecvStream;
use h2::client::SendRequest;
use h2::server::SendResponse;
use http::Response;
use incoming::Incoming;
use outgoing::{Outgoing, Peer};
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::ReadBuf;
use wire::http2::RequestSection;
use wire::{Framing, Method, ResponseHead};

/// One stream. Both directions share it, so each call borrows it for its own length.
pub(crate) struct Http2Stream(RefCell<Both>);

struct Both {
    incoming: Incoming,
    outgoing: Outgoing,
}

impl Http2Stream {
    /// The stream of a client's request with `method`: its body is read, and its response written.
    pub(crate) fn of_client(body: RecvStream, respond: SendResponse<Bytes>, method: Method) -> Box<Self> {
        Box::new(Self(RefCell::new(Both {
            incoming: Incoming::body(body),
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

    /// Reads the bytes of a head, then those of the body; nothing at the end.
    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().incoming.poll_read(cx, into)
    }

    /// The response's head whose ranges are those of the bytes that [`Self::poll_read`] gave last.
    pub(crate) fn take_head(&self) -> Option<Box<ResponseHead>> {
        self.0.borrow_mut().incoming.take_head()
    }

    /// Whether all of the message was read.
    pub(crate) fn is_over(&self) -> bool {
        self.0.borrow().incoming.is_over()
    }

    /// The lines of the message's trailer section, once it is over.
    pub(crate) fn take_trailers(&self) -> Vec<u8> {
        self.0.borrow_mut().incoming.take_trailers()
    }

    /// Sends a request's head, as soon as the upstream takes it. `head` is empty afterwards.
    pub(crate) fn poll_request(
        &self,
        cx: &mut Context<'_>,
        head: &mut Option<RequestSection>,
        framing: Framing,
    ) -> Poll<io::Result<()>> {
        let Both { incoming, outgoing } = &mut *self.0.borrow_mut();
        ready!(outgoing.poll_ready(cx))?;
        if let Some(head) = head.take()
            && let Some((response, method)) = outgoing.send_request(head, framing)?
        {
            *incoming = Incoming::response(response, method);
        }
        Poll::Ready(Ok(()))
    }

    /// Sends a response's final head.
    pub(crate) fn send_response(&self, response: Response<()>, framing: Framing) -> io::Result<()> {
        self.0.borrow_mut().outgoing.send_response(response, framing)
    }

    /// Sends the head of an interim response.
    pub(crate) fn send_interim(&self, response: Response<()>) -> io::Result<()> {
        self.0.borrow_mut().outgoing.send_interim(response)
    }

    /// Sends as much of a body as the windows and the stream's buffer take.
    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let Some(slice) = slices.iter().find(|slice| !slice.is_empty()) else { return Poll::Ready(Ok(0)) };
        self.0.borrow_mut().outgoing.poll_write(cx, slice, Bytes::copy_from_slice)
    }

    /// The same for bytes that are shared, not copied.
    pub(crate) fn poll_share(&self, cx: &mut Context<'_>, bytes: &Bytes) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().outgoing.poll_write(cx, bytes, |data| bytes.slice_ref(data))
    }

    /// Says that a body of unknown length ends after `count` more bytes, with the trailers in `lines`.
    pub(crate) fn end_after(&self, count: usize, lines: &[u8]) -> io::Result<()> {
        self.0.borrow_mut().outgoing.end_after(count, lines)
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
