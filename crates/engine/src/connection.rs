//! A client's connection: one request after the other, for as long as both sides want.

use crate::buffers::Scratch;
use crate::config::EngineConfig;
use crate::exchange::{self, After};
use crate::http2;
use crate::io;
use crate::link::{LINGERING_TIME, Link};
use crate::named::{Named, named_by_proxy};
use crate::open::Open;
use crate::timer::{Rest, TimeLimit, Timer, attach};
use crate::transport::{self, Stream};
use crate::worker::Worker;
use observe::metrics::State;
use plugin::Client;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use wire::HeadError;
use wire::http1::HEAD_MAX;
use wire::http2::Opening;

/// How long a closing connection waits for more of these bytes: nginx's `lingering_timeout`, and its default.
const LINGERING_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes without a line end after which an incomplete head is looked at all the same, for its length.
const PARSE_EVERY: usize = 1024;

/// Serves an encrypted connection to its end. A task of its own kind, so that those in the clear don't carry the size
/// of a handshake with them.
pub(crate) async fn serve_tls(worker: Rc<Worker>, stream: TcpStream, mut client: Client) {
    // A listener is there only with what it needs, but a reload may have taken that away.
    let Some(server) = worker.config().tls.clone() else { return };
    let session = {
        let open = Open::new(&worker);
        let registration = worker.timers.register();
        attach(&registration.timer).await;
        let ends_at_ms = worker.clock.deadline_ms(worker.config().client.handshake_timeout);
        let limit = registration.timer.by(ends_at_ms);
        let handshake = transport::accept(stream, &server, || worker.snapshot(), limit);
        // Boxed: what a handshake holds is much more than what a connection does afterwards.
        let session = Box::pin(handshake).await;
        drop(open);
        session
    };
    match session {
        Ok((stream, peer)) => {
            client.tls = Some(Rc::new(peer));
            serve(worker, Stream::Tls(stream), client).await;
        }
        // As in APISIX: a name without a certificate is more often the operator's mistake than the client's.
        Err(reason) => tracing::error!(client = %client.addr, "TLS handshake: {reason}"),
    }
}

/// Serves a connection to its end.
#[expect(
    clippy::manual_async_fn,
    reason = "an `async fn` keeps its arguments twice, in every idle connection"
)]
pub(crate) fn serve(worker: Rc<Worker>, mut stream: Stream, client: Client) -> impl Future<Output = ()> {
    async move {
        let open = Open::new(&worker);
        let registration = worker.timers.register();
        let timer = &registration.timer;
        attach(timer).await;
        let forwarded = exchange::forwarded_lines(&client);
        let mut terms = Terms::new(&worker, &client);
        // The first head's time begins with the connection, that of a later one with its first byte.
        let mut head_by_ms = Some(worker.clock.deadline_ms(terms.config.client.header_timeout));
        let mut number = 0;
        let mut kept = None::<Box<Scratch>>;
        loop {
            let limit = match head_by_ms {
                Some(at_ms) => timer.by(at_ms),
                None => timer.within(terms.config.client.keepalive_timeout),
            };
            let begun = first_bytes(&worker, &mut stream, timer, limit, kept.take(), number == 0).await;
            let Some(mut scratch) = begun else { return };
            if !worker.runs(&terms.config) {
                terms = Terms::new(&worker, &client);
            }
            open.is(State::Writing);
            number += 1;
            let mut link = Link {
                worker: &worker,
                config: &terms.config,
                stream: &mut stream,
                client: &client,
                timer,
                forwarded: &forwarded,
                trusted: terms.trusted,
                number,
            };
            let named;
            let after = match read_head(&mut link, &mut scratch, head_by_ms.take()).await {
                Head::Complete => {
                    named = if terms.believed { named_by_proxy(&link, &scratch) } else { None };
                    if let Some(Named { client, forwarded }) = named.as_deref() {
                        (link.client, link.forwarded) = (client, forwarded);
                    }
                    exchange::run(&mut link, &mut scratch).await
                }
                Head::Refused(error) => match opening(&link, &scratch) {
                    Opening::Http2 => {
                        // Boxed: not part of every connection's state.
                        return Box::pin(http2::serve(&worker, stream, scratch, client, timer, &open)).await;
                    }
                    Opening::Http1 => refuse(&mut link, &mut scratch, error.status(), error.reason()).await,
                    Opening::Neither => After::Closed,
                },
                Head::Late => refuse(&mut link, &mut scratch, 408, "request header timed out").await,
                Head::Gone => After::Closed,
            };
            match after {
                After::Next { unread } => {
                    scratch.keep_last(unread);
                    kept = Some(scratch);
                    open.is(if unread == 0 { State::Waiting } else { State::Reading });
                }
                After::Drain | After::Linger => {
                    linger(&worker, &mut stream, timer, &mut scratch).await;
                    return worker.buffers.put_scratch(scratch);
                }
                After::Closed => return worker.buffers.put_scratch(scratch),
            }
        }
    }
}

/// What a connection's requests have in common, for as long as one configuration is in force.
struct Terms {
    config: Rc<EngineConfig>,
    /// Whether the peer's own `X-Forwarded-*` are believed.
    trusted: bool,
    /// Whether the peer may name the client that it speaks for.
    believed: bool,
}

impl Terms {
    fn new(worker: &Worker, client: &Client) -> Self {
        let config = worker.config();
        let trusted = config.trusts(client.peer);
        let believed = config.real_ip.believes(client.ip());
        Self { config, trusted, believed }
    }
}

