//! What comes on a stream: heads, the bytes of a body, trailers.

use super::error::{StreamError, broken};
use bytes::{Buf, Bytes};
use h2::RecvStream;
use h2::client::ResponseFuture;
use http::StatusCode;
use http::response::Parts;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::ReadBuf;
use wire::http2::{read_response, read_trailers};
use wire::{Method, ResponseHead};

/// The receiving side of a stream.
#[derive(Default)]
pub(super) struct Incoming {
    source: Source,
    /// Of the body, what is received and not given out.
    data: Bytes,
    /// The head whose bytes were given out last.
    head: Option<Box<ResponseHead>>,
    /// The lines of the trailer section.
    trailers: Vec<u8>,
}

/// What is still to come.
#[derive(Default)]
enum Source {
    /// Nothing.
    #[default]
    Ended,
    /// The answer to a request with this method.
    Response(ResponseFuture, Method),
    Body(RecvStream),
    /// The body is over, trailers may follow.
    Trailers(RecvStream),
}

/// How far reading came.
enum Step {
    /// There may be more at hand.
    On,
    /// An interim head is given out; nothing is put behind it.
    Interim,
    End,
}

impl Incoming {
    /// A body.
    pub(super) fn body(body: RecvStream) -> Self {
        Self { source: Source::Body(body), ..Self::default() }
    }

    /// A response, head and body.
    pub(super) fn response(response: ResponseFuture, method: Method) -> Self {
        Self { source: Source::Response(response, method), ..Self::default() }
    }

    /// Whether all of the message was given out.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.source, Source::Ended) && self.data.is_empty()
    }

    /// The head whose ranges are those of the bytes given out last.
    pub(super) fn take_head(&mut self) -> Option<Box<ResponseHead>> {
        self.head.take()
    }

    /// The lines of the trailer section, once the message is over.
    pub(super) fn take_trailers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.trailers)
    }

    /// Gives out what is there: the bytes that a head is in, which [`Self::take_head`] tells apart, and those of a body as
    /// they are. Nothing at the end.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        loop {
            self.give(into);
            if into.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            let given = into.filled().len() > before;
            match self.poll_next(cx, into) {
                Poll::Ready(Ok(Step::On)) => {}
                Poll::Ready(Ok(Step::Interim | Step::End)) => return Poll::Ready(Ok(())),
                // What came before the error is given out; the error comes back with the next call.
                _ if given => return Poll::Ready(Ok(())),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Copies data, and lets the peer send as much again as was taken.
    fn give(&mut self, into: &mut ReadBuf<'_>) {
        let count = self.data.len().min(into.remaining());
        into.put_slice(&self.data[..count]);
        self.data.advance(count);
        if let Source::Body(body) | Source::Trailers(body) = &mut self.source
            && count > 0
        {
            // Refused only for more than was received.
            let _ = body.flow_control().release_capacity(count);
        }
    }

    /// Takes the next frame in, once all before it is given out.
    fn poll_next(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<Step>> {
        match &mut self.source {
            Source::Ended => return Poll::Ready(Ok(Step::End)),
            Source::Response(response, method) => {
                let method = *method;
                // Read before the response itself: the codec keeps them in memory until then.
                if let Poll::Ready(Some(interim)) = response.poll_informational(cx) {
                    let (parts, ()) = interim.map_err(|error| broken(&error))?.into_parts();
                    if parts.status == StatusCode::SWITCHING_PROTOCOLS {
                        // RFC 9113 section 8.6.
                        return Poll::Ready(Err(StreamError::Malformed("101 in HTTP/2").io()));
                    }
                    self.give_head(&parts, true, method, into)?;
                    return Poll::Ready(Ok(Step::Interim));
                }
                let response = ready!(Pin::new(response).poll(cx)).map_err(|error| broken(&error))?;
                let (parts, body) = response.into_parts();
                let ends = body.is_end_stream();
                self.source = if ends { Source::Ended } else { Source::Body(body) };
                self.give_head(&parts, ends, method, into)?;
            }
            Source::Body(body) => match ready!(body.poll_data(cx)) {
                Some(data) => self.data = data.map_err(|error| broken(&error))?,
                None => {
                    if let Source::Body(body) = std::mem::take(&mut self.source) {
                        self.source = Source::Trailers(body);
                    }
                }
            },
            Source::Trailers(body) => {
                let trailers = ready!(body.poll_trailers(cx)).map_err(|error| broken(&error))?;
                self.source = Source::Ended;
                if let Some(trailers) = trailers {
                    let malformed = |error: wire::http1::BodyError| StreamError::Malformed(error.0).io();
                    read_trailers(&trailers, &mut self.trailers).map_err(malformed)?;
                }
            }
        }
        Poll::Ready(Ok(Step::On))
    }

    fn give_head(
        &mut self,
        parts: &Parts,
        ends: bool,
        method: Method,
        into: &mut ReadBuf<'_>,
    ) -> io::Result<()> {
        let mut head = Box::<ResponseHead>::default();
        let filled = read_response(parts, ends, method, &mut head, into.initialize_unfilled());
        into.advance(filled.map_err(|error| StreamError::Malformed(error.0).io())?);
        self.head = Some(head);
        Ok(())
    }
}
