//! What comes on a stream: a response's head, a body, trailers; given out as bytes of HTTP/1.1.

use super::broken;
use bytes::{Buf, Bytes};
use h2::RecvStream;
use h2::client::ResponseFuture;
use http::StatusCode;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::ReadBuf;
use wire::Method;
use wire::http1::chunk_head;
use wire::http2::{write_response, write_trailers};

/// The receiving side of a stream.
#[derive(Default)]
pub(super) struct Incoming {
    source: Source,
    chunked: bool,
    /// Whether a chunk has been begun: the line end after it is still owed.
    in_chunk: bool,
    /// Text of the head or the framing, given out from `text_at` on, before `data`.
    text: Vec<u8>,
    text_at: usize,
    data: Bytes,
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

impl Incoming {
    /// A body.
    pub(super) fn body(body: RecvStream, chunked: bool) -> Self {
        Self { source: Source::Body(body), chunked, ..Self::default() }
    }

    /// A response, head and body.
    pub(super) fn response(response: ResponseFuture, method: Method) -> Self {
        Self { source: Source::Response(response, method), ..Self::default() }
    }

    /// Gives out what is there; nothing at the end.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        loop {
            self.give(into);
            if into.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            let given = into.filled().len() > before;
            match self.poll_next(cx) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => return Poll::Ready(Ok(())),
                // What came before the error is given out; the error comes back with the next call.
                _ if given => return Poll::Ready(Ok(())),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Copies text and data, and lets the peer send as much again as was taken.
    fn give(&mut self, into: &mut ReadBuf<'_>) {
        let text = &self.text[self.text_at..];
        let count = text.len().min(into.remaining());
        into.put_slice(&text[..count]);
        self.text_at += count;
        if self.text_at == self.text.len() {
            self.text.clear();
            self.text_at = 0;
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
    }

    /// Takes the next frame in, once all before it is given out; false at the end.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        match &mut self.source {
            Source::Ended => return Poll::Ready(Ok(false)),
            Source::Response(response, method) => {
                // Read before the response itself: the codec keeps them in memory until then.
                if let Poll::Ready(Some(interim)) = response.poll_informational(cx) {
                    let (parts, ()) = interim.map_err(|error| broken(&error))?.into_parts();
                    if parts.status == StatusCode::SWITCHING_PROTOCOLS {
                        // RFC 9113 section 8.6.
                        return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "101 in HTTP/2")));
                    }
                    write_response(&parts, true, true, &mut self.text);
                    return Poll::Ready(Ok(true));
                }
                let response = ready!(Pin::new(response).poll(cx)).map_err(|error| broken(&error))?;
                let (parts, body) = response.into_parts();
                let ends = body.is_end_stream();
                let bodiless = *method == Method::Head;
                self.chunked = write_response(&parts, ends, bodiless, &mut self.text);
                self.source = if ends { Source::Ended } else { Source::Body(body) };
            }
            Source::Body(body) => match ready!(body.poll_data(cx)) {
                Some(data) => {
                    self.data = data.map_err(|error| broken(&error))?;
                    // An empty chunk would be the last.
                    if self.chunked && !self.data.is_empty() {
                        self.text.extend_from_slice(if self.in_chunk { b"\r\n" } else { b"" });
                        chunk_head(&mut self.text, self.data.len());
                        self.in_chunk = true;
                    }
                }
                None => {
                    if let Source::Body(body) = std::mem::take(&mut self.source) {
                        self.source = Source::Trailers(body);
                    }
                }
            },
            Source::Trailers(body) => {
                let trailers = ready!(body.poll_trailers(cx)).map_err(|error| broken(&error))?;
                self.source = Source::Ended;
                if self.chunked {
                    self.text.extend_from_slice(if self.in_chunk { b"\r\n0\r\n" } else { b"0\r\n" });
                    write_trailers(&trailers.unwrap_or_default(), &mut self.text);
                    self.text.extend_from_slice(b"\r\n");
                }
            }
        }
        Poll::Ready(Ok(true))
    }
}