/// Answers what is no request. Who has agreed to speak HTTP/2 and doesn't would not understand the answer.
async fn refuse(link: &mut Link<'_>, scratch: &mut Scratch, status: u16, reason: &'static str) -> After {
    if link.number == 1 && link.client.tls.as_ref().is_some_and(|tls| tls.http2) {
        return After::Closed;
    }
    exchange::refuse(link, scratch, status, reason).await
}

/// What a refused head begins. With or without TLS, an HTTP/2 client says first that it is one.
fn opening(link: &Link<'_>, scratch: &Scratch) -> Opening {
    if link.number == 1 && link.config.http2 {
        Opening::of(&scratch.input[..scratch.filled])
    } else {
        Opening::Http1
    }
}

/// Waits for the first bytes of a request, unless they came with the last one and are in `spare`. A buffer is held only
/// once there are some. `None` when the connection is over.
async fn first_bytes(
    worker: &Worker,
    stream: &mut Stream,
    timer: &Timer,
    mut limit: TimeLimit<'_>,
    mut spare: Option<Box<Scratch>>,
    fresh: bool,
) -> Option<Box<Scratch>> {
    if let Some(begun) = spare.take_if(|spare| spare.filled > 0) {
        return Some(begun);
    }
    // Nothing else of this task waits.
    timer.clear();
    timer.set_rest(if fresh { Rest::First } else { Rest::Idle });
    let mut begins = true;
    let scratch = poll_fn(|cx| {
        if std::mem::take(&mut begins) && stream.poll_readable(cx).is_pending() {
            // The usual case: the client has just been sent its response.
            if let Some(scratch) = spare.take() {
                worker.buffers.put_scratch(scratch);
            }
        } else {
            let mut scratch = spare
                .take()
                .filter(|spare| spare.is_usual())
                .unwrap_or_else(|| worker.buffers.take_scratch());
            let mut buffer = ReadBuf::new(&mut scratch.input);
            let polled = Pin::new(&mut *stream).poll_read(cx, &mut buffer);
            scratch.filled = buffer.filled().len();
            match polled {
                Poll::Ready(Ok(())) if scratch.filled > 0 => return Poll::Ready(Some(scratch)),
                _ => worker.buffers.put_scratch(scratch),
            }
            if polled.is_ready() {
                return Poll::Ready(None);
            }
        }
        if limit.is_over() || timer.is_evicted() || (!fresh && worker.draining.get()) {
            return Poll::Ready(None);
        }
        Poll::Pending
    })
    .await;
    timer.set_rest(Rest::Busy);
    scratch
}

/// How reading a head ended.
enum Head {
    Complete,
    Refused(HeadError),
    /// The client took too long.
    Late,
    /// The client left.
    Gone,
}

/// Reads on until the head is complete: by `ends_at_ms`, or within the time that a head may take from now.
async fn read_head(link: &mut Link<'_>, scratch: &mut Scratch, mut ends_at_ms: Option<u64>) -> Head {
    let mut parsed = 0;
    loop {
        // A head that drips in byte by byte is not parsed at each byte: only at line ends, and now and then.
        let new = &scratch.input[parsed..scratch.filled];
        if parsed == 0 || new.len() >= PARSE_EVERY || memchr::memchr(b'\n', new).is_some() {
            parsed = scratch.filled;
            match scratch.head.parse(&scratch.input[..scratch.filled]) {
                Ok(true) => return Head::Complete,
                Ok(false) if scratch.filled >= HEAD_MAX => return Head::Refused(HeadError::FieldsTooLarge),
                Ok(false) => {}
                Err(error) => return Head::Refused(error),
            }
        }
        let from_now = || link.worker.clock.deadline_ms(link.config.client.header_timeout);
        let limit = link.timer.by(*ends_at_ms.get_or_insert_with(from_now));
        match io::read(link.stream, &mut scratch.input[scratch.filled..], limit).await {
            Ok(0) => return Head::Gone,
            Ok(count) => scratch.filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => return Head::Late,
            Err(_) => return Head::Gone,
        }
    }
}

/// Closes a connection whose peer may still be sending: what it sends is read and thrown away for a moment.
async fn linger(worker: &Worker, stream: &mut Stream, timer: &Timer, scratch: &mut Scratch) {
    if io::shutdown(stream, timer.within(LINGERING_TIMEOUT)).await.is_err() {
        return;
    }
    timer.set_rest(Rest::Idle);
    let ends_at_ms = worker.clock.deadline_ms(LINGERING_TIME);
    while worker.clock.now_ms() < ends_at_ms {
        let mut limit = timer.within(LINGERING_TIMEOUT);
        let read = poll_fn(|cx| match io::poll_read(stream, cx, &mut scratch.input, &mut limit) {
            Poll::Pending if worker.draining.get() || timer.is_evicted() => Poll::Ready(Ok(0)),
            polled => polled,
        });
        if !read.await.is_ok_and(|count| count > 0) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an idle connection costs is above all the room for a request under way. The task is allocated in steps of
    /// 512 bytes; what tokio adds (104) and its alignment (up to 128) belong to it.
    #[test]
    fn an_idle_connection_stays_small() {
        fn size<W, S, C, F>(_: fn(W, S, C) -> F) -> usize {
            size_of::<F>()
        }
        assert!(size(serve) <= 3072 - 232, "{}", size(serve));
        assert!(size(serve_tls) <= 3584 - 232, "{}", size(serve_tls));
    }
}
