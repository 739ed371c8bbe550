//! What leaves on a stream: a head, a body, trailers; taken as bytes of HTTP/1.1.

use super::{StreamError, broken};
use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use wire::http1::{BodyDecoder, HEAD_MAX};
use wire::http2::{request_from, response_from, trailers_from};
use wire::{BodyEvent, Method, RequestHead, ResponseHead};

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
    /// What has come of the head.
    head: Vec<u8>,
    state: State,
    /// The answer that a request's head, now sent, will have.
    response: Option<(ResponseFuture, Method)>,
}

enum State {
    Head,
    Body(SendStream<Bytes>, BodyDecoder),
    Done,
}

impl Outgoing {
    pub(super) fn new(peer: Peer) -> Self {
        Self { peer, head: Vec::new(), state: State::Head, response: None }
    }

    /// Takes bytes of the message: how many that were. `owned` makes those of a body the codec's own.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        owned: impl Fn(&[u8]) -> Bytes,
    ) -> Poll<io::Result<usize>> {
        match &mut self.state {
            State::Head => self.poll_head(cx, bytes),
            State::Body(..) => self.poll_body(cx, bytes, owned),
            // A message that is over takes no more, and its sender knows no better.
            State::Done => Poll::Ready(Ok(bytes.len())),
        }
    }

    /// What a request that has just been sent is answered with.
    pub(super) fn take_response(&mut self) -> Option<(ResponseFuture, Method)> {
        self.response.take()
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Ends a body that only the end of its connection ends.
    pub(super) fn finish(&mut self) {
        if let State::Body(stream, decoder) = &mut self.state
            && decoder.ends_with_connection()
        {
            let _ = stream.send_data(Bytes::new(), true);
            self.state = State::Done;
        }
    }

    /// Waits until the other side resets the stream or is gone.
    pub(super) fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match (&mut self.state, &mut self.peer) {
            (State::Body(stream, _), _) => stream.poll_reset(cx).map(drop),
            (State::Head, Peer::Client { respond, .. }) => respond.poll_reset(cx).map(drop),
            _ => Poll::Pending,
        }
    }

    /// Gathers the head and sends it when it is complete. Bytes after it are not taken.
    fn poll_head(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Peer::Upstream { send, .. } = &mut self.peer {
            // Nothing of the request has been sent yet.
            ready!(send.poll_ready(cx)).map_err(|_| StreamError::Refused.io())?;
        }
        let before = self.head.len();
        let taken = &bytes[..bytes.len().min(HEAD_MAX * 2)];
        self.head.extend_from_slice(taken);
        let length = match &self.peer {
            Peer::Client { .. } => self.send_response()?,
            Peer::Upstream { .. } => self.send_request()?,
        };
        Poll::Ready(Ok(length.map_or(taken.len(), |length| length - before)))
    }

    /// Sends the response's head, if it is complete: its length.
    fn send_response(&mut self) -> io::Result<Option<usize>> {
        let Peer::Client { respond, method } = &mut self.peer else { return Ok(None) };
        let mut head = ResponseHead::default();
        if !head.parse_own(&self.head, *method).map_err(|error| unfit(error.0))? {
            return Ok(None);
        }
        let bytes = Bytes::from(std::mem::take(&mut self.head));
        let response = response_from(&head, &bytes);
        if head.status < 200 {
            respond.send_informational(response).map_err(|error| broken(&error))?;
        } else {
            let decoder = BodyDecoder::new(head.body);
            let stream = respond.send_response(response, decoder.is_done());
            let stream = stream.map_err(|error| broken(&error))?;
            self.state = if decoder.is_done() { State::Done } else { State::Body(stream, decoder) };
        }
        Ok(Some(head.length))
    }

    /// Sends the request's head, if it is complete: its length.
    fn send_request(&mut self) -> io::Result<Option<usize>> {
        let Peer::Upstream { send, secure, .. } = &mut self.peer else { return Ok(None) };
        let mut head = RequestHead::default();
        if !head.parse_own(&self.head).map_err(|error| unfit(error.reason()))? {
            return Ok(None);
        }
        let bytes = Bytes::from(std::mem::take(&mut self.head));
        let unwritable = |_| unfit("a target or a host that HTTP/2 can't say");
        let request = request_from(&head, &bytes, *secure).map_err(unwritable)?;
        let decoder = BodyDecoder::new(head.facts.body);
        let sent = send.send_request(request, decoder.is_done()).map_err(|error| broken(&error))?;
        self.response = Some((sent.0, head.facts.method));
        self.state = if decoder.is_done() { State::Done } else { State::Body(sent.1, decoder) };
        Ok(Some(head.length))
    }

    /// Sends what the windows and the stream's buffer take. The last frame is held back until it is known whether it
    /// ends the stream.
    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        owned: impl Fn(&[u8]) -> Bytes,
    ) -> Poll<io::Result<usize>> {
        let State::Body(stream, decoder) = &mut self.state else { return Poll::Ready(Ok(0)) };
        let (mut at, mut held) = (0, None);
        let mut trailers = None;
        let mut ended = false;
        while at < bytes.len() && !ended {
            let before = *decoder;
            let (mut used, mut event) = decoder.next(&bytes[at..]).map_err(|error| unfit(error.0))?;
            if let BodyEvent::Data(data) = event {
                if let Some(frame) = held.take() {
                    stream.send_data(frame, false).map_err(|error| broken(&error))?;
                }
                let room = match poll_room(stream, cx, data.len().min(FRAME)) {
                    Poll::Ready(room) => room?,
                    Poll::Pending => {
                        *decoder = before;
                        return if at > 0 { Poll::Ready(Ok(at)) } else { Poll::Pending };
                    }
                };
                if room < data.len() {
                    *decoder = before;
                    let less = at + used - (data.len() - room);
                    (used, event) = decoder.next(&bytes[at..less]).map_err(|error| unfit(error.0))?;
                }
            }
            at += used;
            match event {
                BodyEvent::Data(data) => {
                    held = Some(owned(data));
                    // A chunked body ends with its last chunk, one of known length with its last byte.
                    ended = decoder.is_done();
                }
                BodyEvent::Trailers(lines) => {
                    trailers = Some(trailers_from(lines));
                    ended = true;
                }
                BodyEvent::End => ended = true,
                BodyEvent::NeedMore if used == 0 => break,
                BodyEvent::NeedMore => {}
            }
        }
        let last = ended && trailers.is_none();
        if held.is_some() || last {
            stream.send_data(held.unwrap_or_default(), last).map_err(|error| broken(&error))?;
        }
        if let Some(trailers) = trailers {
            stream.send_trailers(trailers).map_err(|error| broken(&error))?;
        }
        if ended {
            self.state = State::Done;
        }
        Poll::Ready(Ok(at))
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

fn unfit(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
