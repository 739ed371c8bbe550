//! An answer of a plugin whose body comes piece by piece: events, or the response to a call of its own. Hooks and
//! filters meet it like a response of the upstream.

use super::After;
use super::body::RequestBody;
use super::client_head::{self, Fields};
use super::outcome;
use super::progress::Upload;
use super::pump::{BodyOrigin, Next, Pump};
use super::respond::{self, Message, Rest};
use super::transmit::Way;
use crate::error::{ErrorKind, ProxyError, Side};
use crate::link::Link;
use crate::services::PLUGIN_WAIT_MAX;
use bytes::Bytes;
use plugin::{Answer, BodySource, Exchange, UpstreamResponse};
use snapshot::Route;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use wire::http1::push_decimal;
use wire::{BodyLength, FieldSink, Framing, Known, Method};

/// Sends `answer`.
pub(super) async fn answer(
    link: &mut Link<'_>,
    message: &mut Message<'_>,
    body: &mut RequestBody<'_>,
    exchange: &mut Exchange<'_>,
    route: Option<&Arc<Route>>,
    mut answer: Answer,
) -> After {
    let rest = respond::rest(body, exchange);
    let bytes = head(&answer);
    if message.response.parse(&bytes, Method::Get) != Ok(true) {
        let error =
            ProxyError::new(Side::Upstream, ErrorKind::Protocol, "a plugin's answer has an invalid head");
        return respond::fail(link, message, body, route.map(Arc::as_ref), exchange, error).await;
    }
    exchange.status = message.response.status;
    let made = UpstreamResponse { head: Some((message.response, &bytes)), reply: None };
    respond::run_hooks(link.worker, message.snapshot, route.map(|route| &route.chain), exchange, made);
    message.hooks_ran = true;
    let filters = exchange.take_body_filters(&made).unwrap_or_default();
    let changes = filters.change_anything();
    let (response, out) = (&*message.response, &mut *message.out);
    let announced = response.content_length.filter(|_| !exchange.is_bodiless());
    let may_keep = rest != Rest::Much && respond::keeps_alive(link.worker, link.config, exchange);
    let mut pump = Pump::new(Fields::Relayed(response, &bytes), filters, may_keep);
    if !changes {
        let facts = &exchange.request.view.head.facts;
        let streamed = || client_head::framing(BodyLength::Chunked, facts);
        pump.unchanged = Some(announced.map_or_else(streamed, Framing::Exact));
    }
    let (_, mut client) = link.stream.split();
    let upload = Upload::done();
    let way = &mut Way::new((link.worker, link.config, link.timer), &mut client, &upload);
    let (piece, source) = (Bytes::new(), &mut *answer.body);
    let mut origin = PluginBody { way, source, left: announced, piece, paused: false };
    match pump.run(&mut origin, exchange, out).await {
        Ok(_) => respond::after_reply(body, pump.keeps(), rest),
        Err(error) if !pump.has_begun() => {
            exchange.forget_coding();
            respond::fail(link, message, body, route.map(Arc::as_ref), exchange, error).await
        }
        Err(error) => {
            outcome::cut_off(exchange, &error);
            After::Closed
        }
    }
}

/// Returns the head of `answer` as a server would have sent it, without the fields of the connection.
fn head(answer: &Answer) -> Vec<u8> {
    let mut head = b"HTTP/1.1 ".to_vec();
    push_decimal(&mut head, u64::from(answer.status));
    head.extend_from_slice(b" \r\n");
    for (name, value) in &answer.fields.0 {
        let known = Known::classify(name.as_bytes());
        if !known.is_hop_by_hop() && known != Known::TransferEncoding {
            head.any(name, value);
        }
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// The body of a plugin's answer.
struct PluginBody<'b, 'w, 'c> {
    way: &'b mut Way<'w, 'c>,
    source: &'b mut dyn BodySource,
    /// Bytes that the head announced and that are still to come.
    left: Option<u64>,
    piece: Bytes,
    /// Whether the last part was a pause.
    paused: bool,
}

impl<'w, 'c: 'w> BodyOrigin<'w, 'c> for PluginBody<'_, 'w, 'c> {
    async fn next(&mut self) -> Result<Next<'_>, ProxyError> {
        if self.left == Some(0) {
            return Ok(Next::End);
        }
        let mut limit = self.way.timer.within(PLUGIN_WAIT_MAX);
        let next = poll_fn(|cx| match self.source.poll_next(cx) {
            Poll::Ready(next) => Poll::Ready(Ok(Some(next))),
            Poll::Pending if !self.paused => Poll::Ready(Ok(None)),
            Poll::Pending => self.way.pending(&mut limit, cx),
        });
        let Some(next) = next.await? else {
            self.paused = true;
            return Ok(Next::Pause);
        };
        self.paused = false;
        match (next, &mut self.left) {
            (None, Some(_)) => Err(broken("a plugin's answer is shorter than announced")),
            (None, None) => Ok(Next::End),
            (Some(Err(error)), _) => Err(ProxyError::io(Side::Upstream, &error)),
            (Some(Ok(piece)), left) => {
                if let Some(left) = left {
                    let longer = || broken("a plugin's answer is longer than announced");
                    *left = left.checked_sub(piece.len() as u64).ok_or_else(longer)?;
                }
                self.piece = piece;
                Ok(Next::Data(&self.piece))
            }
        }
    }

    fn is_over(&self) -> bool {
        self.left == Some(0)
    }

    fn way(&mut self) -> &mut Way<'w, 'c> {
        self.way
    }
}

fn broken(reason: &'static str) -> ProxyError {
    ProxyError::new(Side::Upstream, ErrorKind::Protocol, reason)
}
