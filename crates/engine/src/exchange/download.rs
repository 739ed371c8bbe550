//! The upstream's response, read and passed on to the client piece by piece: no more is read than the client takes.

use super::body_flow::{BodyFlow, broken};
use super::client_head::{ClientHead, Fields, framing};
use super::ends::Ends;
use super::job::Job;
use super::outcome::{RelayOutcome, UpstreamReuse, check_switch};
use super::partial::Asked;
use super::progress::Upload;
use super::respond;
use super::transmit::Way;
use super::{response_head, rewritten};
use crate::error::{ErrorKind, ProxyError, Side};
use crate::link::Link;
use crate::upstream::Connection;
use plugin::{Exchange, Keeper, ResponseSource, UpstreamResponse, Verdict};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use wire::http1::BodyDecoder;
use wire::{BodyLength, Framing, Method};

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

impl Ends<'_, '_, '_> {
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
