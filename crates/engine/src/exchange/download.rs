//! The upstream's response, read and passed on to the client piece by piece: no more is read than the client takes.

use super::body::COPY_MAX;
use super::partial::Asked;
use super::relay::Job;
use super::respond::{self, Framing};
use super::{response_head, rewritten};
use crate::buffers::Buffers;
use crate::config::EngineConfig;
use crate::connection::Link;
use crate::error::{ErrorKind, ProxyError, Side};
use crate::io;
use crate::timer::Timer;
use crate::transport::{ReadSide, WriteSide};
use crate::upstream::Connection;
use crate::worker::Worker;
use plugin::{Exchange, Keeper, ResponseSource, UpstreamResponse, Verdict};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use wire::http1::{BodyDecoder, BodyError, chunk_head};
use wire::{BodyEvent, BodyLength, Method};

/// How a response was passed on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delivery {
    /// Whether the client got all of it.
    pub(super) complete: bool,
    /// Whether the client's connection may carry another request.
    pub(super) client_keeps: bool,
    /// Whether the upstream's may.
    pub(super) upstream_reusable: bool,
}

impl Delivery {
    /// Broken off after the head was sent: nothing can be said to the client any more but by closing.
    pub(super) const CUT: Self = Self { complete: false, client_keeps: false, upstream_reusable: false };
}

/// The ends between which a response travels.
pub(super) struct Ends<'e, 'c, 'u> {
    pub(super) worker: &'e Worker,
    pub(super) config: &'e EngineConfig,
    pub(super) timer: &'e Timer,
    pub(super) client: &'e mut WriteSide<'c>,
    /// The client's other half, watched for its end while the upstream thinks; `None` while a body is read from it.
    pub(super) watch: Option<&'e mut ReadSide<'c>>,
    pub(super) upstream: &'e mut ReadSide<'u>,
    pub(super) buffers: &'e Buffers,
    /// Whether the response's final head is on its way: from then on nothing else can be answered.
    pub(super) answering: &'e Cell<bool>,
}

/// Passes on the response to a request that has been sent whole.
pub(super) async fn run(
    link: &mut Link<'_>,
    job: &mut Job<'_, '_, '_>,
    connection: &mut Connection,
    replayable: bool,
) -> Result<Delivery, ProxyError> {
    let worker = link.worker;
    let (mut watch, mut client) = link.stream.split();
    let (mut upstream, _) = connection.stream.split();
    let mut ends = Ends {
        worker,
        config: link.config,
        timer: link.timer,
        client: &mut client,
        watch: Some(&mut watch),
        upstream: &mut upstream,
        buffers: &worker.buffers,
        answering: &Cell::new(false),
    };
    ends.deliver(job, &Cell::new(true), replayable).await
}

