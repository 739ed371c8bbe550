//! HTTP/2 connections to one address: few, each shared by many requests.

use super::connect::open;
use super::pulse::{Attended, Pulse};
use super::{AddrPool, Connection};
use crate::error::{ErrorKind, ProxyError, Side};
use crate::timer::TimeLimit;
use crate::transport::{Http2Stream, Stream, Streams};
use bytes::Bytes;
use h2::Ping;
use h2::client::{Builder, SendRequest};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Requests on one connection at a time, where the upstream doesn't want fewer; a further one opens another connection.
const STREAMS_MAX: usize = 128;

/// What an upstream may send on one stream before it is taken: enough for 256 KiB per round trip.
const STREAM_WINDOW: u32 = 256 * 1024;

/// And on all of a connection: clients that don't read must not keep the others waiting, so 128 x 256 KiB.
const CONNECTION_WINDOW: u32 = 128 * STREAM_WINDOW;

/// Bytes of one request's body that wait for the connection.
const SEND_BUFFER: usize = 64 * 1024;

/// The fields of a response, names and values with 32 bytes each (RFC 9113 section 6.5.2): as long as a head may be.
const HEADER_LIST_MAX: u32 = wire::http1::HEAD_MAX as u32;

/// How often a request that a node refused unprocessed is sent to it again: once for the end of a connection, and some
/// for limits on streams that were not known yet.
pub(crate) const REFUSALS_MAX: usize = 3;

/// The HTTP/2 connections to one address.
#[derive(Default)]
pub(crate) struct Multiplexed {
    shared: RefCell<Vec<Shared>>,
    /// Whether one is being opened; the others wait for it.
    opening: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

/// A connection in use.
struct Shared {
    send: SendRequest<Bytes>,
    /// Requests under way.
    open: Rc<Cell<usize>>,
    /// Requests so far.
    requests: u64,
    /// When it was seen with no request under way, in worker time.
    idle_since_ms: Option<u64>,
    pulse: Rc<Pulse>,
}

impl Multiplexed {
    /// A stream on an open connection, if one has room and has carried less than `requests_max`.
    pub(super) fn stream(&self, requests_max: u64, secure: bool) -> Option<Box<Connection>> {
        let mut shared = self.shared.borrow_mut();
        // Those that the other side has ended take no more requests; what is under way on them ends by itself.
        shared.retain_mut(|connection| {
            let mut cx = Context::from_waker(Waker::noop());
            let over = matches!(connection.send.poll_ready(&mut cx), Poll::Ready(Err(_)));
            !over && connection.requests < requests_max
        });
        let free = shared.iter_mut().find(|connection| {
            connection.pulse.is_sound()
                && connection.open.get() < STREAMS_MAX.min(connection.send.current_max_send_streams())
        })?;
        free.idle_since_ms = None;
        free.requests += 1;
        let reused = free.requests > 1;
        let stream = Http2Stream::to_upstream(free.send.clone(), secure, Streams::count(&free.open));
        let pulse = Some(Rc::clone(&free.pulse));
        Some(Box::new(Connection { stream: Stream::Http2(stream), requests: free.requests, reused, pulse }))
    }

    /// A stream on a connection that is opened for it, or by another request just now.
    pub(super) async fn connect(
        &self,
        pool: &AddrPool,
        mut limit: TimeLimit<'_>,
    ) -> Result<Box<Connection>, ProxyError> {
        let failed = |kind, reason| ProxyError::new(Side::Upstream, kind, reason).retriable();
        loop {
            if let Some(connection) = pool.take() {
                return Ok(connection);
            }
            if !self.opening.replace(true) {
                break;
            }
            let mut asked = false;
            poll_fn(|cx| {
                if std::mem::replace(&mut asked, true) && !self.opening.get() {
                    return Poll::Ready(Ok(()));
                }
                if limit.is_over() {
                    return Poll::Ready(Err(failed(ErrorKind::Timeout, "timed out while connecting")));
                }
                self.waiting.borrow_mut().push(cx.waker().clone());
                Poll::Pending
            })
            .await?;
        }
        let _opening = Opening(self);
        let pulse = Rc::<Pulse>::default();
        let stream = Attended::new(open(pool, limit).await?, Rc::clone(&pulse));
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(HEADER_LIST_MAX)
            .max_send_buffer_size(SEND_BUFFER);
        let mut handshake = pin!(builder.handshake::<_, Bytes>(stream));
        let (send, connection) = poll_fn(|cx| match handshake.as_mut().poll(cx) {
            Poll::Ready(result) => {
                Poll::Ready(result.map_err(|_| failed(ErrorKind::Connection, "HTTP/2 can't be begun")))
            }
            Poll::Pending if limit.is_over() => {
                Poll::Ready(Err(failed(ErrorKind::Timeout, "timed out while connecting")))
            }
            Poll::Pending => Poll::Pending,
        })
        .await?;
        drop(tokio::task::spawn_local(drive(connection, Rc::clone(&pulse), Rc::clone(&pool.text))));
        let open = Rc::default();
        self.shared.borrow_mut().push(Shared { send, open, requests: 0, idle_since_ms: None, pulse });
        pool.take().ok_or_else(|| failed(ErrorKind::Connection, "upstream closed without a response"))
    }

