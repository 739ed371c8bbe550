//! The response's head, and responses that the gateway makes itself.

use super::body::RequestBody;
use super::request_head::is_nominated;
use super::{After, phases};
use crate::config::EngineConfig;
use crate::connection::{LINGERING_TIME, Link};
use crate::error::{ErrorKind, ProxyError};
use crate::io;
use crate::worker::Worker;
use plugin::{
    Chain, Exchange, Remembered, Reply, ResponseSource, UpstreamResponse, has_no_body, write_field,
};
use snapshot::{Route, Snapshot};
use wire::http1::{KnownSet, Lines, push_decimal};
use wire::{BodyLength, Known, ResponseHead, reason};

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

/// How a response's body is framed towards the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// No body follows; the upstream's `Content-Length`, if any, speaks of what GET would have given.
    None,
    /// The length is known.
    Exact(u64),
    /// Chunks.
    Chunked,
    /// The connection's end is the body's.
    Close,
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
    let merged = exchange.merged.clone();
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

/// The fields of an upstream's response that the gateway doesn't pass on, or writes itself.
const GATEWAYS_OWN: KnownSet =
    Known::HOP_BY_HOP.without_if(Known::Expect, true).with(Known::Date).with(Known::Server);

/// Writes the upstream's head as the client gets it. `bytes` are those of `message.response`.
pub(super) fn write_relayed_head(
    worker: &Worker,
    exchange: &Exchange<'_>,
    response: &ResponseHead,
    bytes: &[u8],
    framing: Framing,
    keep_alive: bool,
    out: &mut Vec<u8>,
) {
    out.clear();
    if exchange.status == response.status && !response.reason.is_empty() {
        // "HTTP/1.x " and then the upstream's own code and reason.
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(bytes.get(9..response.fields_start).unwrap_or_default());
    } else {
        write_status_line(exchange.status, out);
    }
    write_own_lines(worker, exchange, out);
    let edits = &exchange.reply_headers;
    let keeps_length = matches!(framing, Framing::None | Framing::Exact(_));
    let mut lines = Lines::new(bytes, out);
    let left_out = GATEWAYS_OWN
        .without_if(Known::ContentLength, keeps_length && exchange.status != 204)
        .without_if(Known::Upgrade, response.status == 101);
    let all_kept = edits.is_empty() && !response.nominates;
    for field in &response.fields {
        let kept = || {
            !(edits.may_drop(field.name.len()) && edits.drops(field.name.get(bytes)))
                && !(response.nominates && is_nominated(&response.fields, bytes, field))
        };
        if !left_out.has(field.known) && (all_kept || kept()) {
            lines.keep(field);
        }
    }
    lines.flush();
    edits.write(out);
    if framing == Framing::Chunked {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    write_connection(exchange, response.status == 101, keep_alive, out);
    out.extend_from_slice(b"\r\n");
}

/// Writes the head of an interim response: what it says of the upstream's connection is left out. `bytes` are those of
/// `response`.
pub(super) fn write_interim_head(response: &ResponseHead, bytes: &[u8], out: &mut Vec<u8>) {
    out.clear();
    // The code and the reason.
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(bytes.get(9..response.fields_start).unwrap_or_default());
    let mut lines = Lines::new(bytes, out);
    for field in &response.fields {
        let nominated = response.nominates && is_nominated(&response.fields, bytes, field);
        if !field.known.is_hop_by_hop() && !nominated {
            lines.keep(field);
        }
    }
    lines.flush();
    out.extend_from_slice(b"\r\n");
}

/// `Server`, `Date`, and the upstream's status where it is to be shown.
fn write_own_lines(worker: &Worker, exchange: &Exchange<'_>, out: &mut Vec<u8>) {
    worker.clock.write_lines(out);
    let status = match exchange.upstream.status {
        // The proxy's own verdict stands for an upstream that gave none, as `$upstream_status` does in nginx.
        0 if exchange.source == ResponseSource::Nginx && exchange.upstream.addr.is_some() => exchange.status,
        status => status,
    };
    if status >= 500 || (status != 0 && worker.shows_upstream_status.get()) {
        out.extend_from_slice(b"X-APISIX-Upstream-Status: ");
        push_decimal(out, u64::from(status));
        out.extend_from_slice(b"\r\n");
    }
}

fn write_connection(exchange: &Exchange<'_>, upgrade: bool, keep_alive: bool, out: &mut Vec<u8>) {
    let http11 = exchange.request.view.head.facts.http11;
    out.extend_from_slice(match (upgrade, keep_alive, http11) {
        (true, _, _) => b"Connection: upgrade\r\n",
        (_, false, _) => b"Connection: close\r\n",
        (_, true, false) => b"Connection: keep-alive\r\n",
        // HTTP/1.1 keeps connections unless told otherwise.
        (_, true, true) => b"",
    });
}

fn write_status_line(status: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    push_decimal(out, u64::from(status));
    out.push(b' ');
    out.extend_from_slice(reason(status).as_bytes());
    out.extend_from_slice(b"\r\n");
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
    let filtered = exchange.take_body_filters(&made).map(|filters| filtered(filters, content, exchange));
    let content = filtered.as_deref().unwrap_or(content);
    write_reply_head(link, exchange, reply, content.len(), keep_alive, message.out);
    let head_len = message.out.len();
    if !exchange.is_bodiless() {
        message.out.extend_from_slice(content);
    }
    let limit = link.timer.within(link.config.client.send_timeout);
    let sent = io::write_all(link.stream, message.out, limit).await;
    exchange.timing.sent_bytes = message.out.len() as u64;
    exchange.timing.sent_body_bytes = (message.out.len() - head_len) as u64;
    match sent {
        Ok(()) => after_reply(body, keep_alive, rest),
        Err(_) => After::Closed,
    }
}

/// What `filters` make of an answer of the gateway's own. One that a filter fails on is a mistake of the gateway's, and
/// has no body: nobody gets unfiltered what the operator wants filtered.
fn filtered(filters: plugin::BodyFilters, content: &[u8], exchange: &mut Exchange<'_>) -> Vec<u8> {
    filters.whole(content).unwrap_or_else(|error| {
        tracing::error!(status = exchange.status, %error, "a plugin can't go on with the body of an answer");
        exchange.forget_coding();
        exchange.status = 500;
        Vec::new()
    })
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
    let limit = link.timer.by(link.worker.clock.deadline_ms(LINGERING_TIME));
    match body.discard(link.stream, DISCARD_MAX, limit).await {
        Ok(()) => After::Next { unread: body.unread() },
        Err(ProxyError { kind: ErrorKind::TooLarge | ErrorKind::Protocol, .. }) => After::Linger,
        Err(_) => After::Closed,
    }
}

/// Writes the head of an answer with a file.
pub(super) fn write_file_head(
    link: &Link<'_>,
    exchange: &Exchange<'_>,
    answer: &files::Answer,
    keep_alive: bool,
    out: &mut Vec<u8>,
) {
    out.clear();
    write_status_line(exchange.status, out);
    write_own_lines(link.worker, exchange, out);
    let edits = &exchange.reply_headers;
    if edits.is_empty() {
        answer.fields.write(out);
    } else {
        for (name, value) in answer.fields.iter().filter(|(name, _)| !edits.drops(name.as_bytes())) {
            for piece in [name, ": ", value, "\r\n"] {
                out.extend_from_slice(piece.as_bytes());
            }
        }
        edits.write(out);
    }
    if !has_no_body(exchange.status) {
        out.extend_from_slice(b"Content-Length: ");
        push_decimal(out, answer.body.length());
        out.extend_from_slice(b"\r\n");
    }
    write_connection(exchange, false, keep_alive, out);
    out.extend_from_slice(b"\r\n");
}

fn write_reply_head(
    link: &Link<'_>,
    exchange: &Exchange<'_>,
    reply: &Reply,
    length: usize,
    keep_alive: bool,
    out: &mut Vec<u8>,
) {
    out.clear();
    write_status_line(exchange.status, out);
    write_own_lines(link.worker, exchange, out);
    let edits = &exchange.reply_headers;
    let mut line = |name: &str, value: &[u8]| {
        if !edits.drops(name.as_bytes()) {
            write_field(out, name, value);
        }
    };
    let bodiless = has_no_body(exchange.status);
    let typed = reply.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if !typed && !bodiless {
        line("Content-Type", reply.default_type().as_bytes());
    }
    for (name, value) in &reply.headers {
        line(name, value);
    }
    edits.write(out);
    if !bodiless {
        out.extend_from_slice(b"Content-Length: ");
        push_decimal(out, length as u64);
        out.extend_from_slice(b"\r\n");
    }
    write_connection(exchange, false, keep_alive, out);
    out.extend_from_slice(b"\r\n");
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
    if status == 499 {
        // As in nginx: that clients leave is no fault of ours or of the operator's.
        tracing::info!(%client, upstream, route, status, "{said}");
    } else {
        tracing::error!(%client, upstream, route, status, "{said}");
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
