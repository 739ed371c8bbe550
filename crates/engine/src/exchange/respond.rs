//! Responses that the gateway makes itself, and what all responses have in common.

use super::body::RequestBody;
use super::client_head::{ClientHead, Fields};
use super::progress::Upload;
use super::transmit::Way;
use super::{After, phases, pump};
use crate::config::EngineConfig;
use crate::error::{ErrorKind, ProxyError, Side};
use crate::io;
use crate::link::{LINGERING_TIME, Link};
use crate::worker::Worker;
use plugin::{Chain, Exchange, Remembered, Reply, ResponseSource, UpstreamResponse, has_no_body};
use snapshot::{Route, Snapshot};
use wire::{BodyLength, Framing, ResponseHead, reason};

/// Unread bytes of a request's body that are worth reading to keep the connection.
const DISCARD_MAX: u64 = 256 * 1024;

/// How much of a request's body is still unread when the gateway answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    Nothing,
    /// So little that reading it is cheaper than a new connection, as far as the head tells.
    Little,
    /// More than that, or a body that the client may not send at all.
    Much,
}

/// What a response is made from and in.
pub(super) struct Message<'m> {
    pub(super) snapshot: &'m Snapshot,
    pub(super) response: &'m mut ResponseHead,
    pub(super) out: &'m mut Vec<u8>,
    /// Whether the response hooks have run: once per exchange, also where a response fails after them.
    pub(super) hooks_ran: bool,
}

impl<'m> Message<'m> {
    pub(super) fn new(snapshot: &'m Snapshot, response: &'m mut ResponseHead, out: &'m mut Vec<u8>) -> Self {
        Self { snapshot, response, out, hooks_ran: false }
    }
}

/// Whether the connection may carry another request after this one.
pub(super) fn keeps_alive(worker: &Worker, config: &EngineConfig, exchange: &Exchange<'_>) -> bool {
    let limits = &config.client;
    exchange.request.view.head.facts.keep_alive
        && !worker.draining.get()
        && exchange.timing.request_number < limits.keepalive_requests
        && !limits.keepalive_timeout.is_zero()
}

/// Runs the response hooks: of the global rules first, then of the route (its consumer's merged in).
pub(super) fn run_hooks(
    worker: &Worker,
    snapshot: &Snapshot,
    route: Option<&Chain>,
    exchange: &mut Exchange<'_>,
    response: UpstreamResponse<'_>,
) {
    let unheard = |chain: &Chain| chain.response.is_empty();
    if snapshot.global.response.is_empty() && exchange.merged.is_none() && route.is_none_or(unheard) {
        return;
    }
    let merged = phases::merged(exchange);
    let chain = phases::in_force(route, &merged);
    for (steps, over) in [
        (&snapshot.global.response[..], chain),
        (chain.map(|chain| &chain.response[..]).unwrap_or_default(), None),
    ] {
        for step in steps {
            if !step.admits(over, exchange) {
                continue;
            }
            if phases::observes(step) {
                let before = Remembered::of(exchange);
                step.hook.response(exchange, &response);
                let verdict = exchange.status;
                before.restore(exchange);
                if verdict != exchange.status {
                    phases::note_verdict(worker, &step.def, verdict, exchange);
                }
            } else {
                step.hook.response(exchange, &response);
            }
        }
    }
}

/// Answers with what the gateway made itself.
pub(super) async fn reply(
    link: &mut Link<'_>,
    message: &mut Message<'_>,
    body: &mut RequestBody<'_>,
    route: Option<&Route>,
    exchange: &mut Exchange<'_>,
    reply: &Reply,
) -> After {
    let rest = rest(body, exchange);
    exchange.status = reply.status;
    let chain = route.map(|route| &route.chain);
    let made = UpstreamResponse { head: None, reply: Some(reply) };
    if !message.hooks_ran {
        run_hooks(link.worker, message.snapshot, chain, exchange, made);
    }
    // As in nginx: a client that sends what can't be understood, or not in time, is not listened to any further.
    let bad = matches!(reply.status, 400 | 408) && reply.body.is_none();
    let keep_alive = rest != Rest::Much && !bad && keeps_alive(link.worker, link.config, exchange);
    let bodiless = has_no_body(exchange.status);
    let page = (reply.body.is_none() && !bodiless).then(|| error_page(exchange.status));
    let content = reply.body.as_deref().or(page.as_deref()).unwrap_or_default();
    let filtered = match exchange.take_body_filters(&made) {
        None => None,
        Some(filters) => match Box::pin(filtered(link, exchange, filters, content)).await {
            Ok(filtered) => Some(filtered),
            Err(error) => return give_up(exchange, &error),
        },
    };
    let content = filtered.as_deref().unwrap_or(content);
    let framing = match has_no_body(exchange.status) {
        true => Framing::None,
        false => Framing::Exact(content.len() as u64),
    };
    let content = if exchange.is_bodiless() { &[][..] } else { content };
    let head = ClientHead { fields: Fields::Reply(reply), framing, keep_alive };
    let begun = head.begin(link.worker, exchange, link.stream.http2(), message.out);
    message.out.extend_from_slice(content);
    let limit = link.timer.within(link.config.client.send_timeout);
    let sent = match begun {
        Ok(()) => io::write_all(link.stream, message.out, limit).await,
        Err(error) => Err(error),
    };
    exchange.timing.sent_bytes += message.out.len() as u64;
    exchange.timing.sent_body_bytes = content.len() as u64;
    match sent {
        Ok(()) => after_reply(body, keep_alive, rest),
        Err(_) => After::Closed,
    }
}

