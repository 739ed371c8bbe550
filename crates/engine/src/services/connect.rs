//! Connections that a plugin speaks on itself.

use super::call_error;
use crate::error::{ErrorKind, ProxyError, Side};
use crate::timer::attach;
use crate::transport::{Stream, TlsStream};
use crate::upstream::{Served, connect, discovered_form, pool_of, secure_pool};
use crate::worker::Worker;
use model::resource::Scheme;
use plugin::{CallError, CallErrorKind, Io};
use snapshot::Upstream;
use std::io::{self, IoSlice};
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use stdx::Moment;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

/// Opens a connection to a node of `upstream`.
pub(super) async fn open(
    worker: &Rc<Worker>,
    upstream: &Arc<Upstream>,
    timeout: Duration,
) -> Result<Box<dyn Io>, CallError> {
    let registration = worker.timers.register();
    let timer = &registration.timer;
    attach(timer).await;
    // One time for all of it, however many nodes are tried.
    let limit = timer.by(worker.clock.deadline_ms(timeout));
    let discovered = match &upstream.discovered {
        None => None,
        Some(discovered) => discovered_form(discovered, limit).await,
    };
    let upstream = discovered.as_ref().unwrap_or(upstream);
    let state = worker.upstreams.state(upstream);
    state.begin();
    let (mut tried, mut tried_at, mut tries, begun) = (Vec::new(), Vec::new(), 0, Moment::now());
    let mut last = ProxyError::new(Side::Upstream, ErrorKind::NoNode, "no valid upstream node");
    while let Some(node) = state.pick(b"", worker.clock.now_ms(), &tried) {
        let started = Moment::now();
        let opened = async {
            let target = &state.nodes[node];
            let pool = pool_of(&worker.upstreams, &target.target, &mut tried_at, timer, timeout).await?;
            let secure = matches!(upstream.scheme, Scheme::Tls | Scheme::Https | Scheme::Grpcs);
            let pool = if secure {
                let host = target.authority.as_bytes();
                secure_pool(&worker.upstreams, &worker.snapshot(), upstream, &pool, host)?
            } else {
                pool
            };
            connect(&pool, limit).await
        };
        let result = opened.await;
        let error = result.as_ref().err().copied();
        let served = Served { status: 0, broke_off: false, error, latency: started.elapsed() };
        state.finished(node, &served, worker.clock.now_ms());
        match result.map(|connection| connection.stream) {
            Ok(Stream::Plain(stream)) => return Ok(Box::new(stream)),
            Ok(Stream::Tls(stream)) => return Ok(Box::new(Secured(stream))),
            Ok(Stream::Http2(_) | Stream::Nowhere) => {
                let reason = "an HTTP/2 upstream has no connection of its own; use a call";
                return Err(CallError { kind: CallErrorKind::Protocol, reason });
            }
            Err(error) => last = error,
        }
        if !upstream.may_retry(tries, begun.elapsed()) {
            break;
        }
        tries += 1;
        if state.nodes.len() > 1 {
            tried.push(node);
        }
    }
    Err(call_error(last))
}

/// Opens a connection to the Unix socket at `path`.
pub(super) async fn open_unix(path: &Path, timeout: Duration) -> Result<Box<dyn Io>, CallError> {
    let refused = |kind, reason| CallError { kind, reason };
    match tokio::time::timeout(timeout, UnixStream::connect(path)).await {
        Ok(Ok(stream)) => Ok(Box::new(stream)),
        Ok(Err(error)) => {
            let error = ProxyError::io(Side::Upstream, &error);
            Err(refused(CallErrorKind::Connection, error.reason))
        }
        Err(_) => Err(refused(CallErrorKind::Timeout, "timed out while connecting")),
    }
}

/// An encrypted connection as one stream for both directions.
struct Secured(Box<TlsStream>);

impl AsyncRead for Secured {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.0.poll_read(cx, into)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, &[IoSlice::new(bytes)])
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_shutdown(cx)
    }
}