    /// Lets go of connections that idled for `limit_ms`; their last handle gone, they close.
    pub(super) fn sweep(&self, now_ms: u64, limit_ms: Option<u64>) {
        self.shared.borrow_mut().retain_mut(|connection| {
            connection.pulse.check(now_ms, connection.open.get() > 0);
            if connection.pulse.is_dead() {
                return false;
            }
            if connection.open.get() > 0 {
                connection.idle_since_ms = None;
            }
            let since_ms = match connection.open.get() {
                0 => *connection.idle_since_ms.get_or_insert(now_ms),
                _ => now_ms,
            };
            limit_ms.is_none_or(|limit_ms| now_ms.saturating_sub(since_ms) < limit_ms)
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.shared.borrow().is_empty()
    }
}

/// Sends and receives for the requests of a connection until it ends, or until nobody is at its other end: dropped, it
/// fails those under way.
async fn drive(mut connection: h2::client::Connection<Attended, Bytes>, pulse: Rc<Pulse>, upstream: Rc<str>) {
    let mut pings = connection.ping_pong();
    let ended = poll_fn(|cx| {
        pulse.attend(cx);
        if pulse.is_dead() {
            tracing::warn!(%upstream, "HTTP/2 connection closed: its upstream does not answer PING");
            return Poll::Ready(Ok(()));
        }
        if let Some(pings) = &mut pings {
            // Takes the answer to the one before.
            let _ = pings.poll_pong(cx);
            if pulse.takes_ping() {
                // Refused only while one is under way.
                let _ = pings.send_ping(Ping::opaque());
            }
        }
        Pin::new(&mut connection).poll(cx)
    })
    .await;
    if let Err(error) = ended {
        tracing::info!(%upstream, "HTTP/2 connection ended: {error}");
    }
}

/// An opening under way; those who wait for it are woken at its end, however it ends.
struct Opening<'m>(&'m Multiplexed);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.opening.set(false);
        self.0.waiting.borrow_mut().drain(..).for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Pools, Protocol, connect};
    use crate::io;
    use crate::timer::Timers;
    use snapshot::Keepalive;
    use std::future::poll_fn;
    use tokio::net::TcpListener;
    use tokio::runtime::{Builder, LocalOptions};
    use wire::Framing;
    use wire::http2::RequestSection;

    #[test]
    fn a_connection_whose_upstream_has_vanished_fails_its_requests_and_takes_no_more() {
        let runtime = Builder::new_current_thread().enable_io().build_local(LocalOptions::default());
        runtime.expect("a runtime").block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let pools = Pools::default();
            let keepalive = Keepalive { size: 10, idle_timeout: None, requests: 1000 };
            let address = listener.local_addr().expect("an address");
            let pool = pools.at(address, keepalive, None, Protocol::Http2);
            let timers = Timers::new(crate::clock::Now::default());
            let timer = &timers.register().timer;
            let mut connection = connect(&pool, timer.unlimited()).await.expect("a connection");
            let mut head = Some(RequestSection::new(b"GET", b"/", b"a"));
            let stream = connection.stream.http2().expect("a stream");
            poll_fn(|cx| stream.poll_request(cx, &mut head, Framing::None)).await.expect("sent");
            // The kernel takes what is sent, and nobody answers.
            for second in 1..=20 {
                pools.sweep(second * 1000);
                tokio::task::yield_now().await;
            }
            assert!(pool.take().is_some(), "in use, though silent");
            pools.sweep(21_000);
            assert!(pool.take().is_none());
            let failed = io::read(&mut connection.stream, &mut [0; 64], timer.unlimited()).await;
            assert_eq!(failed.map_err(|error| error.kind()), Err(std::io::ErrorKind::BrokenPipe));
            let another = connect(&pool, timer.unlimited()).await.expect("another connection");
            another.pulse.as_ref().expect("HTTP/2").suspect();
            assert!(pool.take().is_none(), "a request has timed out on it");
        });
    }
}
