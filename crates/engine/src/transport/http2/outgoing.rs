//! What leaves on a stream: a head, the bytes of a body, trailers.

use super::error::{StreamError, broken};
use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::{HeaderMap, Request, Response};
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use wire::http2::{RequestSection, trailers_from};
use wire::{Framing, Method};

/// A frame with its head of 9 bytes fills one TLS record. It is also less than what every peer takes (RFC 9113 section
/// 4.2: 16 KiB), so none is cut in two.
const FRAME: usize = 16 * 1024 - 9;

/// Counts the streams of one connection while they live.
#[derive(Debug)]
pub(crate) struct Streams(Rc<Cell<usize>>);

impl Streams {
    /// One more of those that `open` counts.
    pub(crate) fn count(open: &Rc<Cell<usize>>) -> Rc<Self> {
        open.set(open.get() + 1);
        Rc::new(Self(Rc::clone(open)))
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// Who is at the other end.
pub(super) enum Peer {
    /// A client that waits for the answer to a request with this method.
    Client { respond: SendResponse<Bytes>, method: Method },
    /// An upstream that waits for a request.
    Upstream { send: SendRequest<Bytes>, secure: bool, _streams: Rc<Streams> },
}

/// The sending side of a stream.
pub(super) struct Outgoing {
    peer: Peer,
    state: State,
}

enum State {
    Head,
    Body(SendStream<Bytes>, Rest),
    Done,
}

/// What is still to be sent of a body.
enum Rest {
    /// Nobody knows yet.
    Unknown,
    /// So many bytes, and then these trailers.
    Known(u64, HeaderMap),
}

impl Rest {
    fn of(framing: Framing) -> Self {
        match framing {
            Framing::None => Self::Known(0, HeaderMap::new()),
            Framing::Exact(length) => Self::Known(length, HeaderMap::new()),
            Framing::Chunked | Framing::Frames | Framing::Close => Self::Unknown,
        }
    }

    /// Whether the head is all there is.
    fn is_nothing(&self) -> bool {
        matches!(self, Self::Known(0, _))
    }
}

impl Outgoing {
    pub(super) fn new(peer: Peer) -> Self {
        Self { peer, state: State::Head }
    }

    /// Sends the final head of a response to a client.
    pub(super) fn send_response(&mut self, response: Response<()>, framing: Framing) -> io::Result<()> {
        let Peer::Client { respond, method } = &mut self.peer else { return Ok(()) };
        let rest = Rest::of(if *method == Method::Head { Framing::None } else { framing });
        let stream = respond.send_response(response, rest.is_nothing()).map_err(|error| broken(&error))?;
        self.state = if rest.is_nothing() { State::Done } else { State::Body(stream, rest) };
        Ok(())
    }

    /// Sends the head of an interim response to a client.
    pub(super) fn send_interim(&mut self, response: Response<()>) -> io::Result<()> {
        let Peer::Client { respond, .. } = &mut self.peer else { return Ok(()) };
        respond.send_informational(response).map_err(|error| broken(&error))
    }

    /// Waits until an upstream takes a request.
    pub(super) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Peer::Upstream { send, .. } = &mut self.peer else { return Poll::Ready(Ok(())) };
        // Nothing of the request has been sent yet.
        send.poll_ready(cx).map_err(|_| StreamError::Refused.io())
    }

    /// Sends a request's head to an upstream that takes it: the response to come, and the request's method.
    pub(super) fn send_request(
        &mut self,
        head: RequestSection,
        framing: Framing,
    ) -> io::Result<Option<(ResponseFuture, Method)>> {
        let Peer::Upstream { send, secure, .. } = &mut self.peer else { return Ok(None) };
        let unwritable = |_| StreamError::Malformed("a target or a host that HTTP/2 can't say").io();
        let request: Request<()> = head.into_request(*secure).map_err(unwritable)?;
        let method = Method::from_token(request.method().as_str().as_bytes());
        let rest = Rest::of(framing);
        let sent = send.send_request(request, rest.is_nothing()).map_err(|error| broken(&error))?;
        self.state = if rest.is_nothing() { State::Done } else { State::Body(sent.1, rest) };
        Ok(Some((sent.0, method)))
    }

    /// Takes bytes of the body: how many that were. `owned` makes them the codec's own.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        owned: impl Fn(&[u8]) -> Bytes,
    ) -> Poll<io::Result<usize>> {
        let State::Body(stream, rest) = &mut self.state else {
            // A message that is over takes no more, and its sender knows no better.
            return Poll::Ready(Ok(bytes.len()));
        };
        let mut at = 0;
        while at < bytes.len() {
            let wanted = match rest {
                Rest::Unknown => bytes.len() - at,
                Rest::Known(left, _) => usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len() - at),
            };
            let room = match poll_room(stream, cx, wanted.min(FRAME)) {
                Poll::Ready(room) => room?,
                Poll::Pending if at > 0 => return Poll::Ready(Ok(at)),
                Poll::Pending => return Poll::Pending,
            };
            let data = owned(&bytes[at..at + room]);
            at += room;
            let (mut last, mut over) = (false, false);
            if let Rest::Known(left, trailers) = rest {
                *left -= room as u64;
                over = *left == 0;
                last = over && trailers.is_empty();
            }
            stream.send_data(data, last).map_err(|error| broken(&error))?;
            if over {
                self.finish()?;
                return Poll::Ready(Ok(bytes.len()));
            }
        }
        Poll::Ready(Ok(at))
    }

    /// Says that a body whose length was unknown ends after `count` more bytes, with the trailers in `lines`.
    pub(super) fn end_after(&mut self, count: usize, lines: &[u8]) -> io::Result<()> {
        if let State::Body(stream, rest @ Rest::Unknown) = &mut self.state {
            let trailers = trailers_from(lines);
            if count == 0 && trailers.is_empty() {
                stream.send_data(Bytes::new(), true).map_err(|error| broken(&error))?;
            }
            *rest = Rest::Known(count as u64, trailers);
            if count == 0 {
                return self.finish();
            }
        }
        Ok(())
    }

    /// Ends a body all of whose bytes are sent, by its trailers if it has some.
    fn finish(&mut self) -> io::Result<()> {
        if let State::Body(mut stream, Rest::Known(_, trailers)) =
            std::mem::replace(&mut self.state, State::Done)
            && !trailers.is_empty()
        {
            stream.send_trailers(trailers).map_err(|error| broken(&error))?;
        }
        Ok(())
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Waits until the other side resets the stream or is gone.
    pub(super) fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match (&mut self.state, &mut self.peer) {
            (State::Body(stream, _), _) => stream.poll_reset(cx).map(drop),
            (State::Head, Peer::Client { respond, .. }) => respond.poll_reset(cx).map(drop),
            _ => Poll::Pending,
        }
    }
}

impl Drop for Outgoing {
    /// A message that breaks off must not look whole.
    fn drop(&mut self) {
        if let (State::Body(stream, _), Peer::Client { .. }) = (&mut self.state, &self.peer) {
            stream.send_reset(Reason::INTERNAL_ERROR);
        }
    }
}

/// Waits until at least one byte of `wanted` may be sent: how many may.
fn poll_room(stream: &mut SendStream<Bytes>, cx: &mut Context<'_>, wanted: usize) -> Poll<io::Result<usize>> {
    stream.reserve_capacity(wanted);
    loop {
        let room = stream.capacity();
        if room > 0 {
            return Poll::Ready(Ok(room.min(wanted)));
        }
        match ready!(stream.poll_capacity(cx)) {
            Some(Ok(_)) => {}
            Some(Err(error)) => return Poll::Ready(Err(broken(&error))),
            None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }
}
