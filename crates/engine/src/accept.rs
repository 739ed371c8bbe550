//! From a listener to what serves its clients.

use crate::config::{Listen, Serves};
use crate::connection::{self, Open, Pause, attach};
use crate::listen::Listener;
use crate::proxy_protocol;
use crate::stream;
use crate::transport::Stream;
use crate::worker::Worker;
use plugin::Client;
use std::io;
use std::rc::Rc;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::{JoinHandle, spawn_local};

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
                if worker.is_full() {
                    continue;
                }
                // Fails only for a connection that is gone already.
                let Ok(local) = stream.local_addr() else { continue };
                begin(&worker, stream, listen, Client::new(peer, local, worker.next_serial()));
            }
            Err(error) => {
                // Out of descriptors, most likely: the next tick may find some free.
                tracing::error!(%error, "accept failed");
                let mut wait = Pause::new(&worker);
                wait.one_tick().await;
            }
        }
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
