//! UDP sessions: what one address sends to one listener goes to one node, from a socket of the session's own, and what
//! comes back there goes to that address. A session is over when nothing has come either way for a while.

use super::limits::{DATAGRAM_MAX, WAITING_MAX};
use super::reach::reach;
use super::session::{self, BAD_CLIENT, BAD_UPSTREAM, DONE, NO_ROUTE, Walk};
use crate::error::{ProxyError, Side};
use crate::open::{Open, Pause};
use crate::timer::attach;
use crate::timer::{Rest, Timer};
use crate::upstream::AddrPool;
use crate::worker::Worker;
use observe::metrics::State;
use plugin::{Client, Session, StreamFlow, Traffic, Transport};
use snapshot::{Snapshot, StreamRoute};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{Interest, Ready};
use tokio::net::UdpSocket;
use tokio::task::spawn_local;

/// A listener and the sessions it has.
struct Port {
    socket: UdpSocket,
    address: SocketAddr,
    lines: RefCell<HashMap<SocketAddr, Rc<Line>>>,
}

/// One client's session, as the listener sees it.
#[derive(Default)]
struct Line {
    state: RefCell<LineState>,
    /// When its time is up unless a datagram comes, in worker time.
    ends_at_ms: Cell<u64>,
    traffic: Cell<Traffic>,
}

enum LineState {
    /// Its node is being reached; these datagrams wait.
    Waiting(Vec<Box<[u8]>>),
    Open {
        upstream: Rc<UdpSocket>,
        timer: Rc<Timer>,
        idle: Duration,
    },
}

impl Default for LineState {
    fn default() -> Self {
        Self::Waiting(Vec::new())
    }
}

/// Serves a listener until its task is ended; sessions go on without it.
pub(crate) async fn serve(worker: Rc<Worker>, socket: UdpSocket, address: SocketAddr) {
    let port = Rc::new(Port { socket, address, lines: RefCell::default() });
    let mut buffer = vec![0; DATAGRAM_MAX].into_boxed_slice();
    loop {
        match port.socket.recv_from(&mut buffer).await {
            Ok((length, peer)) => port.take(&worker, peer, &buffer[..length]),
            Err(error) => {
                tracing::error!(%error, "receiving datagrams failed");
                let mut wait = Pause::new(&worker);
                wait.one_tick().await;
            }
        }
    }
}

impl Port {
    /// Takes a datagram: for the session of its sender, or as the first of a new one.
    fn take(self: &Rc<Self>, worker: &Rc<Worker>, peer: SocketAddr, datagram: &[u8]) {
        if let Some(line) = self.lines.borrow().get(&peer) {
            return line.pass(worker, datagram);
        }
        worker.context.metrics.connections.accepted(&worker.token);
        if worker.is_full() {
            return;
        }
        let line = Rc::new(Line::default());
        line.pass(worker, datagram);
        self.lines.borrow_mut().insert(peer, Rc::clone(&line));
        drop(spawn_local(begin(Rc::clone(worker), Rc::clone(self), line, peer)));
    }

    /// The address that `peer` sent to. A listener on all addresses is not told; it is the one that this machine would
    /// answer from.
    fn local(&self, peer: SocketAddr) -> SocketAddr {
        if !self.address.ip().is_unspecified() {
            return self.address;
        }
        let socket = std::net::UdpSocket::bind(any_port(peer));
        let asked = socket.and_then(|socket| socket.connect(peer).and_then(|()| socket.local_addr()));
        asked.map_or(self.address, |local| SocketAddr::new(local.ip(), self.address.port()))
    }
}