/// Passes an answer of the gateway's own through `filters`. One that a filter fails on is a mistake of the gateway's, and
/// has no body: nobody gets unfiltered what the operator wants filtered.
///
/// # Errors
/// When the client has left.
async fn filtered(
    link: &mut Link<'_>,
    exchange: &mut Exchange<'_>,
    filters: plugin::BodyFilters,
    content: &[u8],
) -> Result<Vec<u8>, ProxyError> {
    let (_, mut client) = link.stream.split();
    let upload = Upload::done();
    let mut way = Way::new((link.worker, link.config, link.timer), &mut client, &upload);
    match pump::whole(&mut way, exchange, filters, content, pump::refused).await {
        Err(error) if error.side != Side::Client => {
            exchange.forget_coding();
            exchange.status = 500;
            Ok(Vec::new())
        }
        made => made,
    }
}

/// Returns how much of the request's body is still unread. The response goes out first; the rest is read afterwards,
/// as nginx does.
pub(super) fn rest(body: &mut RequestBody<'_>, exchange: &Exchange<'_>) -> Rest {
    if body.is_done() {
        return Rest::Nothing;
    }
    let facts = &exchange.request.view.head.facts;
    let waits = facts.expects_continue && !body.has_begun();
    if body.skip_read().is_err() || waits {
        return Rest::Much;
    }
    match body.length() {
        _ if body.is_done() => Rest::Nothing,
        // The stream is reset once it is answered (RFC 9113 section 8.1); others of its connection go on.
        _ if facts.http2 => Rest::Much,
        BodyLength::Exact(length) if length - body.consumed().min(length) > DISCARD_MAX => Rest::Much,
        // What follows a head that can't be understood has no end.
        BodyLength::UntilClose => Rest::Much,
        _ => Rest::Little,
    }
}

/// What becomes of the connection after a response that was sent whole.
pub(super) fn after_reply(body: &RequestBody<'_>, keep_alive: bool, rest: Rest) -> After {
    match (keep_alive, rest) {
        (true, Rest::Nothing) => After::Next { unread: body.unread() },
        (true, _) => After::Drain,
        (false, Rest::Nothing) if body.unread() == 0 => After::Closed,
        (false, _) => After::Linger,
    }
}

/// Discards the rest of a request's body, so that the connection can carry another request.
pub(super) async fn drain(link: &mut Link<'_>, body: &mut RequestBody<'_>) -> After {
    // What they wait for is of no use any more.
    body.filters = None;
    let limit = link.timer.by(link.worker.clock.deadline_ms(LINGERING_TIME));
    match body.discard(link.stream, DISCARD_MAX, limit).await {
        Ok(()) => After::Next { unread: body.unread() },
        Err(ProxyError { kind: ErrorKind::TooLarge | ErrorKind::Protocol, .. }) => After::Linger,
        Err(_) => After::Closed,
    }
}

/// Answers for an upstream that gave no usable response; a client that is gone gets nothing.
pub(super) async fn fail(
    link: &mut Link<'_>,
    message: &mut Message<'_>,
    body: &mut RequestBody<'_>,
    route: Option<&Route>,
    exchange: &mut Exchange<'_>,
    error: ProxyError,
) -> After {
    let after = give_up(exchange, &error);
    if exchange.status == 499 {
        return after;
    }
    reply(link, message, body, route, exchange, &Reply::status(error.status())).await
}

/// Records why an exchange failed. Without an answer its connection is closed.
pub(super) fn give_up(exchange: &mut Exchange<'_>, error: &ProxyError) -> After {
    exchange.source = ResponseSource::Nginx;
    exchange.status = error.status();
    log_failure(exchange, error);
    After::Closed
}

fn log_failure(exchange: &Exchange<'_>, error: &ProxyError) {
    let (client, upstream, status) = (&exchange.client.addr, exchange.upstream.addr(), exchange.status);
    let route = exchange.route.map_or("", |route| route.id.as_str());
    let said = format_args!("{:?}: {}", error.side, error.reason);
    match (error.side, status) {
        // As in nginx: that clients leave is no fault of ours or of the operator's.
        (_, 499) => tracing::info!(%client, upstream, route, status, "{said}"),
        (Side::Gateway, ..500) => tracing::warn!(%client, upstream, route, status, "{said}"),
        _ => tracing::error!(%client, upstream, route, status, "{said}"),
    }
}

/// A short page that says the status, in nginx's form, which clients' tests look for.
fn error_page(status: u16) -> Vec<u8> {
    let title = format!("{status} {}", reason(status));
    format!(
        "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1></center>\r\n\
         <hr><center>Tidegate</center>\r\n</body>\r\n</html>\r\n"
    )
    .into_bytes()
}
