//! A connection to a node: an idle one, or a new one.

use super::pulse::Pulse;
use super::{AddrPool, Target, Upstreams};
use crate::error::{ErrorKind, ProxyError, Side};
use crate::io;
use crate::timer::{TimeLimit, Timer};
use crate::transport::{self, Stream};
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tokio::net::TcpSocket;

/// A connection to an upstream node. Kept boxed: it changes hands several times per request.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    /// Requests it has carried.
    pub(crate) requests: u64,
    /// Whether it has carried one before: then its end may have been under way when it was taken.
    pub(crate) reused: bool,
    /// Of a stream of HTTP/2: the signs of life of its connection.
    pub(crate) pulse: Option<Rc<Pulse>>,
}

/// The pool in which `target`'s connections are; a name is resolved for it, to an address that is not among `tried` if it
/// has one, which is then added to them. The first answer for a name is waited for within `timeout`.
pub(crate) async fn pool_of(
    upstreams: &Upstreams,
    target: &Target,
    tried: &mut Vec<IpAddr>,
    timer: &Timer,
    timeout: Duration,
) -> Result<Rc<AddrPool>, ProxyError> {
    match target {
        Target::Addr(pool) => Ok(Rc::clone(pool)),
        Target::Name { name, port, keepalive, protocol } => {
            let ip = upstreams.names.resolve(name, tried, timer, timeout).await?;
            tried.push(ip);
            Ok(upstreams.pool((ip, *port).into(), *keepalive, *protocol))
        }
    }
}

/// A new connection to the pool's address, or a stream on one; `limit` is over when the connect timeout is.
pub(crate) async fn connect(pool: &AddrPool, limit: TimeLimit<'_>) -> Result<Box<Connection>, ProxyError> {
    match &pool.multiplexed {
        None => {
            let stream = open(pool, limit).await?;
            Ok(Box::new(Connection { stream, requests: 0, reused: false, pulse: None }))
        }
        Some(multiplexed) => Box::pin(multiplexed.connect(pool, limit)).await,
    }
}

/// Opens a connection.
pub(super) async fn open(pool: &AddrPool, limit: TimeLimit<'_>) -> Result<Stream, ProxyError> {
    open_after(pool, b"", limit).await
}

/// Opens a connection on which `preface` stands before everything else, in the clear.
pub(crate) async fn open_after(
    pool: &AddrPool,
    preface: &[u8],
    mut limit: TimeLimit<'_>,
) -> Result<Stream, ProxyError> {
    let failed = |error: std::io::Error| ProxyError::io(Side::Upstream, &error).retriable();
    let socket = if pool.address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let mut connecting = pin!(socket.map_err(failed)?.connect(pool.address));
    let mut stream = poll_fn(|cx| match connecting.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(result.map_err(failed)),
        Poll::Pending if limit.is_over() => Poll::Ready(Err(ProxyError::new(
            Side::Upstream,
            ErrorKind::Timeout,
            "timed out while connecting",
        )
        .retriable())),
        Poll::Pending => Poll::Pending,
    })
    .await?;
    // As on the client's side: each write is a whole head or all there is of a body.
    let _ = stream.set_nodelay(true);
    if !preface.is_empty() {
        io::write_all(&mut stream, preface, limit).await.map_err(failed)?;
    }
    Ok(match &pool.secure {
        None => Stream::Plain(stream),
        // Large, and rare: not part of every connection's state.
        Some(secure) => {
            let session = transport::connect(stream, &secure.config, &secure.session.name, limit);
            Stream::Tls(Box::pin(session).await?)
        }
    })
}
