//! The exchange with an upstream: which node, the request to it, its response to the client.

use super::body::{COPY_MAX, RequestBody};
use super::download;
use super::job::Job;
use super::outcome::{RelayOutcome, UpstreamReuse};
use super::respond::{self, Message};
use super::{After, limits, replay, request_head, upload};
use crate::error::{ErrorKind, ProxyError, Side};
use crate::io;
use crate::link::Link;
use crate::timer::TimeLimit;
use crate::transport::{Http2Stream, Stream};
use crate::tunnel;
use crate::upstream::{
    AddrPool, Connection, NodeState, Pulse, REFUSALS_MAX, Served, State, Target, connect, discovered_form,
    pool_of, secure_pool,
};
use crate::worker::Worker;
use model::resource::Scheme;
use plugin::{AttemptFlow, Exchange, log_for};
use snapshot::{Route, Timeouts, Upstream};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use wire::http2::RequestSection;
use wire::{BodyLength, Framing};

/// Passes the exchange to a node of `upstream`, to another one where that is allowed and helps.
pub(super) async fn run(
    link: &mut Link<'_>,
    message: &mut Message<'_>,
    body: &mut RequestBody<'_>,
    exchange: &mut Exchange<'_>,
    route: &Route,
    upstream: &Arc<Upstream>,
) -> After {
    let worker = link.worker;
    if !body.is_done()
        && (!body.has_begun() || exchange.has_request_filters())
        && let Err(error) = Box::pin(upload::begin(link, body, exchange)).await
    {
        return Box::pin(fail(link, message, body, exchange, route, error)).await;
    }
    let configured = route.timeouts.as_ref().unwrap_or(&upstream.timeouts);
    let timeouts: &Timeouts = &limits::timeouts(exchange, configured);
    let discovered = match &upstream.discovered {
        None => None,
        Some(discovered) => discovered_form(discovered, link.timer.within(timeouts.connect)).await,
    };
    let upstream = discovered.as_ref().unwrap_or(upstream);
    let state = worker.upstreams.state(upstream);
    exchange.upstream.scheme = upstream.scheme.as_str();
    let (mut tried, mut tried_at) = (Vec::new(), Vec::new());
    let mut last = None;
    let (mut tries, mut spent) = (0, Duration::ZERO);
    state.begin();
    loop {
        let key = upstream.hashed(exchange);
        let Some(node) = state.pick(&key, worker.clock.now_ms(), &tried) else {
            // With all nodes tried, what the last one did is the answer.
            let none = ProxyError::new(Side::Upstream, ErrorKind::NoNode, "no valid upstream node");
            let error = last.unwrap_or(none);
            return Box::pin(fail(link, message, body, exchange, route, error)).await;
        };
        let (tried_at, latency) = (&mut tried_at, Duration::ZERO);
        let mut job = Job { message, exchange, route, timeouts, tried_at, sent: false, latency };
        let result = attempt(link, body, &mut job, &state, node).await;
        let (sent, latency) = (job.sent, job.latency);
        let trace = &exchange.upstream;
        let error = result.as_ref().err().copied();
        // What nodes tried before took is not this one's.
        let latency = latency.saturating_sub(spent);
        let served = Served { status: trace.status, broke_off: trace.broke_off, error, latency };
        state.finished(node, &served, worker.clock.now_ms());
        match result {
            Ok(after) => return after,
            Err(error) if error.kind == ErrorKind::Declined => {
                last = last.or(Some(error));
                tried.push(node);
            }
            Err(error)
                if error.retry
                    && upstream.may_retry(tries, exchange.timing.started.elapsed())
                    && worth(&state, worker, sent, exchange) =>
            {
                last = Some(error);
                tries += 1;
                spent = exchange.upstream.started.elapsed();
                log_for!(warn, exchange, "{}; trying another node", error.reason);
                // A lone node is asked again, as APISIX does.
                if state.nodes.len() > 1 {
                    tried.push(node);
                }
            }
            Err(error) => return Box::pin(fail(link, message, body, exchange, route, error)).await,
        }
    }
}

/// Answers for an upstream that gave no usable response: with one that a plugin kept, if it has one for that.
async fn fail(
    link: &mut Link<'_>,
    message: &mut Message<'_>,
    body: &mut RequestBody<'_>,
    exchange: &mut Exchange<'_>,
    route: &Route,
    error: ProxyError,
) -> After {
    let keeper = exchange.extras.as_mut().and_then(|extras| extras.keeper.take());
    let kept = keeper.filter(|_| error.side == Side::Upstream).and_then(|mut keeper| keeper.failed(exchange));
    match kept {
        Some(kept) => {
            log_for!(warn, exchange, "{}; a kept response is sent instead", error.reason);
            replay::answer(link, message, body, exchange, route, &kept).await
        }
        None => respond::fail(link, message, body, Some(route), exchange, error).await,
    }
}

