//! One request of a plugin and its response, on one connection.
//!
//! Polled by hand, because both directions share the connection and the reader of the response drives both: a request
//! body that is streamed goes on being sent while the response's body is read.

use super::{Operation, PLUGIN_WAIT_MAX};
use crate::error::{ErrorKind, ProxyError, Side};
use crate::io::Sink;
use crate::upstream::{AddrPool, Connection};
use crate::worker::Worker;
use bytes::Bytes;
use plugin::{BodySource, CallTimeouts, Fields};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};
use wire::http1::{BodyDecoder, BodyError};
use wire::http2::RequestSection;
use wire::{BodyEvent, BodyLength, Framing, Method, ResponseError, ResponseHead};

/// Interim responses that are skipped before the final one; a server has no reason to send more.
const INTERIM_MAX: usize = 8;

/// A request that is being sent and the response that is being read.
pub(super) struct Conversation {
    worker: Rc<Worker>,
    pool: Rc<AddrPool>,
    /// `None` once it is back in its pool.
    connection: Option<Box<Connection>>,
    method: Method,
    timeouts: CallTimeouts,
    /// The request's head over HTTP/2, until it is sent.
    request: Option<RequestSection>,
    /// How the request's body is framed.
    framing: Framing,
    /// Bytes of the request from `sent` on are still to be sent.
    out: Vec<u8>,
    sent: usize,
    /// The rest of the request's body.
    upload: Option<Box<dyn BodySource>>,
    /// Whether the server stopped reading the request: then the connection is of no further use.
    refused: bool,
    /// Bytes read; a buffer is held only while there are some.
    buffer: Option<Box<[u8]>>,
    start: usize,
    filled: usize,
    head: ResponseHead,
    decoder: BodyDecoder,
    /// Whether anything of a response came.
    pub(super) answered: bool,
    patience: Patience,
    _operation: Rc<Operation>,
}

/// The request of a conversation.
pub(super) struct Opening {
    pub(super) method: Method,
    /// Its head over HTTP/2.
    pub(super) head: Option<RequestSection>,
    /// How its body is framed.
    pub(super) framing: Framing,
    /// Its head over HTTP/1.1, and what is there of its body.
    pub(super) bytes: Vec<u8>,
    /// The rest of its body.
    pub(super) stream: Option<Box<dyn BodySource>>,
}

/// What a conversation waits for, and until when.
#[derive(Default)]
struct Patience {
    waits: Option<Wait>,
    sleep: Option<Pin<Box<Sleep>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// For the next piece of a body that is streamed to the server.
    Source,
    Send,
    Read,
}

impl Conversation {
    /// A conversation that begins with `opening`.
    pub(super) fn new(
        worker: &Rc<Worker>,
        pool: Rc<AddrPool>,
        mut connection: Box<Connection>,
        opening: Opening,
        timeouts: CallTimeouts,
        operation: &Rc<Operation>,
    ) -> Self {
        let Opening { method, head: request, framing, bytes: out, stream: upload } = opening;
        connection.requests += 1;
        Self {
            worker: Rc::clone(worker),
            pool,
            connection: Some(connection),
            method,
            timeouts,
            request,
            framing,
            out,
            sent: 0,
            upload,
            refused: false,
            buffer: None,
            start: 0,
            filled: 0,
            head: ResponseHead::default(),
            decoder: BodyDecoder::new(BodyLength::None),
            answered: false,
            patience: Patience::default(),
            _operation: Rc::clone(operation),
        }
    }

    /// Sends the request, and reads up to the end of the response's head: its status and fields.
    pub(super) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<(u16, Fields), ProxyError>> {
        let mut interim = 0;
        loop {
            if self.filled > self.start {
                let refused = |reason| ProxyError::new(Side::Upstream, ErrorKind::Protocol, reason);
                if self.has_head().map_err(|error| refused(error.0))? {
                    interim += 1;
                    match self.head.status {
                        101 => return Poll::Ready(Err(refused("upstream switched protocols unasked"))),
                        ..200 if interim > INTERIM_MAX => {
                            return Poll::Ready(Err(refused("upstream sent too many interim responses")));
                        }
                        ..200 => self.start += self.head.length,
                        _ => return Poll::Ready(Ok(self.begin_body())),
                    }
                    continue;
                }
            }
            if ready!(self.poll_more(cx)).map_err(|error| ProxyError::io(Side::Upstream, &error))? == 0 {
                let early = "upstream closed before its response's head was complete";
                return Poll::Ready(Err(ProxyError::new(Side::Upstream, ErrorKind::Connection, early)));
            }
            self.answered = true;
        }
    }

