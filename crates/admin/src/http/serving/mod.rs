//! A server of the control plane: connections to one listener, bounded in number and in time.
//!
//! These servers share the process's file descriptors with the data plane. Without bounds, clients that never finish a
//! request to an exported metrics port would take all of them; without eviction they would keep everybody else out.

mod deadlines;
mod places;
mod tls;

use crate::http::origin::{self, Page, Sender};
use crate::http::wire::to_http;
use ::tls::rustls::ServerConfig;
use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::request::Parts;
use axum::response::Response;
use deadlines::{Busy, Deadlines};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Request, body::Body};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use places::{Place, Places};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Most connections of one server. There are four servers (Admin API, control API, status, metrics), so they have at most
/// 4 x 1,024 = 4,096 descriptors, a fifth of `worker_rlimit_nofile`'s 20,480.
pub const CONNECTIONS_MAX: usize = 1024;

/// Bytes of a request's head, and of what is read ahead of a body: 1,024 connections hold at most 64 MiB.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// How long to wait before the next try where no connection can be accepted: another descriptor may be free then.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often a server's log says that it is full or can't accept.
const COMPLAINT_PAUSE: Duration = Duration::from_secs(60);

pub use self::tls::ListenerTls;

/// A server of the control plane.
#[derive(Debug)]
pub struct Server {
    name: &'static str,
    app: Router,
    connections_max: usize,
    senders: Senders,
    tls: Arc<ListenerTls>,
}

/// Whose requests reach the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Senders {
    /// Everybody's: the application looks itself.
    All,
    /// On a loopback address no web page's and none for a foreign `Host`; elsewhere everybody's.
    Local,
    /// Those, and no web page's of another origin on any address.
    NoPages,
}

impl Server {
    /// The server called `name` in log lines. If it listens on a loopback address, it refuses requests that web pages of
    /// other origins sent and requests whose `Host` is no loopback address.
    #[must_use]
    pub fn new(name: &'static str, app: Router, connections_max: usize) -> Self {
        Self {
            name,
            app,
            connections_max: connections_max.clamp(1, CONNECTIONS_MAX),
            senders: Senders::Local,
            tls: Arc::default(),
        }
    }

    /// The same server, speaking TLS as `tls` says at the time of each connection.
    #[must_use]
    pub fn with_tls(self, tls: Arc<ListenerTls>) -> Self {
        Self { tls, ..self }
    }

    /// The same server, refusing the requests of other origins' pages on every address: for an application that changes
    /// something, or costs something, without a key.
    #[must_use]
    pub fn without_pages(self) -> Self {
        Self { senders: Senders::NoPages, ..self }
    }

    /// The same server for an application that looks at `Host` and `Origin` itself.
    pub(crate) fn for_all_senders(self) -> Self {
        Self { senders: Senders::All, ..self }
    }

