//! The upstream's response, read and passed on to the client piece by piece: no more is read than the client takes.

use super::body::COPY_MAX;
use super::client_head::{ClientHead, Fields, framing};
use super::outcome::{RelayOutcome, UpstreamReuse, check_switch};
use super::partial::Asked;
use super::progress::Upload;
use super::relay::Job;
use super::respond;
use super::transmit::Way;
use super::{response_head, rewritten};
use crate::clock::after_ms;
use crate::connection::Link;
use crate::error::{ErrorKind, ProxyError, Side};
use crate::io::{Sink, Source};
use crate::timer::TimeLimit;
use crate::transport::ReadSide;
use crate::upstream::Connection;
use plugin::{Exchange, Keeper, ResponseSource, UpstreamResponse, Verdict};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use wire::http1::{BodyDecoder, BodyError};
use wire::{BodyEvent, BodyLength, Framing, Method};

/// The ends between which a response travels.
pub(super) struct Ends<'e, 'c, 'u> {
    pub(super) way: Way<'e, 'c>,
    pub(super) upstream: &'e mut ReadSide<'u>,
}

/// A wait for bytes of the upstream.
pub(super) struct Wait<'t> {
    limit: TimeLimit<'t>,
    /// When the client begins to be watched, in worker time; 0 before the wait begins.
    watch_from_ms: u64,
}

/// Passes on the response to a request that has been sent whole.
pub(super) async fn run(
    link: &mut Link<'_>,
    job: &mut Job<'_, '_, '_>,
    connection: &mut Connection,
    replayable: bool,
) -> Result<RelayOutcome, ProxyError> {
    let parts = (link.worker, link.config, link.timer);
    let (_, mut client) = link.stream.split();
    let (mut upstream, _) = connection.stream.split();
    let upload = Upload::done();
    let mut ends = Ends { way: Way::new(parts, &mut client, &upload), upstream: &mut upstream };
    ends.deliver(job, replayable).await
}

impl<'e> Ends<'e, '_, '_> {
    /// Reads the response's head, passes interim ones on, then head and body. `replayable` says whether the request
    /// may be sent again if nothing comes back.
    pub(super) async fn deliver(
        &mut self,
        job: &mut Job<'_, '_, '_>,
        replayable: bool,
    ) -> Result<RelayOutcome, ProxyError> {
        let (mut buffer, filled) = self.first_read(job.timeouts.read, replayable).await?;
        let result = self.deliver_from(&mut buffer, filled, job).await;
        self.way.worker.buffers.put_relay(buffer);
        let time = job.exchange.upstream.started.elapsed();
        job.exchange.upstream.time = Some(time);
        job.latency = time.saturating_sub(self.way.upload.client_wait.get());
        result
    }

    /// Waits for the response's first bytes; a buffer is held only once there are some.
    async fn first_read(
        &mut self,
        timeout: Duration,
        replayable: bool,
    ) -> Result<(Box<[u8]>, usize), ProxyError> {
        let mut wait = self.wait(timeout);
        let mut begins = true;
        let read = poll_fn(|cx| {
            // The usual case: the request has just been sent.
            if std::mem::take(&mut begins) && self.upstream.poll_readable(cx).is_pending() {
                return self.pending(&mut wait, cx).map(Err);
            }
            let mut buffer = self.way.worker.buffers.take_relay();
            let mut slot = ReadBuf::new(&mut buffer);
            let polled = Pin::new(&mut *self.upstream).poll_read(cx, &mut slot);
            let filled = slot.filled().len();
            if filled > 0 && matches!(polled, Poll::Ready(Ok(()))) {
                return Poll::Ready(Ok((buffer, filled)));
            }
            self.way.worker.buffers.put_relay(buffer);
            match polled {
                Poll::Pending => self.pending(&mut wait, cx).map(Err),
                Poll::Ready(Err(error)) => Poll::Ready(Err(ProxyError::io(Side::Upstream, &error))),
                Poll::Ready(Ok(())) => {
                    let early = "upstream closed without a response";
                    Poll::Ready(Err(ProxyError::new(Side::Upstream, ErrorKind::Connection, early)))
                }
            }
        });
        read.await.map_err(|error| {
            let retriable = replayable && error.side == Side::Upstream;
            if retriable { error.retriable() } else { error }
        })
    }

    /// The decoder of a body of which `read` bytes came with its head.
    #[inline]
    pub(super) fn decoder(&self, length: BodyLength, read: usize) -> BodyDecoder {
        match self.upstream.http2() {
            None => BodyDecoder::new(length),
            Some(stream) => {
                let mut decoder = BodyDecoder::of_frames(length);
                if stream.is_over() {
                    decoder.end_after(read);
                }
                decoder
            }
        }
    }

