//! A response that a plugin kept, sent as if its upstream had just made it: hooks and filters meet it like any other.
//! Preconditions and ranges of the request are answered here, as for files.

use super::After;
use super::body::RequestBody;
use super::client_head::{ClientHead, Fields};
use super::ends::Ends;
use super::job::Job;
use super::outcome;
use super::outcome::{RelayOutcome, UpstreamReuse};
use super::partial::Asked;
use super::progress::Upload;
use super::pump::{BodyOrigin, Next, Pump};
use super::respond::{self, Message, Rest};
use super::transmit::Way;
use crate::buffers::RELAY_BUFFER;
use crate::error::{ErrorKind, ProxyError, Side};
use crate::link::Link;
use crate::transport::WriteSide;
use plugin::{Exchange, KeptResponse, UpstreamResponse};
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
    let upload = Upload::done();
    let mut way = Way::new((link.worker, link.config, link.timer), &mut client, &upload);
    match way.replay(message, exchange, route, kept, rest != Rest::Much).await {
        Ok(keep_alive) => respond::after_reply(body, keep_alive, rest),
        Err(error) if error.side != Side::Client && exchange.timing.sent_bytes == 0 => {
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
        let settled = self.way.upload.sent.get();
        match self.way.replay(job.message, job.exchange, job.route, kept, settled).await {
            Ok(client_keeps) => Ok(RelayOutcome::Completed { client_keeps, upstream }),
            Err(error) if error.side != Side::Client && job.exchange.timing.sent_bytes == 0 => {
                job.exchange.forget_coding();
                Err(error)
            }
            Err(error) => Ok(outcome::cut_off(job.exchange, &error)),
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
                let sent = self
                    .send_stored(exchange, head, parts.as_deref().unwrap_or(slice::from_ref(&body)))
                    .await;
                sent.map_err(|error| ProxyError::io(Side::Client, &error))
            }
            Some(filters) => {
                let Head { response, bytes, out, may_keep } = head;
                let mut pump = Pump::new(Fields::Relayed(response, bytes), filters, may_keep);
                let buffer = self.worker.buffers.take_relay();
                let mut origin = StoredBody { way: self, body: &body, at: 0, buffer };
                let sent = pump.run(&mut origin, exchange, out).await;
                origin.way.worker.buffers.put_relay(origin.buffer);
                sent.map(|_| pump.keeps())
            }
        }
    }

    /// Sends a head and a body that is made of `segments`; whether the connection may carry another request.
    async fn send_stored(
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
}

/// A body that is there, in memory or in a file.
struct StoredBody<'b, 'w, 'c> {
    way: &'b mut Way<'w, 'c>,
    body: &'b Segment,
    at: u64,
    buffer: Box<[u8]>,
}

impl<'w, 'c: 'w> BodyOrigin<'w, 'c> for StoredBody<'_, 'w, 'c> {
    async fn next(&mut self) -> Result<Next<'_>, ProxyError> {
        if self.at == self.body.length() {
            return Ok(Next::End);
        }
        if self.at > 0 {
            // Compressing takes a while: others have their turn between two pieces.
            tokio::task::yield_now().await;
        }
        let piece = self
            .body
            .piece(self.at, &mut self.buffer)
            .map_err(|error| ProxyError::io(Side::Upstream, &error))?;
        let piece = &piece[..piece.len().min(RELAY_BUFFER)];
        self.at += piece.len() as u64;
        Ok(Next::Data(piece))
    }

    fn is_over(&self) -> bool {
        self.at == self.body.length()
    }

    fn way(&mut self) -> &mut Way<'w, 'c> {
        self.way
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