/// Whether another try does no harm to an upstream that is sick. A request that no node was sent is still to be sent for
/// the first time; any other is one more than its clients asked for, and those are limited.
fn worth(state: &State, worker: &Worker, sent: bool, exchange: &Exchange<'_>) -> bool {
    let worth = !sent || state.may_send_again(worker.clock.now_ms());
    if !worth {
        log_for!(warn, exchange, "retry budget exhausted (a fifth of the upstream's requests), not retrying");
    }
    worth
}

/// Asks one node. An error means that the client has been sent nothing.
async fn attempt(
    link: &mut Link<'_>,
    body: &mut RequestBody<'_>,
    job: &mut Job<'_, '_, '_>,
    state: &State,
    node: usize,
) -> Result<After, ProxyError> {
    let worker = link.worker;
    let node = &state.nodes[node];
    let pool = match &node.target {
        Target::Addr(pool) => Rc::clone(pool),
        // What the name takes is not the connection's.
        named => pool_of(&worker.upstreams, named, job.tried_at, link.timer, job.timeouts.connect).await?,
    };
    job.exchange.upstream.addr = Some(Rc::clone(&pool.text));
    job.exchange.upstream.ip_len = pool.ip_len;
    job.exchange.upstream.node = Some(Rc::clone(&node.authority));
    if job.exchange.begin_attempt() {
        run_attempt(job, state, node, &pool)?;
    }
    let pool = match state.upstream.scheme {
        Scheme::Https | Scheme::Grpcs => {
            let host = request_head::host(job.exchange, &state.upstream, node);
            secure_pool(&worker.upstreams, job.message.snapshot, &state.upstream, &pool, host)?
        }
        _ => pool,
    };
    let upgrade = job.route.websocket && job.exchange.request.view.head.facts.upgrade;
    let mut connection = match pool.take() {
        Some(connection) => connection,
        None => connect(&pool, connect_limit(link, job)).await?,
    };
    job.sent = true;
    let (mut may_be_stale, mut refusals) = (connection.reused, 0);
    loop {
        let pulse = connection.pulse.clone();
        let begun = match &connection.stream {
            Stream::Http2(stream) => {
                let head = request_head::section(link, job.exchange, &state.upstream, node);
                Box::pin(send_head(link, body, job, stream, head)).await
            }
            _ => {
                request_head::write(link, job.exchange, &state.upstream, node, upgrade, job.message.out);
                Ok(())
            }
        };
        let conversed = match begun {
            Ok(()) => converse(link, body, job, connection, &pool).await,
            Err(error) => Err(error),
        };
        match conversed {
            // An idle connection may be closed by the other side at any moment: that says nothing about the node. A late
            // answer, or the end of the next connection (which HTTP/2 may share), does.
            Err(ProxyError { retry: true, kind: ErrorKind::Connection, .. })
                if std::mem::take(&mut may_be_stale) =>
            {
                connection = connect(&pool, connect_limit(link, job)).await?;
            }
            // Connections of HTTP/2 end in an orderly way, and take fewer streams than were begun before they could say so.
            Err(ProxyError { retry: true, kind: ErrorKind::Refused, .. }) if refusals < REFUSALS_MAX => {
                refusals += 1;
                connection = connect(&pool, connect_limit(link, job)).await?;
            }
            result => {
                suspect(pulse, &result, job.exchange.upstream.broke_off);
                return result;
            }
        }
    }
}

/// Runs the plugins' hook for attempts, which may decline the node.
#[cold]
fn run_attempt(
    job: &mut Job<'_, '_, '_>,
    state: &State,
    node: &NodeState,
    pool: &AddrPool,
) -> Result<(), ProxyError> {
    let host = request_head::host(job.exchange, &state.upstream, node).to_vec();
    match job.exchange.run_attempt(&node.authority, pool.address, &host) {
        AttemptFlow::Decline => {
            let reason = "a plugin declined the node";
            Err(ProxyError::new(Side::Upstream, ErrorKind::Declined, reason))
        }
        AttemptFlow::Next => Ok(()),
    }
}

/// Has the connection looked at, over which an upstream did not answer in time, or stopped within its answer: it may be
/// gone.
#[inline]
fn suspect(pulse: Option<Rc<Pulse>>, result: &Result<After, ProxyError>, broke_off: bool) {
    let Some(pulse) = pulse else { return };
    let late = matches!(result, Err(ProxyError { side: Side::Upstream, kind: ErrorKind::Timeout, .. }));
    if late || broke_off {
        pulse.suspect();
    }
}

/// The time for a connection, its handshake included.
fn connect_limit<'t>(link: &Link<'t>, job: &Job<'_, '_, '_>) -> TimeLimit<'t> {
    link.timer.by(link.worker.clock.deadline_ms(job.timeouts.connect))
}