    /// Answers connections to `listener` until `stop` is ready and the requests at hand are answered.
    ///
    /// # Errors
    /// Where the listener has no address.
    pub async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()> + Send) -> io::Result<()> {
        let loopback = listener.local_addr()?.ip().to_canonical().is_loopback();
        let senders = if self.senders == Senders::Local && !loopback { Senders::All } else { self.senders };
        let service = Arc::new(Checked { app: self.app, senders, loopback });
        let places = Places::new(self.connections_max);
        let (closing, closed) = watch::channel(());
        let mut complaints = Complaints { server: self.name, last: None };
        let mut stop = pin!(stop);
        loop {
            let accepted = tokio::select! {
                () = &mut stop => break,
                accepted = accept(&places, &listener, &mut complaints) => accepted,
            };
            match accepted {
                Ok((stream, peer, place)) => {
                    let (service, closed) = (Arc::clone(&service), closed.clone());
                    let (tls, name) = (self.tls.current(), self.name);
                    tokio::spawn(async move {
                        let tls = tls.map(|tls| (tls, name));
                        tokio::select! {
                            () = connection(service, tls, stream, peer, closed, place.busy()) => {}
                            () = place.evicted() => tracing::debug!(%peer, "evicted for a newer connection"),
                        }
                    });
                }
                Err(error) => {
                    complaints.say(&format!("can't accept a connection: {error}"));
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop((listener, closing));
        places.all_free().await;
        Ok(())
    }
}

/// The next connection and its place. Where all places are taken, the connection that has waited for its client longest
/// ends; while all of them are answering, newer ones wait in the kernel's queue, without a descriptor.
async fn accept(
    places: &Arc<Places>,
    listener: &TcpListener,
    complaints: &mut Complaints,
) -> io::Result<(TcpStream, SocketAddr, Place)> {
    let (stream, peer) = listener.accept().await?;
    if places.are_taken() {
        complaints.say(&format!(
            "has {} connections, its limit; those that wait for their clients longest are closed for newer ones",
            places.max()
        ));
    }
    Ok((stream, peer, places.take().await))
}

/// Serves one connection; with TLS where there is a configuration, with the server's name beside it.
async fn connection(
    service: Arc<Checked>,
    tls: Option<(Arc<ServerConfig>, &'static str)>,
    stream: TcpStream,
    peer: SocketAddr,
    closed: watch::Receiver<()>,
    busy: Busy,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection of the control plane without TCP_NODELAY");
    }
    match tls {
        None => exchanges(service, stream, peer, closed, busy).await,
        // Boxed: not part of the state of connections in the clear.
        Some((config, name)) => Box::pin(encrypted(service, config, name, stream, peer, closed, busy)).await,
    }
}

/// Serves one connection over TLS.
async fn encrypted(
    service: Arc<Checked>,
    config: Arc<ServerConfig>,
    name: &'static str,
    stream: TcpStream,
    peer: SocketAddr,
    mut closed: watch::Receiver<()>,
    busy: Busy,
) {
    let stream = tokio::select! {
        stream = tls::accept(config, stream, peer, name) => stream,
        _ = closed.changed() => return,
    };
    if let Some(stream) = stream {
        exchanges(service, stream, peer, closed, busy).await;
    }
}

/// Answers the requests that come on `stream`.
async fn exchanges<S: AsyncRead + AsyncWrite + Unpin>(
    service: Arc<Checked>,
    stream: S,
    peer: SocketAddr,
    mut closed: watch::Receiver<()>,
    busy: Busy,
) {
    let io = TokioIo::new(Deadlines::new(stream, busy.clone()));
    let answer = service_fn(move |request| {
        let (service, busy) = (Arc::clone(&service), busy.clone());
        async move {
            busy.set(true);
            let answer = service.answer(request, peer).await;
            busy.set(false);
            Ok::<_, Infallible>(answer)
        }
    });
    let mut builder = http1::Builder::new();
    builder.max_buf_size(BUFFER_BYTES_MAX).half_close(false);
    let mut served = pin!(builder.serve_connection(io, answer));
    let ended = tokio::select! {
        ended = &mut served => ended,
        _ = closed.changed() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "a connection of the control plane ended early");
    }
}

/// The application behind its checks.
#[derive(Debug)]
struct Checked {
    app: Router,
    senders: Senders,
    loopback: bool,
}

impl Checked {
    async fn answer(&self, mut request: Request<Incoming>, peer: SocketAddr) -> Response {
        let (head, body) = request.into_parts();
        if let Some(refusal) = self.refusal(&head) {
            tracing::warn!(%peer, "refused a request of a web page to the control plane");
            let mut refusal = to_http(refusal, "Tidegate");
            // Its body is not read.
            if !body.is_end_stream() {
                refusal.headers_mut().insert("connection", axum::http::HeaderValue::from_static("close"));
            }
            return refusal;
        }
        request = Request::from_parts(head, body);
        request.extensions_mut().insert(ConnectInfo(peer));
        match TowerToHyperService::new(self.app.clone()).call(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        }
    }

    fn refusal(&self, head: &Parts) -> Option<crate::AdminResponse> {
        if self.senders == Senders::All {
            return None;
        }
        let fields = fields(head);
        let sender = Sender::new(fields.iter().map(|(name, value)| (*name, value.as_str())));
        if self.loopback && !sender.names_loopback() {
            return Some(origin::foreign_host());
        }
        (sender.page() == Page::Foreign).then(origin::foreign_page)
    }
}

/// The fields of a head that tell its sender. The authority of a target in absolute form counts as a `Host`.
fn fields(head: &Parts) -> Vec<(&'static str, String)> {
    let of = |name: &'static str| {
        let values = head.headers.get_all(name).iter();
        values.map(move |value| (name, String::from_utf8_lossy(value.as_bytes()).into_owned()))
    };
    let authority = head.uri.authority().map(|authority| ("host", authority.to_string()));
    origin::HEADERS.into_iter().flat_map(of).chain(authority).collect()
}

/// Log lines that a client can cause, at most one in [`COMPLAINT_PAUSE`].
struct Complaints {
    server: &'static str,
    last: Option<Instant>,
}

impl Complaints {
    fn say(&mut self, what: &str) {
        if self.last.is_none_or(|last| last.elapsed() >= COMPLAINT_PAUSE) {
            self.last = Some(Instant::now());
            tracing::warn!(server = self.server, "{} {what}", self.server);
        }
    }
}