    /// Reads the head at the start of what was read: whether it is complete.
    fn has_head(&mut self) -> Result<bool, ResponseError> {
        let stream = self.connection.as_ref().and_then(|connection| connection.stream.http2());
        match (stream, &self.buffer) {
            (Some(stream), _) => Ok(stream.take_head().is_some_and(|head| {
                self.head = *head;
                true
            })),
            (None, Some(buffer)) => self.head.parse(&buffer[self.start..self.filled], self.method),
            (None, None) => Ok(false),
        }
    }

    /// Takes status and fields out of a head that is complete.
    fn begin_body(&mut self) -> (u16, Fields) {
        let bytes = self.buffer.as_deref().map_or(&[][..], |buffer| &buffer[self.start..self.filled]);
        let nominated = |name: &[u8]| {
            let mut options =
                self.head.fields.iter().filter(|field| field.known == wire::Known::Connection).flat_map(
                    |field| field.value.get(bytes).split(|byte| *byte == b',').map(<[u8]>::trim_ascii),
                );
            self.head.nominates && options.any(|option| option.eq_ignore_ascii_case(name))
        };
        let fields =
            self.head.fields.iter().filter(|field| !field.known.is_hop_by_hop()).filter_map(|field| {
                let name = field.name.get(bytes);
                let text = std::str::from_utf8(name).ok().filter(|_| !nominated(name))?;
                Some((text.to_owned(), field.value.get(bytes).to_vec()))
            });
        let answer = (self.head.status, Fields(fields.collect()));
        self.start += self.head.length;
        let framed = self.connection.as_ref().is_some_and(|connection| connection.stream.is_framed());
        self.decoder = match framed {
            true => BodyDecoder::of_frames(self.head.body),
            false => BodyDecoder::new(self.head.body),
        };
        self.end_if_complete();
        answer
    }

