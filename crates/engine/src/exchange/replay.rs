//! A response that a plugin kept, sent as if its upstream had just made it: hooks and filters meet it like any other.

use super::After;
use super::body::RequestBody;
use super::download::{Delivery, Ends};
use super::relay::Job;
use super::respond::{self, Framing, Message};
use crate::config::EngineConfig;
use crate::connection::Link;
use crate::error::{ErrorKind, ProxyError, Side};
use crate::io;
use crate::timer::Timer;
use crate::transport::WriteSide;
use crate::worker::Worker;
use plugin::{Exchange, KeptResponse, UpstreamResponse};
use snapshot::Route;
use wire::{BodyLength, Method};

/// The way to the client.
struct Way<'w, 'c> {
    worker: &'w Worker,
    config: &'w EngineConfig,
    timer: &'w Timer,
    client: &'w mut WriteSide<'c>,
}

/// Answers with `kept`, no upstream asked.
pub(super) async fn answer(
    link: &mut Link<'_>,
    message: &mut Message<'_>,
    body: &mut RequestBody<'_>,
    exchange: &mut Exchange<'_>,
    route: &Route,
    kept: &KeptResponse,
) -> After {
    let settled = respond::settle(link, body, exchange).await;
    let (_, mut client) = link.stream.split();
    let mut way = Way { worker: link.worker, config: link.config, timer: link.timer, client: &mut client };
    match way.send(message, exchange, route, kept, settled).await {
        Ok(keep_alive) => respond::after_reply(body, keep_alive, settled),
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
        body_done: bool,
    ) -> Delivery {
        let response = &*job.message.response;
        let upstream_reusable =
            response.keep_alive && response.body == BodyLength::None && response.length == filled;
        let Self { worker, config, timer, .. } = *self;
        let mut way = Way { worker, config, timer, client: &mut *self.client };
        match way.send(job.message, job.exchange, job.route, kept, body_done).await {
            Ok(client_keeps) => Delivery { complete: true, client_keeps, upstream_reusable },
            Err(error) => super::rewritten::cut_off(job.exchange, &error),
        }
    }
}

impl Way<'_, '_> {
    /// Sends head and body; whether the connection may carry another request, which it may not unless the body of this
    /// one is `settled`.
    async fn send(
        &mut self,
        message: &mut Message<'_>,
        exchange: &mut Exchange<'_>,
        route: &Route,
        kept: &KeptResponse,
        settled: bool,
    ) -> Result<bool, ProxyError> {
        let Message { snapshot, response, out } = message;
        if response.parse(&kept.head, Method::Get) != Ok(true) {
            let damaged = "a kept response's head can't be read";
            return Err(ProxyError::new(Side::Upstream, ErrorKind::Protocol, damaged));
        }
        exchange.status = response.status;
        let made = UpstreamResponse { head: Some((response, &kept.head)), reply: None };
        respond::run_hooks(self.worker, snapshot, Some(&route.chain), exchange, made);
        let filtered = exchange.take_body_filters(&made).and_then(|filters| filters.whole(&kept.body).ok());
        let mut body = filtered.as_deref().unwrap_or(&kept.body);
        let mut framing = Framing::Exact(body.len() as u64);
        if filtered.is_some() {
            exchange.reply_headers.set_number("Content-Length", body.len() as u64);
        }
        if exchange.is_bodiless() {
            (framing, body) = (Framing::None, &[]);
        }
        let keep_alive = settled && respond::keeps_alive(self.worker, self.config, exchange);
        respond::write_relayed_head(self.worker, exchange, response, &kept.head, framing, keep_alive, out);
        self.timer.arm(self.worker.clock.deadline_ms(self.config.client.send_timeout));
        let sent = io::write_both(self.client, out, body, self.timer).await;
        exchange.timing.sent_bytes += (out.len() + body.len()) as u64;
        exchange.timing.sent_body_bytes += body.len() as u64;
        sent.map(|()| keep_alive).map_err(|error| ProxyError::io(Side::Client, &error))
    }
}
