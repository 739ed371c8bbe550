//! A response that a plugin kept, sent as if its upstream had just made it: hooks and filters meet it like any other.
//! Preconditions and ranges of the request are answered here, as for files.

use super::After;
use super::body::RequestBody;
use super::client_head::{ClientHead, Fields};
use super::download::Ends;
use super::outcome::{RelayOutcome, UpstreamReuse};
use super::partial::Asked;
use super::relay::Job;
use super::respond::{self, Message, Rest};
use super::rewritten;
use super::transmit::Way;
use crate::buffers::RELAY_BUFFER;
use crate::connection::Link;
use crate::error::{ErrorKind, ProxyError, Side};
use crate::io::{self, Sink};
use crate::transport::WriteSide;
use plugin::{BodyFilters, Exchange, KeptResponse, UpstreamResponse};
use snapshot::Route;
use std::slice;
use stdx::Segment;
use wire::{BodyLength, Framing, Method, ResponseHead};

/// Answers with `kept`, no upstream asked.
pub(super) async fn answer(
    link: &mut Link<'_>,
    message: &mut Message<'_>,
    body: &mut RequestBody<'_>,
    exchange: &mut Exchange<'_>,
    route: &Route,
    kept: &KeptResponse,
) -> After {
    let rest = respond::rest(body, exchange);
    let (_, mut client) = link.stream.split();
    let mut way = Way { worker: link.worker, config: link.config, timer: link.timer, client: &mut client };
    match way.replay(message, exchange, route, kept, rest != Rest::Much).await {
        Ok(keep_alive) => respond::after_reply(body, keep_alive, rest),
        Err(error) if error.side == Side::Upstream && exchange.timing.sent_bytes == 0 => {
            exchange.forget_coding();
            respond::fail(link, message, body, Some(route), exchange, error).await
        }
        Err(error) => {
            tracing::info!(client = %link.client.addr, reason = error.reason, "a kept response was not sent whole");
            After::Closed
        }
    }
}

impl Ends<'_, '_, '_> {
    /// Sends `kept` instead of the upstream's response, of which `filled` bytes were read. An error means that the client
    /// has been sent nothing.
    pub(super) async fn deliver_kept(
        &mut self,
        filled: usize,
        job: &mut Job<'_, '_, '_>,
        kept: &KeptResponse,
    ) -> Result<RelayOutcome, ProxyError> {
        let response = &*job.message.response;
        // After a 101 it speaks another protocol.
        let reusable = response.keep_alive
            && response.status != 101
            && response.body == BodyLength::None
            && response.length == filled;
        let upstream = UpstreamReuse::when(reusable);
        let Self { worker, config, timer, .. } = *self;
        let mut way = Way { worker, config, timer, client: &mut *self.client };
        match way.replay(job.message, job.exchange, job.route, kept, self.upload.sent.get()).await {
            Ok(client_keeps) => Ok(RelayOutcome::Completed { client_keeps, upstream }),
            Err(error) if error.side == Side::Upstream && job.exchange.timing.sent_bytes == 0 => {
                job.exchange.forget_coding();
                Err(error)
            }
            Err(error) => Ok(rewritten::cut_off(job.exchange, &error)),
        }
    }
}

impl Way<'_, '_> {
    /// Sends head and body; whether the connection may carry another request, which it may not unless the body of this
    /// one is `settled`.
    async fn replay(
        &mut self,
        message: &mut Message<'_>,
        exchange: &mut Exchange<'_>,
        route: &Route,
        kept: &KeptResponse,
        settled: bool,
    ) -> Result<bool, ProxyError> {
        // Fetched behind a client's back: there is nobody to read it for.
        if matches!(self.client, WriteSide::Nowhere) {
            return Ok(false);
        }
        let Message { snapshot, response, out, hooks_ran } = message;
        if response.parse(&kept.head, Method::Get) != Ok(true) {
            let damaged = "a kept response's head can't be read";
            return Err(ProxyError::new(Side::Upstream, ErrorKind::Protocol, damaged));
        }
        let asked = Asked::of(exchange, response, &kept.head);
        exchange.status = asked.status(response.status);
        let body = match exchange.status {
            412 => Segment::from(Vec::new()),
            _ => kept.body.clone(),
        };
        let made = UpstreamResponse { head: Some((response, &kept.head)), reply: None };
        respond::run_hooks(self.worker, snapshot, Some(&route.chain), exchange, made);
        *hooks_ran = true;
        let may_keep = settled && respond::keeps_alive(self.worker, self.config, exchange);
        let head = Head { response, bytes: &kept.head, out, may_keep };
        match exchange.take_body_filters(&made) {
            None => {
                let parts = asked.parts(exchange, &made, &body);
                let sent =
                    self.send(exchange, head, parts.as_deref().unwrap_or(slice::from_ref(&body))).await;
                sent.map_err(|error| ProxyError::io(Side::Client, &error))
            }
            Some(filters) => self.send_filtered(exchange, head, &body, filters).await,
        }
    }

