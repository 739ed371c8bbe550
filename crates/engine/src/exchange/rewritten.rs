//! A response whose body a plugin puts another one in place of, or makes something else of. Bodies stream; these few are
//! held, up to the limit that the plugin named.

use super::download::{BodyFlow, Delivery, Ends};
use super::relay::Job;
use super::respond::{self, Framing};
use crate::error::ProxyError;
use crate::io;
use plugin::{Exchange, ResponseBody};
use std::borrow::Cow;
use std::cell::Cell;
use wire::Method;
use wire::http1::BodyDecoder;

impl Ends<'_, '_, '_> {
    /// Takes in as much of the upstream's body as is needed, and sends head and new body. An error means that the client
    /// has been sent nothing. `buffer[..filled]` begins with the response's head.
    pub(super) async fn deliver_changed(
        &mut self,
        buffer: &mut [u8],
        filled: usize,
        job: &mut Job<'_, '_, '_>,
        change: ResponseBody,
        body_done: &Cell<bool>,
    ) -> Result<Delivery, ProxyError> {
        let Job { message, exchange, timeouts, .. } = job;
        let response = &*message.response;
        let head = buffer[..response.length].to_vec();
        let mut flow = BodyFlow {
            decoder: BodyDecoder::new(response.body),
            framing: Framing::Close,
            start: response.length,
            filled,
            read_timeout: timeouts.read,
        };
        let mut held = Vec::new();
        let limit_bytes = match &change {
            // What has come with the head is enough to tell whether the connection can be used again.
            ResponseBody::Replace(_) => 0,
            ResponseBody::Transform { limit_bytes, .. } => *limit_bytes,
        };
        let ended = loop {
            let (_, ended) = flow.take(&buffer[..flow.filled], &mut held)?;
            if ended || held.len() >= limit_bytes {
                break ended;
            }
            flow.refill(self, buffer).await?;
        };
        held.truncate(limit_bytes);
        let body = changed(change, Cow::Owned(held));
        let bodiless =
            exchange.request.view.head.facts.method == Method::Head || matches!(exchange.status, 204 | 304);
        let framing = if bodiless {
            exchange.reply_headers.remove("Content-Length");
            Framing::None
        } else {
            exchange.reply_headers.set_number("Content-Length", body.len() as u64);
            Framing::Exact(body.len() as u64)
        };
        let client_keeps = body_done.get() && respond::keeps_alive(self.worker, self.config, exchange);
        respond::write_relayed_head(
            self.worker,
            exchange,
            response,
            &head,
            framing,
            client_keeps,
            message.out,
        );
        let head_len = message.out.len();
        if !bodiless {
            message.out.extend_from_slice(&body);
        }
        self.timer.arm(self.worker.clock.deadline_ms(self.config.client.send_timeout));
        if io::write_all(self.client, message.out, self.timer).await.is_err() {
            return Ok(Delivery::CUT);
        }
        exchange.timing.sent_bytes = message.out.len() as u64;
        exchange.timing.sent_body_bytes = (message.out.len() - head_len) as u64;
        let upstream_reusable = response.keep_alive && ended && flow.start == flow.filled;
        Ok(Delivery { complete: true, client_keeps, upstream_reusable })
    }
}

/// What plugins want to be done with the response's body.
pub(super) fn change(exchange: &mut Exchange<'_>) -> Option<ResponseBody> {
    exchange.extras.as_mut()?.response_body.take()
}

/// What becomes of `body`.
pub(super) fn changed(change: ResponseBody, body: Cow<'_, [u8]>) -> Vec<u8> {
    match change {
        ResponseBody::Replace(body) => body,
        ResponseBody::Transform { transform, .. } => transform(body.into_owned()),
    }
}
