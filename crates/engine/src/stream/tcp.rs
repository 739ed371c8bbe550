//! TCP sessions: one task each, from the accepted connection to the end of both directions.

use super::limits::{PREREAD_MAX, PREREAD_TIMEOUT};
use super::reach::reach;
use super::session::{self, BAD_CLIENT, BAD_UPSTREAM, DONE, FORBIDDEN, NO_ROUTE, Walk};
use crate::config::{Listen, Serves};
use crate::error::ProxyError;
use crate::io;
use crate::open::Open;
use crate::proxy_protocol;
use crate::timer::Timer;
use crate::timer::attach;
use crate::transport::{self, Stream};
use crate::tunnel::{self, Sides};
use crate::upstream::{AddrPool, open_after, secure_pool};
use crate::worker::Worker;
use model::resource::Scheme;
use observe::metrics::State;
use plugin::{Client, Session, StreamFlow, Transport};
use snapshot::{Snapshot, StreamRoute, Upstream};
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::TcpStream;
use wire::proxy_protocol::Ends;

/// The name that an upstream is asked for by TLS where the client asked for none: APISIX's.
const NO_NAME: &str = "apisix_backend";

/// Serves a connection to its end.
pub(crate) async fn serve(worker: Rc<Worker>, socket: TcpStream, listen: Listen, mut client: Client) {
    let open = Open::new(&worker);
    let registration = worker.timers.register();
    let timer = &registration.timer;
    attach(timer).await;
    let Some(mut stream) = begin(&worker, socket, listen, &mut client, timer).await else { return };
    open.is(State::Writing);
    let _open = worker.context.metrics.open_stream(&worker.token, &listen.address.to_string());
    let config = worker.config();
    let mut session = Session::new(&client, Transport::Tcp, listen.address, &config.gateway, &worker.token);
    let snapshot = worker.snapshot();
    let route = session::route(&snapshot, &client);
    session.route = route.map(|route| &route.info);
    session.status = match route {
        None => NO_ROUTE,
        Some(_) if !session::is_verified(&client) => FORBIDDEN,
        Some(route) => {
            let job = Job { worker: &worker, snapshot: &snapshot, route, listen, timer };
            let ended = Box::pin(job.run(&mut session, &mut stream)).await;
            ended.unwrap_or_else(|status| status)
        }
    };
    session::record(&worker, route.map(Arc::as_ref), &mut session);
}

/// What stands before a session: the PROXY protocol's header, the TLS handshake. `None` where it came to nothing.
async fn begin(
    worker: &Worker,
    mut socket: TcpStream,
    listen: Listen,
    client: &mut Client,
    timer: &Timer,
) -> Option<Stream> {
    let config = worker.config();
    if listen.proxy_protocol {
        let limit = timer.by(worker.clock.deadline_ms(PREREAD_TIMEOUT));
        match proxy_protocol::read_header(&mut socket, limit).await {
            Ok(header) => {
                let believed = config.streams.real_ip_from.iter().any(|net| net.contains(&client.ip()));
                if let Some(ends) = header.ends.filter(|_| believed) {
                    *client = client.named(ends.source);
                }
            }
            Err(reason) => {
                tracing::error!(client = %client.addr, "{reason}");
                return None;
            }
        }
    }
    if !listen.tls {
        return Some(Stream::Plain(socket));
    }
    let server = config.streams.tls.clone()?;
    // Boxed: what a handshake holds is much more than what a session does afterwards.
    let limit = timer.by(worker.clock.deadline_ms(config.client.handshake_timeout));
    match Box::pin(transport::accept(socket, &server, || worker.snapshot(), limit)).await {
        Ok((stream, peer)) => {
            client.tls = Some(Rc::new(peer));
            Some(Stream::Tls(stream))
        }
        Err(reason) => {
            tracing::error!(client = %client.addr, "TLS handshake: {reason}");
            None
        }
    }
}

/// A session on its route.
struct Job<'j> {
    worker: &'j Worker,
    snapshot: &'j Snapshot,
    route: &'j StreamRoute,
    listen: Listen,
    timer: &'j Timer,
}

impl Job<'_> {
    /// From the hooks to the last byte. Either way the session's status.
    async fn run(&self, session: &mut Session<'_>, stream: &mut Stream) -> Result<u16, u16> {
        let mut ahead = Vec::new();
        self.preread(session, stream, &mut ahead).await?;
        let upstream = session::upstream(self.snapshot, self.route, session).ok_or(NO_ROUTE)?;
        let preface = self.preface(session.client);
        let (worker, timer) = (self.worker, self.timer);
        let name = session.client.tls.as_ref().map_or(NO_NAME, |peer| &*peer.server_name).to_owned();
        let open = async |plain: Rc<AddrPool>| self.open(&upstream, &plain, &name, &preface).await;
        let reached = reach(worker, &upstream, session, timer, open).await;
        let mut reached = reached.map_err(|_| BAD_UPSTREAM)?;
        session.traffic.received = ahead.len() as u64;
        session.traffic.upstream_sent = ahead.len() as u64;
        let sides = Sides { client: stream, upstream: &mut reached.way };
        let copied = tunnel::run(sides, &ahead, worker, timer, upstream.session_idle).await;
        session.traffic.received += copied.to_upstream;
        session.traffic.upstream_sent += copied.to_upstream;
        session.traffic.sent = copied.to_client;
        session.traffic.upstream_received = copied.to_client;
        Ok(DONE)
    }

    /// Runs the hooks; what they wanted to see of the client's bytes is `ahead`.
    async fn preread(
        &self,
        session: &mut Session<'_>,
        stream: &mut Stream,
        ahead: &mut Vec<u8>,
    ) -> Result<(), u16> {
        let mut walk = Walk::default();
        let limit = self.timer.by(self.worker.clock.deadline_ms(PREREAD_TIMEOUT));
        while let Some(flow) = walk.run(&self.route.chain, session, ahead) {
            match flow {
                StreamFlow::Refuse(status) => return Err(status),
                StreamFlow::Wait(time) => self.worker.services.sleep(time).await,
                StreamFlow::More | StreamFlow::Next => {
                    let filled = ahead.len();
                    ahead.resize(PREREAD_MAX, 0);
                    let read = io::read(stream, &mut ahead[filled..], limit).await;
                    ahead.truncate(filled + read.as_ref().copied().unwrap_or_default());
                    if !read.is_ok_and(|count| count > 0) {
                        return Err(BAD_CLIENT);
                    }
                }
            }
        }
        Ok(())
    }

    /// The header that tells the upstream who the client is, where it is to be told.
    fn preface(&self, client: &Client) -> Vec<u8> {
        let mut preface = Vec::new();
        if let Serves::Tcp { proxy_protocol_to_upstream: Some(version) } = self.listen.serves {
            Ends { source: client.addr, destination: client.local }.write(version, &mut preface);
        }
        preface
    }

    async fn open(
        &self,
        upstream: &Upstream,
        plain: &Rc<AddrPool>,
        name: &str,
        preface: &[u8],
    ) -> Result<Stream, ProxyError> {
        let encrypted = matches!(upstream.scheme, Scheme::Tls | Scheme::Https | Scheme::Grpcs);
        let pool = match encrypted {
            true => secure_pool(&self.worker.upstreams, self.snapshot, upstream, plain, name.as_bytes())?,
            false => Rc::clone(plain),
        };
        let limit = self.timer.by(self.worker.clock.deadline_ms(upstream.timeouts.connect));
        open_after(&pool, preface, limit).await
    }
}