    /// Goes on sending, and reads more into the buffer: how many bytes; 0 at the end.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let sending = match self.poll_send(cx) {
            Poll::Ready(Ok(())) => false,
            Poll::Ready(Err(error)) => {
                if !self.answered && error.kind() == io::ErrorKind::TimedOut {
                    return Poll::Ready(Err(error));
                }
                // The server may have answered before it closed: its answer decides.
                (self.refused, self.upload) = (true, None);
                self.sent = self.out.len();
                false
            }
            Poll::Pending => true,
        };
        let Some(connection) = &mut self.connection else { return Poll::Ready(Ok(0)) };
        let mut buffer = self.buffer.take().unwrap_or_else(|| self.worker.buffers.take_relay());
        buffer.copy_within(self.start..self.filled, 0);
        (self.start, self.filled) = (0, self.filled - self.start);
        let mut slot = ReadBuf::new(&mut buffer[self.filled..]);
        let polled = Pin::new(&mut connection.stream).poll_read(cx, &mut slot);
        let count = slot.filled().len();
        self.filled += count;
        if self.filled > 0 {
            self.buffer = Some(buffer);
        } else {
            self.worker.buffers.put_relay(buffer);
        }
        match polled {
            Poll::Ready(result) => {
                self.patience.progress();
                Poll::Ready(result.map(|()| count))
            }
            // Until the request is sent, its own timeout counts.
            Poll::Pending if sending => Poll::Pending,
            Poll::Pending => self.patience.poll_late(cx, Wait::Read, self.timeouts.read).map(Err),
        }
    }

    /// Sends what there is to send, the streamed body piece by piece.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(connection) = &mut self.connection else { return Poll::Ready(Ok(())) };
        if self.request.is_some()
            && let Some(stream) = connection.stream.http2()
        {
            match stream.poll_request(cx, &mut self.request, self.framing) {
                Poll::Ready(sent) => sent?,
                Poll::Pending => return self.patience.poll_late(cx, Wait::Send, self.timeouts.send).map(Err),
            }
        }
        loop {
            while self.sent < self.out.len() {
                match Pin::new(&mut connection.stream).poll_write(cx, &self.out[self.sent..]) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    Poll::Ready(Ok(count)) => {
                        self.sent += count;
                        self.patience.progress();
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => {
                        return self.patience.poll_late(cx, Wait::Send, self.timeouts.send).map(Err);
                    }
                }
            }
            self.out.clear();
            self.sent = 0;
            let Some(upload) = &mut self.upload else { break };
            match upload.poll_next(cx) {
                Poll::Ready(Some(Ok(piece))) => {
                    self.patience.progress();
                    self.framing.encode(&piece, &mut self.out);
                }
                Poll::Ready(None) => {
                    self.upload = None;
                    self.framing.encode_end(&[], &mut self.out);
                    connection.stream.end_after(0, &[])?;
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                // The source's own time. What was sent so far must not wait for its next piece.
                Poll::Pending => {
                    let _ = Pin::new(&mut connection.stream).poll_flush(cx)?;
                    return self.patience.poll_late(cx, Wait::Source, PLUGIN_WAIT_MAX).map(Err);
                }
            }
        }
        match Pin::new(&mut connection.stream).poll_flush(cx) {
            Poll::Pending => self.patience.poll_late(cx, Wait::Send, self.timeouts.send).map(Err),
            flushed => flushed,
        }
    }

    /// Returns the connection to its pool where the response is complete and both sides may go on with it.
    fn end_if_complete(&mut self) {
        if !self.decoder.is_done() {
            return;
        }
        let clean = self.start == self.filled && self.upload.is_none() && self.sent == self.out.len();
        let kept = self.connection.take().filter(|_| self.head.keep_alive && clean && !self.refused);
        if let Some(connection) = kept {
            self.pool.put(connection, self.worker.clock.now_ms());
        }
        self.release();
    }

    fn release(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.worker.buffers.put_relay(buffer);
        }
        (self.start, self.filled) = (0, 0);
    }

    fn decode(&mut self) -> Result<Decoded, BodyError> {
        if self.decoder.is_done() {
            return Ok(Decoded::End);
        }
        let read = self.buffer.as_deref().map_or(&[][..], |buffer| &buffer[self.start..self.filled]);
        let (used, event) = self.decoder.next(read)?;
        let decoded = match event {
            BodyEvent::Data(data) => Decoded::Piece(Bytes::copy_from_slice(data)),
            BodyEvent::Trailers(_) | BodyEvent::End => Decoded::End,
            BodyEvent::NeedMore => Decoded::NeedMore,
        };
        self.start += used;
        Ok(decoded)
    }
}

enum Decoded {
    Piece(Bytes),
    End,
    NeedMore,
}

impl BodySource for Conversation {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            match self.decode() {
                Ok(Decoded::Piece(piece)) => {
                    self.end_if_complete();
                    return Poll::Ready(Some(Ok(piece)));
                }
                Ok(Decoded::End) => {
                    self.decoder = BodyDecoder::new(BodyLength::None);
                    self.end_if_complete();
                    return Poll::Ready(None);
                }
                Ok(Decoded::NeedMore) => {}
                Err(error) => {
                    self.connection = None;
                    return Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::InvalidData, error.0))));
                }
            }
            match ready!(self.poll_more(cx)) {
                Ok(0) if self.decoder.end_after(0) => self.connection = None,
                Ok(0) => {
                    self.connection = None;
                    return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
                }
                Ok(_) => {}
                Err(error) => {
                    self.connection = None;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.release();
    }
}

impl Patience {
    /// Something was read or written: the next wait begins now.
    fn progress(&mut self) {
        self.waits = None;
    }

    /// Waits at most `timeout` for `wait`, counted from when that wait began: the error once it has passed.
    fn poll_late(&mut self, cx: &mut Context<'_>, wait: Wait, timeout: Duration) -> Poll<io::Error> {
        if self.waits != Some(wait) {
            self.waits = Some(wait);
            match &mut self.sleep {
                Some(sleep) => sleep.as_mut().reset(Instant::now() + timeout),
                None => self.sleep = Some(Box::pin(tokio::time::sleep(timeout))),
            }
        }
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().poll(cx).map(|()| io::ErrorKind::TimedOut.into()),
            None => Poll::Pending,
        }
    }
}
