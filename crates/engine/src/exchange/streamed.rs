//! An answer of a plugin whose body comes piece by piece: events, or the response to a call of its own. Hooks and
//! filters meet it like a response of the upstream.

use super::After;
use super::body::RequestBody;
use super::client_head::{self, ClientHead, Fields};
use super::respond::{self, Message, Rest};
use super::rewritten;
use crate::connection::Link;
use crate::error::{ErrorKind, ProxyError, Side};
use crate::io::{self, Sink};
use crate::services::PLUGIN_WAIT_MAX;
use crate::timer::TimeLimit;
use crate::transport::WriteSide;
use bytes::Bytes;
use plugin::{Answer, BodyFilters, BodySource, Exchange, UpstreamResponse};
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
    let filters = exchange.take_body_filters(&made);
    let announced = message.response.content_length.filter(|_| filters.is_none());
    let framing = match announced {
        _ if exchange.is_bodiless() => Framing::None,
        Some(length) => Framing::Exact(length),
        None => client_head::framing(BodyLength::Chunked, &exchange.request.view.head.facts),
    };
    if announced.is_none() {
        rewritten::say_length(exchange, framing);
    }
    let keep_alive = rest != Rest::Much
        && framing != Framing::Close
        && respond::keeps_alive(link.worker, link.config, exchange);
    let (response, out) = (&*message.response, &mut *message.out);
    let head = ClientHead { fields: Fields::Relayed(response, &bytes), framing, keep_alive };
    if head.begin(link.worker, exchange, link.stream.http2(), out).is_err() {
        return After::Closed;
    }
    let mut sender = Sender { framing, left: announced, filters: filters.unwrap_or_default(), out };
    match sender.run(link, exchange, &mut *answer.body).await {
        Ok(()) => respond::after_reply(body, keep_alive, rest),
        Err(error) => {
            rewritten::cut_off(exchange, &error);
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

/// A body on its way from a source to the client.
struct Sender<'o> {
    framing: Framing,
    /// Bytes that the head announced and that are still to come.
    left: Option<u64>,
    filters: BodyFilters,
    /// What is to be sent next, the head at first.
    out: &'o mut Vec<u8>,
}

impl Sender<'_> {
    async fn run(
        &mut self,
        link: &mut Link<'_>,
        exchange: &mut Exchange<'_>,
        source: &mut dyn BodySource,
    ) -> Result<(), ProxyError> {
        let (config, timer) = (link.config, link.timer);
        let (_, mut client) = link.stream.split();
        let head_len = self.out.len() as u64;
        let (mut made, mut trailers) = (Vec::new(), Vec::new());
        let mut last = self.framing == Framing::None;
        loop {
            rewritten::frame(self.framing, last, &mut made, &trailers, self.out);
            if last {
                let ended = client.end_after(self.out.len(), &trailers);
                ended.map_err(|error| ProxyError::io(Side::Client, &error))?;
            }
            let limit = timer.within(config.client.send_timeout);
            let sent = io::write_all(&mut client, self.out, limit).await;
            sent.map_err(|error| ProxyError::io(Side::Client, &error))?;
            exchange.timing.sent_bytes += self.out.len() as u64;
            exchange.timing.sent_body_bytes = exchange.timing.sent_bytes.saturating_sub(head_len);
            self.out.clear();
            if last {
                return Ok(());
            }
            let piece = next_piece(source, &client, timer.within(PLUGIN_WAIT_MAX)).await?;
            last = self.take(piece, &mut made, &mut trailers)?;
        }
    }

    /// Passes a piece through the filters; whether the body is over.
    fn take(
        &mut self,
        piece: Option<Bytes>,
        made: &mut Vec<u8>,
        trailers: &mut Vec<u8>,
    ) -> Result<bool, ProxyError> {
        let broken = |reason| ProxyError::new(Side::Upstream, ErrorKind::Protocol, reason);
        let refused = |error: std::io::Error| {
            tracing::error!(%error, "a plugin's filter failed");
            broken("a response's body could not be changed")
        };
        let Some(piece) = piece else {
            if self.left.is_some_and(|left| left > 0) {
                return Err(broken("a plugin's answer is shorter than announced"));
            }
            self.filters.finish(trailers, made).map_err(refused)?;
            return Ok(true);
        };
        if let Some(left) = &mut self.left {
            *left = left
                .checked_sub(piece.len() as u64)
                .ok_or_else(|| broken("a plugin's answer is longer than announced"))?;
        }
        self.filters.write(&piece, made).map_err(refused)?;
        self.filters.flush(made).map_err(refused)?;
        Ok(self.left == Some(0) || !self.filters.want_more())
    }
}

/// Waits for the next piece, as long as the client is there.
async fn next_piece(
    source: &mut dyn BodySource,
    client: &WriteSide<'_>,
    mut limit: TimeLimit<'_>,
) -> Result<Option<Bytes>, ProxyError> {
    let mut watches = true;
    poll_fn(|cx| {
        match source.poll_next(cx) {
            Poll::Ready(Some(Ok(piece))) => return Poll::Ready(Ok(Some(piece))),
            Poll::Ready(None) => return Poll::Ready(Ok(None)),
            Poll::Ready(Some(Err(error))) => {
                return Poll::Ready(Err(ProxyError::io(Side::Upstream, &error)));
            }
            Poll::Pending => {}
        }
        if limit.is_over() {
            let late = "a plugin's answer made no progress for too long";
            return Poll::Ready(Err(ProxyError::new(Side::Upstream, ErrorKind::Timeout, late)));
        }
        if watches && let Poll::Ready(left) = client.poll_left(cx) {
            // Bytes that wait are the client's next request: then there is nothing to watch for.
            watches = false;
            if left {
                let gone = "client closed while a plugin was answering";
                return Poll::Ready(Err(ProxyError::new(Side::Client, ErrorKind::Connection, gone)));
            }
        }
        Poll::Pending
    })
    .await
}