impl Ends<'_, '_, '_> {
    /// Reads the response's head, passes interim ones on, then head and body. `replayable` says whether the request
    /// may be sent again if nothing comes back.
    pub(super) async fn deliver(
        &mut self,
        job: &mut Job<'_, '_, '_>,
        body_done: &Cell<bool>,
        replayable: bool,
    ) -> Result<Delivery, ProxyError> {
        let (mut buffer, filled) = self.first_read(job.timeouts.read, replayable).await?;
        let result = self.deliver_from(&mut buffer, filled, job, body_done).await;
        self.buffers.put_relay(buffer);
        job.exchange.upstream.time = Some(job.exchange.upstream.started.elapsed());
        result
    }

    /// Waits for the response's first bytes; a buffer is held only once there are some.
    async fn first_read(
        &mut self,
        patience: Duration,
        replayable: bool,
    ) -> Result<(Box<[u8]>, usize), ProxyError> {
        let deadline_ms = self.worker.clock.deadline_ms(patience);
        // Most answers come within a tick; only for those that don't is the client watched.
        let mut watching = self.watch.is_none();
        self.timer.arm(if watching { deadline_ms } else { self.worker.clock.deadline_ms(Duration::ZERO) });
        poll_fn(|cx| {
            let mut buffer = self.buffers.take_relay();
            let mut slot = ReadBuf::new(&mut buffer);
            let polled = Pin::new(&mut *self.upstream).poll_read(cx, &mut slot);
            let filled = slot.filled().len();
            let error = match polled {
                Poll::Ready(Ok(())) if filled > 0 => return Poll::Ready(Ok((buffer, filled))),
                Poll::Ready(Ok(())) => ProxyError::new(
                    Side::Upstream,
                    ErrorKind::Connection,
                    "upstream closed without a response",
                ),
                Poll::Ready(Err(error)) => ProxyError::io(Side::Upstream, &error),
                Poll::Pending => {
                    self.buffers.put_relay(buffer);
                    if self.timer.expired() && !watching {
                        watching = true;
                        self.timer.arm(deadline_ms);
                    } else if self.timer.expired() {
                        let late = ProxyError::new(Side::Upstream, ErrorKind::Timeout, "upstream timed out");
                        return Poll::Ready(Err(if replayable { late.retriable() } else { late }));
                    }
                    return if self.client.is_reset(cx) || (watching && self.client_left(cx)) {
                        let gone = "client closed while waiting for the upstream";
                        Poll::Ready(Err(ProxyError::new(Side::Client, ErrorKind::Connection, gone)))
                    } else {
                        Poll::Pending
                    };
                }
            };
            self.buffers.put_relay(buffer);
            Poll::Ready(Err(if replayable { error.retriable() } else { error }))
        })
        .await
    }

    /// Whether the client has closed its connection. Bytes that wait there are the next request; then there is nothing
    /// to watch for.
    fn client_left(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(watch) = &mut self.watch else { return false };
        match watch.poll_left(cx) {
            Poll::Pending => false,
            Poll::Ready(true) => true,
            Poll::Ready(false) => {
                self.watch = None;
                false
            }
        }
    }

    async fn deliver_from(
        &mut self,
        buffer: &mut [u8],
        mut filled: usize,
        job: &mut Job<'_, '_, '_>,
        body_done: &Cell<bool>,
    ) -> Result<Delivery, ProxyError> {
        if !response_head::at_once(&buffer[..filled], job) {
            Box::pin(self.final_head(buffer, &mut filled, job)).await?;
        }
        let Job { message, exchange, route, timeouts, .. } = job;
        let facts = exchange.request.view.head.facts;
        self.answering.set(true);
        let response = &*message.response;
        // A plugin may have asked by another method than the client's.
        let unasked = facts.method == Method::Head && response.body != BodyLength::None;
        let framing = if unasked { Framing::None } else { framing(response.body, facts.http11) };
        exchange.status = response.status;
        exchange.upstream.status = response.status;
        exchange.source = ResponseSource::Upstream;
        let made = UpstreamResponse { head: Some((response, &buffer[..response.length])), reply: None };
        let recorder = match ask_keeper(exchange, &made) {
            Verdict::Pass => None,
            Verdict::Record(recorder) => Some(recorder),
            Verdict::Instead(kept) => {
                return Ok(Box::pin(self.deliver_kept(filled, job, &kept, body_done.get())).await);
            }
        };
        respond::run_hooks(self.worker, message.snapshot, Some(&route.chain), exchange, made);
        let filters = exchange.take_body_filters(&made);
        let reshaped = rewritten::is_reshaped(exchange, response);
        if (filters.is_some() || recorder.is_some() || reshaped) && response.status != 101 {
            let passing = rewritten::Passing { filters: filters.unwrap_or_default(), recorder };
            let delivered = Box::pin(self.deliver_passing(buffer, filled, job, passing, body_done)).await;
            if delivered.is_err() {
                job.exchange.forget_coding();
            }
            return delivered;
        }
        let client_keeps = framing != Framing::Close
            && response.status != 101
            && body_done.get()
            && respond::keeps_alive(self.worker, self.config, exchange);
        let bytes = &buffer[..response.length];
        respond::write_relayed_head(
            self.worker,
            exchange,
            response,
            bytes,
            framing,
            client_keeps,
            message.out,
        );
        let (start, body, reusable) = (response.length, response.body, response.keep_alive && !unasked);
        let mut flow =
            BodyFlow { decoder: BodyDecoder::new(body), framing, start, filled, read_timeout: timeouts.read };
        let head_len = message.out.len() as u64;
        if response.status == 101 {
            // The other protocol's first bytes may have come with the head.
            message.out.extend_from_slice(&buffer[start..filled]);
        }
        let complete = flow.run(self, buffer, message.out, exchange).await;
        exchange.timing.sent_body_bytes = exchange.timing.sent_bytes.saturating_sub(head_len);
        if !complete {
            return Ok(Delivery::CUT);
        }
        // Bytes after the response belong to no request: such a connection is not used again.
        Ok(Delivery { complete, client_keeps, upstream_reusable: reusable && flow.start == flow.filled })
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

/// How a body that comes as `length` goes to the client.
pub(super) fn framing(length: BodyLength, http11: bool) -> Framing {
    match length {
        BodyLength::None => Framing::None,
        BodyLength::Exact(length) => Framing::Exact(length),
        BodyLength::Chunked | BodyLength::UntilClose if http11 => Framing::Chunked,
        BodyLength::Chunked | BodyLength::UntilClose => Framing::Close,
    }
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
    /// Sends `head` and the body after it. `false` when either side broke off; the reason is logged.
    async fn run(
        &mut self,
        ends: &mut Ends<'_, '_, '_>,
        buffer: &mut [u8],
        head: &mut Vec<u8>,
        exchange: &mut Exchange<'_>,
    ) -> bool {
        match self.pump(ends, buffer, head, exchange).await {
            Ok(()) => true,
            Err(error) => rewritten::cut_off(exchange, &error).complete,
        }
    }

    async fn pump(
        &mut self,
        ends: &mut Ends<'_, '_, '_>,
        buffer: &mut [u8],
        out: &mut Vec<u8>,
        exchange: &mut Exchange<'_>,
    ) -> Result<(), ProxyError> {
        let send_timeout = ends.config.client.send_timeout;
        loop {
            let (data, ended) = self.take(&buffer[..self.filled], out)?;
            let deadline_ms = ends.worker.clock.deadline_ms(send_timeout);
            ends.timer.arm(deadline_ms);
            let failed = |error: std::io::Error| ProxyError::io(Side::Client, &error);
            if data.len() > COPY_MAX {
                io::write_both(ends.client, out, data, ends.timer).await.map_err(failed)?;
            } else {
                out.extend_from_slice(data);
                let sent = ends.client.send_now(out).map_err(failed)?;
                if sent < out.len() {
                    io::write_all(ends.client, &out[sent..], ends.timer).await.map_err(failed)?;
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
    fn take<'b>(&mut self, read: &'b [u8], out: &mut Vec<u8>) -> Result<(&'b [u8], bool), ProxyError> {
        if self.framing == Framing::None {
            return Ok((&[], true));
        }
        if let Framing::Exact(_) = self.framing {
            let (used, event) = self.decoder.next(&read[self.start..]).map_err(broken)?;
            self.start += used;
            let data = if let BodyEvent::Data(data) = event { data } else { &[] };
            return Ok((data, self.decoder.is_done()));
        }
        let chunked = self.framing == Framing::Chunked;
        loop {
            let (used, event) = self.decoder.next(&read[self.start..]).map_err(broken)?;
            self.start += used;
            match event {
                BodyEvent::Data(data) if chunked => {
                    chunk_head(out, data.len());
                    out.extend_from_slice(data);
                    out.extend_from_slice(b"\r\n");
                }
                BodyEvent::Data(data) => out.extend_from_slice(data),
                BodyEvent::Trailers(lines) => {
                    if chunked {
                        out.extend_from_slice(b"0\r\n");
                        out.extend_from_slice(lines);
                        out.extend_from_slice(b"\r\n");
                    }
                    return Ok((&[], true));
                }
                BodyEvent::End => {
                    if chunked {
                        out.extend_from_slice(b"0\r\n\r\n");
                    }
                    return Ok((&[], true));
                }
                BodyEvent::NeedMore => return Ok((&[], false)),
            }
        }
    }

    /// Decodes what has been read and gives out each piece of the body, and at last its trailer section; whether the body
    /// is over.
    pub(super) fn each(
        &mut self,
        read: &[u8],
        trailers: &mut Vec<u8>,
        mut piece: impl FnMut(&[u8]) -> Result<(), ProxyError>,
    ) -> Result<bool, ProxyError> {
        loop {
            let (used, event) = self.decoder.next(&read[self.start..]).map_err(broken)?;
            self.start += used;
            match event {
                BodyEvent::Data(data) => piece(data)?,
                BodyEvent::Trailers(lines) => {
                    trailers.extend_from_slice(lines);
                    return Ok(true);
                }
                BodyEvent::End => return Ok(true),
                BodyEvent::NeedMore => return Ok(false),
            }
        }
    }

    /// Reads more.
    pub(super) async fn refill(
        &mut self,
        ends: &mut Ends<'_, '_, '_>,
        buffer: &mut [u8],
    ) -> Result<(), ProxyError> {
        ends.timer.arm(ends.worker.clock.deadline_ms(self.read_timeout));
        poll_fn(|cx| self.poll_refill(ends, buffer, cx)).await
    }

    /// Reads what there is to read without waiting; whether there was something.
    pub(super) async fn refill_now(
        &mut self,
        ends: &mut Ends<'_, '_, '_>,
        buffer: &mut [u8],
    ) -> Result<bool, ProxyError> {
        ends.timer.arm(ends.worker.clock.deadline_ms(self.read_timeout));
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
        let reading = pin!(io::read(ends.upstream, &mut buffer[self.filled..], ends.timer));
        // A call that streams may be silent for long: who takes it back is not to wait for its next piece.
        let read = match reading.poll(cx) {
            Poll::Pending if ends.client.is_reset(cx) => {
                let gone = "client gave up the request while its response was under way";
                return Poll::Ready(Err(ProxyError::new(Side::Client, ErrorKind::Connection, gone)));
            }
            polled => ready!(polled),
        };
        Poll::Ready(self.took(read.map_err(|error| ProxyError::io(Side::Upstream, &error))?))
    }

    /// Takes note of what was read.
    fn took(&mut self, count: usize) -> Result<(), ProxyError> {
        if count > 0 {
            self.filled += count;
            return Ok(());
        }
        if self.decoder.ends_with_connection() {
            self.decoder = BodyDecoder::new(BodyLength::None);
            return Ok(());
        }
        let early = "upstream closed before its response was complete";
        Err(ProxyError::new(Side::Upstream, ErrorKind::Connection, early))
    }
}

fn broken(error: BodyError) -> ProxyError {
    ProxyError::new(Side::Upstream, ErrorKind::Protocol, error.0)
}