impl Line {
    /// Sends a datagram on, or has it wait. What can't be sent now is lost, as on any link that is full.
    fn pass(&self, worker: &Worker, datagram: &[u8]) {
        let length = datagram.len() as u64;
        self.count(|traffic| traffic.received += length);
        match &mut *self.state.borrow_mut() {
            LineState::Waiting(waiting) if waiting.len() < WAITING_MAX => waiting.push(datagram.into()),
            LineState::Waiting(_) => {}
            LineState::Open { upstream, timer, idle } => {
                self.ends_at_ms.set(worker.clock.deadline_ms(*idle));
                timer.set_rest(Rest::Busy);
                if upstream.try_send(datagram).is_ok() {
                    self.count(|traffic| traffic.upstream_sent += length);
                }
            }
        }
    }

    /// The way to the node is there: what waits is sent.
    fn open(&self, worker: &Worker, upstream: &Rc<UdpSocket>, timer: &Rc<Timer>, idle: Duration) {
        let open = LineState::Open { upstream: Rc::clone(upstream), timer: Rc::clone(timer), idle };
        let LineState::Waiting(waiting) = self.state.replace(open) else { return };
        self.ends_at_ms.set(worker.clock.deadline_ms(idle));
        for datagram in waiting {
            if upstream.try_send(&datagram).is_ok() {
                self.count(|traffic| traffic.upstream_sent += datagram.len() as u64);
            }
        }
    }

    fn first(&self) -> Box<[u8]> {
        match &*self.state.borrow() {
            LineState::Waiting(waiting) => waiting.first().cloned().unwrap_or_default(),
            LineState::Open { .. } => Box::default(),
        }
    }

    fn count(&self, count: impl FnOnce(&mut Traffic)) {
        let mut traffic = self.traffic.get();
        count(&mut traffic);
        self.traffic.set(traffic);
    }
}

/// A session, from its first datagram to its end.
async fn begin(worker: Rc<Worker>, port: Rc<Port>, line: Rc<Line>, peer: SocketAddr) {
    let open = Open::new(&worker);
    open.is(State::Writing);
    let _open = worker.context.metrics.open_stream(&worker.token, &port.address.to_string());
    let registration = worker.timers.register();
    attach(&registration.timer).await;
    let client = Client::new(peer, port.local(peer), worker.next_serial());
    let config = worker.config();
    let mut session = Session::new(&client, Transport::Udp, port.address, &config.gateway, &worker.token);
    let snapshot = worker.snapshot();
    let route = session::route(&snapshot, &client);
    session.route = route.map(|route| &route.info);
    let job = Job { worker: &worker, port: &port, line: &line, timer: &registration.timer, peer };
    session.status = match route {
        None => NO_ROUTE,
        Some(route) => job.run(&snapshot, route, &mut session).await.unwrap_or_else(|status| status),
    };
    port.lines.borrow_mut().remove(&peer);
    session.traffic = line.traffic.get();
    session::record(&worker, route.map(|route| &**route), &mut session);
}

/// A session on its route.
struct Job<'j> {
    worker: &'j Worker,
    port: &'j Port,
    line: &'j Line,
    timer: &'j Rc<Timer>,
    peer: SocketAddr,
}

