//! From a listener to what serves its clients.

use crate::capacity::{EVICTED_MAX, Limit};
use crate::config::{Listen, Serves};
use crate::connection;
use crate::listen::Listener;
use crate::open::{Open, Pause};
use crate::proxy_protocol;
use crate::stream;
use crate::timer::attach;
use crate::transport::Stream;
use crate::worker::Worker;
use plugin::Client;
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::{JoinHandle, spawn_local, yield_now};

/// Connections accepted in one turn of a worker at most: tokio's budget of operations. They count as open once their
/// tasks have begun.
const BURST: usize = 128;

/// The tasks that serve listeners.
#[derive(Default)]
pub(crate) struct Accepting(Vec<(Listen, JoinHandle<()>)>);

impl Accepting {
    pub(crate) fn begin(&mut self, worker: &Rc<Worker>, listeners: Vec<Listener>) -> io::Result<()> {
        for Listener { socket, listen, address } in listeners {
            let worker = Rc::clone(worker);
            let task = if listen.serves == Serves::Udp {
                let socket = UdpSocket::from_std(socket.into())?;
                spawn_local(stream::serve_datagrams(worker, socket, address))
            } else {
                let socket = TcpListener::from_std(socket.into())?;
                spawn_local(accept(worker, socket, Listen { address, ..listen }))
            };
            self.0.push((listen, task));
        }
        Ok(())
    }

    /// Ends those that are for none of `listen`.
    pub(crate) fn keep(&mut self, listen: &[Listen]) {
        self.0.retain(|(held, task)| {
            let wanted = listen.contains(held);
            if !wanted {
                task.abort();
            }
            wanted
        });
    }
}

async fn accept(worker: Rc<Worker>, listener: TcpListener, listen: Listen) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                worker.context.metrics.connections.accepted(&worker.token);
                worker.admit(&stream).await;
                // Fails only for a connection that is gone already.
                let Ok(local) = stream.local_addr() else { continue };
                begin(&worker, stream, listen, Client::new(peer, local, worker.next_serial()));
            }
            Err(error) => worker.refused(&error).await,
        }
    }
}

impl Worker {
    fn limit_of_clients(&self) -> Option<Limit> {
        self.capacity.limit(self.open.get(), self.config.borrow().worker_connections)
    }

    fn clients_max(&self) -> usize {
        self.capacity.clients_max(self.config.borrow().worker_connections)
    }

    fn note(&self, limit: Limit) {
        self.capacity.note(limit, self.open.get(), self.clients_max());
    }

    /// Whether no further client is served; the log is told.
    pub(crate) fn is_full(&self) -> bool {
        let limit = self.limit_of_clients();
        if let Some(limit) = limit {
            self.note(limit);
        }
        limit.is_some()
    }

    /// Waits until there is room for the client at the other end of `socket`, which has just been accepted.
    async fn admit(&self, socket: &impl AsFd) {
        if self.open.get().saturating_add(BURST) >= self.clients_max() {
            // Those accepted before begin to count.
            yield_now().await;
        }
        let short = self.capacity.is_late(socket).then_some(Limit::Descriptors);
        let Some(limit) = self.limit_of_clients().or(short) else { return };
        self.note(limit);
        let mut pause = Pause::new(self);
        while !self.has_room(socket) {
            if self.evict() > 0 {
                yield_now().await;
                if self.has_room(socket) {
                    return;
                }
            }
            // Nobody is idle, or those that were take their leave first, as with HTTP/2's GOAWAY.
            pause.one_tick().await;
        }
    }

    fn has_room(&self, any: &impl AsFd) -> bool {
        self.limit_of_clients().is_none() && !self.capacity.is_short(any)
    }

    /// What to do about a connection that could not be accepted.
    async fn refused(&self, error: &io::Error) {
        match Errno::from_io_error(error) {
            Some(Errno::MFILE | Errno::NFILE) => {
                self.note(Limit::Descriptors);
                self.evict();
            }
            _ => tracing::error!(%error, "accept failed"),
        }
        Pause::new(self).one_tick().await;
    }

    /// Closes idle connections, and returns how many.
    fn evict(&self) -> usize {
        let count = self.timers.evict((self.clients_max() / 8).clamp(1, EVICTED_MAX));
        self.capacity.evicted(count);
        count
    }
}

fn begin(worker: &Rc<Worker>, stream: TcpStream, listen: Listen, client: Client) {
    let worker = Rc::clone(worker);
    // Heads and small bodies leave in one write each; waiting to fill a packet would only delay them.
    let _ = stream.set_nodelay(true);
    drop(match listen {
        Listen { serves: Serves::Tcp { .. }, .. } => {
            spawn_local(stream::serve_connection(worker, stream, listen, client))
        }
        Listen { proxy_protocol: true, .. } => spawn_local(behind_proxy(worker, stream, listen, client)),
        Listen { tls: true, .. } => spawn_local(connection::serve_tls(worker, stream, client)),
        _ => spawn_local(connection::serve(worker, Stream::Plain(stream), client)),
    });
}

/// Serves HTTP behind a proxy that begins by saying who its client is.
async fn behind_proxy(worker: Rc<Worker>, mut stream: TcpStream, listen: Listen, mut client: Client) {
    let source = {
        let _open = Open::new(&worker);
        let registration = worker.timers.register();
        attach(&registration.timer).await;
        let ends_at_ms = worker.clock.deadline_ms(worker.config().client.header_timeout);
        match proxy_protocol::read_header(&mut stream, registration.timer.by(ends_at_ms)).await {
            Ok(header) => header.ends.map(|ends| ends.source),
            Err(reason) => return tracing::error!(client = %client.addr, "{reason}"),
        }
    };
    let believed = worker.config().real_ip.believes_proxy_protocol(client.ip());
    if let Some(source) = source.filter(|_| believed) {
        client = client.named(source);
    }
    if listen.tls {
        connection::serve_tls(worker, stream, client).await;
    } else {
        connection::serve(worker, Stream::Plain(stream), client).await;
    }
}