    /// A wait for bytes of the upstream that begins when there are none.
    pub(super) fn wait(&self, timeout: Duration) -> Wait<'e> {
        Wait { limit: self.way.timer.within(timeout), watch_from_ms: 0 }
    }

    /// Goes on waiting, unless the time is up or the client is gone. The time is the upstream's only once the request's
    /// body is with it: before that, the upload has timeouts of its own.
    pub(super) fn pending(&mut self, wait: &mut Wait<'_>, cx: &mut Context<'_>) -> Poll<ProxyError> {
        let uploaded = self.way.upload.over.get();
        if uploaded && wait.limit.is_over() {
            return Poll::Ready(ProxyError::new(Side::Upstream, ErrorKind::Timeout, "upstream timed out"));
        }
        // HTTP/2 says it without being asked.
        let left =
            self.way.client.is_reset(cx) || (uploaded && self.way.watches && self.client_left(wait, cx));
        if left {
            let gone = "client closed while waiting for the upstream";
            return Poll::Ready(ProxyError::new(Side::Client, ErrorKind::Connection, gone));
        }
        Poll::Pending
    }

    /// Whether the client has closed its connection. Asked only in waits of more than a tick, because most answers come
    /// sooner. Bytes that wait there are the next request; then there is nothing to watch for.
    fn client_left(&mut self, wait: &mut Wait<'_>, cx: &mut Context<'_>) -> bool {
        let now_ms = self.way.worker.clock.now_ms();
        if wait.watch_from_ms == 0 {
            wait.watch_from_ms = after_ms(now_ms, Duration::ZERO);
        }
        if now_ms < wait.watch_from_ms {
            self.way.timer.wake_by(wait.watch_from_ms);
            return false;
        }
        match self.way.client.poll_left(cx) {
            Poll::Pending => false,
            Poll::Ready(left) => {
                self.way.watches = left;
                left
            }
        }
    }

    async fn deliver_from(
        &mut self,
        buffer: &mut [u8],
        mut filled: usize,
        job: &mut Job<'_, '_, '_>,
    ) -> Result<RelayOutcome, ProxyError> {
        if !response_head::at_once(&buffer[..filled], job) {
            Box::pin(self.final_head(buffer, &mut filled, job)).await?;
        }
        let Job { message, exchange, route, timeouts, .. } = job;
        let facts = exchange.request.view.head.facts;
        self.way.upload.answering.set(true);
        self.way.upload.answered_ms.set(self.way.worker.clock.now_ms());
        let response = &*message.response;
        // A plugin may have asked by another method than the client's.
        let unasked = facts.method == Method::Head && response.body != BodyLength::None;
        let framing = if unasked { Framing::None } else { framing(response.body, &facts) };
        exchange.status = response.status;
        exchange.upstream.status = response.status;
        exchange.source = ResponseSource::Upstream;
        let made = UpstreamResponse { head: Some((response, &buffer[..response.length])), reply: None };
        match ask_keeper(exchange, &made) {
            Verdict::Pass => {}
            Verdict::Record(recorder) => exchange.extras().body_filters.tap(recorder),
            Verdict::Instead(kept) => {
                return Box::pin(self.deliver_kept(filled, job, &kept)).await;
            }
        }
        respond::run_hooks(self.way.worker, message.snapshot, Some(&route.chain), exchange, made);
        message.hooks_ran = true;
        let switches = check_switch(response.status, exchange.status)?;
        if !switches && let Some(filters) = rewritten::filters(exchange, response, &made) {
            let delivered = Box::pin(self.deliver_pumped(buffer, filled, job, filters)).await;
            if delivered.is_err() {
                job.exchange.forget_coding();
            }
            return delivered;
        }
        let (start, body, reusable) = (response.length, response.body, response.keep_alive && !unasked);
        let decoder = self.decoder(body, filled - start);
        let client_keeps = framing != Framing::Close
            && !switches
            && self.way.upload.sent.get()
            && respond::keeps_alive(self.way.worker, self.way.config, exchange);
        if self.way.client.http2().is_some() {
            check_begun(decoder, &buffer[start..filled])?;
        }
        let head = ClientHead {
            fields: Fields::Relayed(response, &buffer[..start]),
            framing,
            keep_alive: client_keeps,
        };
        head.begin(self.way.worker, exchange, self.way.client.http2(), message.out)
            .map_err(|error| ProxyError::io(Side::Client, &error))?;
        let mut flow = BodyFlow { decoder, framing, start, filled, read_timeout: timeouts.read };
        // Over HTTP/2 it is sent and counted.
        let head_len = exchange.timing.sent_bytes + message.out.len() as u64;
        if switches {
            // The other protocol's first bytes may have come with the head.
            message.out.extend_from_slice(&buffer[start..filled]);
        }
        let complete = flow.run(self, buffer, message.out, exchange).await?;
        exchange.timing.sent_body_bytes = exchange.timing.sent_bytes.saturating_sub(head_len);
        // Bytes after the response belong to no request: such a connection is not used again.
        let upstream = UpstreamReuse::when(reusable && flow.start == flow.filled);
        Ok(RelayOutcome::of(complete, switches, client_keeps, upstream))
    }
}

/// What a plugin that keeps responses wants to be done with this one.
#[inline]
fn ask_keeper(exchange: &mut Exchange<'_>, made: &UpstreamResponse<'_>) -> Verdict {
    match exchange.extras.as_mut().and_then(|extras| extras.keeper.take()) {
        None => Verdict::Pass,
        Some(keeper) => ask(keeper, exchange, made),
    }
}

fn ask(mut keeper: Box<dyn Keeper>, exchange: &mut Exchange<'_>, made: &UpstreamResponse<'_>) -> Verdict {
    let verdict = keeper.answered(exchange, made);
    if let (Verdict::Record(_), Some((head, bytes))) = (&verdict, made.head) {
        // The upstream was asked for the whole, whatever the client has.
        exchange.status = Asked::of(exchange, head, bytes).seen(head.status);
    }
    verdict
}

/// Checks what came of a body with its head, before that is sent.
#[inline(never)]
fn check_begun(mut decoder: BodyDecoder, read: &[u8]) -> Result<(), ProxyError> {
    decoder.drain(read, &mut 0, &mut Vec::new(), |_| {}).map(drop).map_err(broken)
}

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
    async fn run(
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
                rewritten::cut_off(exchange, &error);
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