impl Job<'_> {
    /// From the hooks to the last datagram. Either way the session's status.
    async fn run(
        &self,
        snapshot: &Snapshot,
        route: &StreamRoute,
        session: &mut Session<'_>,
    ) -> Result<u16, u16> {
        self.preread(route, session).await?;
        let upstream = session::upstream(snapshot, route, session).ok_or(NO_ROUTE)?;
        let open = async |pool: Rc<AddrPool>| connect(&pool).await;
        let reached = reach(self.worker, &upstream, session, self.timer, open).await;
        let reached = reached.map_err(|_| BAD_UPSTREAM)?;
        // Datagrams tell no end, so their sessions are kept for as long as an upstream may be silent.
        let idle = upstream.timeouts.read;
        self.line.open(self.worker, &reached.way, self.timer, idle);
        self.relay(&reached.way, idle).await.map_err(|error| {
            reached.failed(ProxyError::io(Side::Upstream, &error));
            BAD_UPSTREAM
        })
    }

    async fn preread(&self, route: &StreamRoute, session: &mut Session<'_>) -> Result<(), u16> {
        let first = self.line.first();
        let mut walk = Walk::default();
        while let Some(flow) = walk.run(&route.chain, session, &first) {
            match flow {
                StreamFlow::Refuse(status) => return Err(status),
                StreamFlow::Wait(time) => self.worker.services.sleep(time).await,
                // The next datagram would be another message.
                StreamFlow::More | StreamFlow::Next => return Err(BAD_CLIENT),
            }
        }
        Ok(())
    }

    /// Passes back what the node sends until the session's time is up.
    async fn relay(&self, upstream: &UdpSocket, idle: Duration) -> io::Result<u16> {
        loop {
            let (buffer, length) = match self.receive(upstream).await {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(DONE),
                Err(error) => return Err(error),
            };
            let sent = self.port.socket.try_send_to(&buffer[..length], self.peer);
            self.worker.buffers.put_relay(buffer);
            self.line.count(|traffic| {
                traffic.upstream_received += length as u64;
                traffic.sent += sent.map_or(0, |sent| sent as u64);
            });
            self.line.ends_at_ms.set(self.worker.clock.deadline_ms(idle));
            // It has been answered: nothing is lost if a worker that ends doesn't wait for it.
            self.timer.set_rest(Rest::Drains);
        }
    }

    /// A datagram from the node. A buffer is held only while there is one.
    ///
    /// # Errors
    /// When nobody listens there, as far as the network tells: the next datagram is for another node then.
    async fn receive(&self, upstream: &UdpSocket) -> io::Result<(Box<[u8]>, usize)> {
        loop {
            if !self.ready(upstream).await?.is_readable() {
                // Sending may have been told the reason already.
                let refused = || io::ErrorKind::ConnectionRefused.into();
                return Err(upstream.take_error().ok().flatten().unwrap_or_else(refused));
            }
            let mut buffer = self.worker.buffers.take_relay();
            match upstream.try_recv(&mut buffer) {
                Ok(length) => return Ok((buffer, length)),
                Err(error) => {
                    self.worker.buffers.put_relay(buffer);
                    if error.kind() != io::ErrorKind::WouldBlock {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Whether the session's time is up, or a worker that drains need not wait for it.
    fn is_over(&self) -> bool {
        let drains = self.worker.draining.get() && self.timer.is_idle();
        drains || self.timer.by(self.line.ends_at_ms.get()).is_over()
    }

    /// Waits until there is a datagram or an error, or the session's time is up.
    async fn ready(&self, upstream: &UdpSocket) -> io::Result<Ready> {
        let mut ready = pin!(upstream.ready(Interest::READABLE | Interest::ERROR));
        poll_fn(|cx| match ready.as_mut().poll(cx) {
            Poll::Pending if self.is_over() => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            polled => polled,
        })
        .await
    }
}

/// A socket that sends to the node and hears of no one else.
async fn connect(pool: &AddrPool) -> Result<Rc<UdpSocket>, ProxyError> {
    let connected = || {
        let socket = std::net::UdpSocket::bind(any_port(pool.address))?;
        socket.set_nonblocking(true)?;
        socket.connect(pool.address)?;
        UdpSocket::from_std(socket)
    };
    let failed = |error: io::Error| ProxyError::io(Side::Upstream, &error).retriable();
    let socket = connected().map_err(failed)?;
    // It can take bytes at once, but the event loop has to notice.
    socket.writable().await.map_err(failed)?;
    Ok(Rc::new(socket))
}

/// Any port of all addresses of the family of `peer`.
fn any_port(peer: SocketAddr) -> SocketAddr {
    let ip = if peer.is_ipv4() { IpAddr::from(Ipv4Addr::UNSPECIFIED) } else { Ipv6Addr::UNSPECIFIED.into() };
    SocketAddr::new(ip, 0)
}