    /// Sends a head and a body that is made of `segments`; whether the connection may carry another request.
    async fn send(
        &mut self,
        exchange: &mut Exchange<'_>,
        mut head: Head<'_>,
        segments: &[Segment],
    ) -> std::io::Result<bool> {
        let length = segments.iter().map(Segment::length).sum();
        if head.response.content_length != Some(length) {
            exchange.reply_headers.set_number("Content-Length", length);
        }
        let (framing, segments) = match exchange.is_bodiless() {
            true => (Framing::None, &[][..]),
            false => (Framing::Exact(length), segments),
        };
        let keep_alive = head.begin(self, exchange, framing)?;
        let sent = self.transmit(head.out, segments).await?;
        exchange.timing.sent_bytes += head.out.len() as u64 + sent;
        exchange.timing.sent_body_bytes += sent;
        Ok(keep_alive)
    }

    /// Sends a head and what `filters` make of `body`; whether the connection may carry another request. No more of
    /// either is in memory than a few pieces.
    async fn send_filtered(
        &mut self,
        exchange: &mut Exchange<'_>,
        mut head: Head<'_>,
        body: &Segment,
        mut filters: BodyFilters,
    ) -> Result<bool, ProxyError> {
        let (mut at, mut made, mut trailers, mut chosen) = (0, Vec::new(), Vec::new(), None);
        head.out.clear();
        loop {
            let wanted = !exchange.is_bodiless();
            let last = !wanted || at == body.length() || !filters.want_more();
            if !last {
                let passed = self.filter_piece(body, at, &mut filters, &mut made);
                at += passed.map_err(|error| rewritten::refused(&error))?;
            } else if wanted {
                filters.finish(&mut trailers, &mut made).map_err(|error| rewritten::refused(&error))?;
            }
            if !last && made.len() < RELAY_BUFFER {
                // Compressing takes a while: others have their turn between two pieces.
                tokio::task::yield_now().await;
                continue;
            }
            let failed = |error: std::io::Error| ProxyError::io(Side::Client, &error);
            let (framing, keep_alive) = match chosen {
                Some(chosen) => chosen,
                None => {
                    let framing = rewritten::framing(exchange, None, last, made.len());
                    rewritten::say_length(exchange, framing);
                    (framing, head.begin(self, exchange, framing).map_err(failed)?)
                }
            };
            chosen = Some((framing, keep_alive));
            let head_len = head.out.len() as u64;
            rewritten::frame(framing, last, &mut made, &trailers, head.out);
            if last {
                self.client.end_after(head.out.len(), &trailers).map_err(failed)?;
            }
            io::write_all(self.client, head.out, self.limit()).await.map_err(failed)?;
            exchange.timing.sent_bytes += head.out.len() as u64;
            exchange.timing.sent_body_bytes += head.out.len() as u64 - head_len;
            head.out.clear();
            if last {
                return Ok(keep_alive);
            }
        }
    }

    /// Sends the piece of `body` at `at` through the filters: how many bytes that were.
    fn filter_piece(
        &self,
        body: &Segment,
        at: u64,
        filters: &mut BodyFilters,
        made: &mut Vec<u8>,
    ) -> std::io::Result<u64> {
        let mut buffer = self.worker.buffers.take_relay();
        let passed = body.piece(at, &mut buffer).and_then(|piece| {
            let piece = &piece[..piece.len().min(RELAY_BUFFER)];
            filters.write(piece, made).map(|()| piece.len() as u64)
        });
        self.worker.buffers.put_relay(buffer);
        passed
    }
}

/// The head of a kept response on its way out.
struct Head<'h> {
    response: &'h ResponseHead,
    bytes: &'h [u8],
    out: &'h mut Vec<u8>,
    /// Whether the connection may carry another request, as far as that is not the framing's to say.
    may_keep: bool,
}

impl Head<'_> {
    /// Begins the response, whose body is framed like this; whether the connection may carry another request.
    fn begin(
        &mut self,
        way: &Way<'_, '_>,
        exchange: &mut Exchange<'_>,
        framing: Framing,
    ) -> std::io::Result<bool> {
        let keep_alive = self.may_keep && framing != Framing::Close;
        let head = ClientHead { fields: Fields::Relayed(self.response, self.bytes), framing, keep_alive };
        head.begin(way.worker, exchange, way.client.http2(), self.out)?;
        Ok(keep_alive)
    }
}