/// Sends a request's head over HTTP/2; what is written later is its body alone.
async fn send_head(
    link: &Link<'_>,
    body: &RequestBody<'_>,
    job: &mut Job<'_, '_, '_>,
    stream: &Http2Stream,
    head: RequestSection,
) -> Result<(), ProxyError> {
    job.message.out.clear();
    let replaced = job.exchange.request.edits.as_ref().and_then(|edits| edits.body.as_deref());
    let framing = match (replaced, body.length()) {
        (Some(replaced), _) => Framing::Exact(replaced.len() as u64),
        (None, BodyLength::None) => Framing::None,
        (None, BodyLength::Exact(length)) if !body.is_changed() => Framing::Exact(length),
        (None, BodyLength::Exact(_) | BodyLength::Chunked | BodyLength::UntilClose) => Framing::Frames,
    };
    let (mut head, mut limit) = (Some(head), link.timer.within(job.timeouts.send));
    let sent = poll_fn(|cx| match stream.poll_request(cx, &mut head, framing) {
        Poll::Pending => limit.pending(),
        sent => sent,
    });
    sent.await.map_err(|error| {
        let error = ProxyError::io(Side::Upstream, &error);
        // It can't be said to another node either.
        if error.kind == ErrorKind::Protocol { error } else { error.retriable() }
    })
}

/// One request and its response on `connection`, which goes back to `pool` if it may be used again.
async fn converse(
    link: &mut Link<'_>,
    body: &mut RequestBody<'_>,
    job: &mut Job<'_, '_, '_>,
    mut connection: Box<Connection>,
    pool: &AddrPool,
) -> Result<After, ProxyError> {
    connection.requests += 1;
    let worker = link.worker;
    let replaced = job.exchange.request.edits.as_ref().and_then(|edits| edits.body.clone());
    let outcome = match replaced.as_deref().or(body.whole()) {
        Some(whole) => {
            let replayable = job.exchange.request.view.head.facts.method.is_idempotent();
            let limit = link.timer.within(job.timeouts.send);
            send_whole(&mut connection, job.message.out, whole, limit, replayable).await?;
            download::run(link, job, &mut connection, replayable).await?
        }
        // Rare, and large: not part of every connection's state.
        None => {
            let outcome = Box::pin(upload::both_ways(link, body, job, &mut connection)).await;
            // What was passed on of a body is gone.
            outcome.map_err(|error| ProxyError { retry: error.retry && body.consumed() == 0, ..error })?
        }
    };
    body.consume_whole();
    let (client_keeps, upstream) = match outcome {
        RelayOutcome::Completed { client_keeps, upstream } => (client_keeps, upstream),
        RelayOutcome::Switched => {
            Box::pin(switch(link, job, &mut connection, body.ahead())).await;
            return Ok(After::Closed);
        }
        RelayOutcome::Aborted => return Ok(After::Closed),
    };
    if upstream == UpstreamReuse::Reusable && body.is_sent() {
        pool.put(connection, worker.clock.now_ms());
    }
    Ok(match client_keeps {
        true if body.is_done() => After::Next { unread: body.unread() },
        // Bytes of a next request that stay unread would turn the end into a reset, which could overtake the response.
        _ if body.is_done() && body.unread() == 0 => After::Closed,
        _ => After::Linger,
    })
}

/// Hands the connection over to the other protocol, its first bytes from the client included.
async fn switch(link: &mut Link<'_>, job: &mut Job<'_, '_, '_>, connection: &mut Connection, ahead: &[u8]) {
    let worker = link.worker;
    // The head is out.
    *job.message.out = Vec::new();
    let sides = tunnel::Sides { client: link.stream, upstream: &mut connection.stream };
    let copied = tunnel::run(sides, ahead, worker, link.timer, job.timeouts.read).await;
    let exchange = &mut *job.exchange;
    exchange.timing.sent_bytes += copied.to_client;
    exchange.timing.sent_body_bytes += copied.to_client;
    exchange.upstream.time = Some(exchange.upstream.started.elapsed());
}

/// Sends head and body in as few writes as they take.
async fn send_whole(
    connection: &mut Connection,
    head: &mut Vec<u8>,
    whole: &[u8],
    limit: TimeLimit<'_>,
    replayable: bool,
) -> Result<(), ProxyError> {
    let failed = |error: std::io::Error| {
        let error = ProxyError::io(Side::Upstream, &error);
        // Part of it may have arrived: only what may be sent twice is.
        if replayable { error.retriable() } else { error }
    };
    if whole.len() > COPY_MAX {
        return io::write_both(&mut connection.stream, head, whole, limit).await.map_err(failed);
    }
    head.extend_from_slice(whole);
    let sent = connection.stream.send_now(head).map_err(failed)?;
    if sent < head.len() {
        io::write_all(&mut connection.stream, &head[sent..], limit).await.map_err(failed)?;
    }
    Ok(())
}
