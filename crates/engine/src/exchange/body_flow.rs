//! A body that passes from the upstream to the client as it is, in another framing at most.

use super::body::COPY_MAX;
use super::ends::Ends;
use super::outcome::cut_off;
use crate::error::{ErrorKind, ProxyError, Side};
use crate::io::{Sink, Source};
use plugin::Exchange;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use wire::http1::{BodyDecoder, BodyError};
use wire::{BodyEvent, Framing};

/// A body under way.
pub(super) struct BodyFlow {
    pub(super) decoder: BodyDecoder,
    pub(super) framing: Framing,
    /// `buffer[start..filled]` is read and not yet decoded.
    pub(super) start: usize,
    pub(super) filled: usize,
    pub(super) read_timeout: Duration,
}

impl BodyFlow {
    /// Sends `head` and the body after it; `false` when either side broke off, for a reason that is logged. An error
    /// means that the client has been sent nothing: what came of the body with its head is malformed.
    pub(super) async fn run(
        &mut self,
        ends: &mut Ends<'_, '_, '_>,
        buffer: &mut [u8],
        head: &mut Vec<u8>,
        exchange: &mut Exchange<'_>,
    ) -> Result<bool, ProxyError> {
        match self.pump(ends, buffer, head, exchange).await {
            Ok(()) => Ok(true),
            Err(error) if error.side == Side::Upstream && exchange.timing.sent_bytes == 0 => Err(error),
            Err(error) => {
                cut_off(exchange, &error);
                Ok(false)
            }
        }
    }

    async fn pump(
        &mut self,
        ends: &mut Ends<'_, '_, '_>,
        buffer: &mut [u8],
        out: &mut Vec<u8>,
        exchange: &mut Exchange<'_>,
    ) -> Result<(), ProxyError> {
        loop {
            let (data, ended) = self.take(ends, &buffer[..self.filled], out)?;
            if data.len() > COPY_MAX {
                ends.way.send(out, data).await?;
            } else {
                out.extend_from_slice(data);
                let failed = |error: std::io::Error| ProxyError::io(Side::Client, &error);
                let sent = ends.way.client.send_now(out).map_err(failed)?;
                if sent < out.len() {
                    ends.way.send(&out[sent..], &[]).await?;
                }
            }
            exchange.timing.sent_bytes +=
                (out.len() + if data.len() > COPY_MAX { data.len() } else { 0 }) as u64;
            out.clear();
            if ended {
                return Ok(());
            }
            self.refill(ends, buffer).await?;
        }
    }

    /// Decodes what has been read. Bytes that pass through unchanged are given back, framed ones go to `out`.
    fn take<'b>(
        &mut self,
        ends: &mut Ends<'_, '_, '_>,
        read: &'b [u8],
        out: &mut Vec<u8>,
    ) -> Result<(&'b [u8], bool), ProxyError> {
        if self.framing == Framing::None {
            return Ok((&[], true));
        }
        if let Framing::Exact(_) = self.framing {
            return self.pass(read);
        }
        self.reframe(ends, read, out)
    }

    /// What has been read, as it is; whether the body is over.
    #[inline]
    fn pass<'b>(&mut self, read: &'b [u8]) -> Result<(&'b [u8], bool), ProxyError> {
        let (used, event) = self.decoder.next(&read[self.start..]).map_err(broken)?;
        self.start += used;
        let data = if let BodyEvent::Data(data) = event { data } else { &[] };
        Ok((data, self.decoder.is_done()))
    }

    /// What has been read, in the framing that the client gets; whether the body is over.
    fn reframe<'b>(
        &mut self,
        ends: &mut Ends<'_, '_, '_>,
        read: &'b [u8],
        out: &mut Vec<u8>,
    ) -> Result<(&'b [u8], bool), ProxyError> {
        let mut trailers = Vec::new();
        let (data, over) = if self.framing != Framing::Chunked && self.decoder.is_plain() {
            self.pass(read)?
        } else {
            let Self { decoder, framing, start, .. } = self;
            let over = decoder.drain(read, start, &mut trailers, |data| framing.encode(data, out));
            (&[][..], over.map_err(broken)?)
        };
        if over {
            if trailers.is_empty() {
                trailers = ends.upstream.take_trailers();
            }
            self.framing.encode_end(&trailers, out);
            let ended = ends.way.client.end_after(out.len() + data.len(), &trailers);
            ended.map_err(|error| ProxyError::io(Side::Client, &error))?;
        }
        Ok((data, over))
    }

    /// Reads more.
    pub(super) async fn refill(
        &mut self,
        ends: &mut Ends<'_, '_, '_>,
        buffer: &mut [u8],
    ) -> Result<(), ProxyError> {
        let mut wait = ends.wait(self.read_timeout);
        poll_fn(|cx| match self.poll_refill(ends, buffer, cx) {
            // A call that streams may be silent for long: a client that is gone is not to wait for its next piece.
            Poll::Pending => ends.pending(&mut wait, cx).map(Err),
            read => read,
        })
        .await
    }

    /// Reads what there is to read without waiting; whether there was something.
    pub(super) async fn refill_now(
        &mut self,
        ends: &mut Ends<'_, '_, '_>,
        buffer: &mut [u8],
    ) -> Result<bool, ProxyError> {
        poll_fn(|cx| match self.poll_refill(ends, buffer, cx) {
            Poll::Pending => Poll::Ready(Ok(false)),
            Poll::Ready(read) => Poll::Ready(read.map(|()| true)),
        })
        .await
    }

    /// Reads more. The end of the connection is the end of a body that says so.
    fn poll_refill(
        &mut self,
        ends: &mut Ends<'_, '_, '_>,
        buffer: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), ProxyError>> {
        buffer.copy_within(self.start..self.filled, 0);
        self.filled -= self.start;
        self.start = 0;
        let mut slot = ReadBuf::new(&mut buffer[self.filled..]);
        let read = ready!(Pin::new(&mut *ends.upstream).poll_read(cx, &mut slot));
        let count = slot.filled().len();
        ends.way.upload.answered_ms.set(ends.way.worker.clock.now_ms());
        Poll::Ready(match read {
            Ok(()) => self.took(count).map(|()| {
                if ends.upstream.is_over() {
                    self.decoder.end_after(self.filled - self.start);
                }
            }),
            Err(error) => Err(ProxyError::io(Side::Upstream, &error)),
        })
    }

    /// Takes note of what was read.
    fn took(&mut self, count: usize) -> Result<(), ProxyError> {
        if count > 0 {
            self.filled += count;
            return Ok(());
        }
        if self.decoder.end_after(self.filled - self.start) {
            return Ok(());
        }
        let early = "upstream closed before its response was complete";
        Err(ProxyError::new(Side::Upstream, ErrorKind::Connection, early))
    }
}

pub(super) fn broken(error: BodyError) -> ProxyError {
    ProxyError::new(Side::Upstream, ErrorKind::Protocol, error.0)
}
