//! The least that a proxy through sockets costs on this kernel: bytes are copied from one side to the other, and
//! nothing is read in them.
//!
//! `relay LISTEN UPSTREAM` opens one connection to `UPSTREAM` for each client, and closes both when either ends. One
//! thread, epoll (level-triggered), one `recv` and one `send` per message and side: a gateway that does its work with
//! the same calls differs from this by its own code alone.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

use relay::link::{Link, Side};
use relay::{LISTENER, no_events, wait, watching};
use rustix::event::epoll::{self, EventData, EventFlags};

/// Bytes taken from a socket at once: a 64 KiB body in as few calls as the socket's buffer allows.
const READ_BYTES: usize = 64 * 1024;

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(listen), Some(upstream), None) = (arguments.next(), arguments.next(), arguments.next()) else {
        return Err(io::Error::other("usage: relay LISTEN UPSTREAM, both as ADDRESS:PORT"));
    };
    let upstream = upstream.parse().map_err(|error| io::Error::other(format!("{upstream}: {error}")))?;
    Relay::new(TcpListener::bind(listen)?, upstream)?.run()
}

struct Relay {
    epoll: rustix::fd::OwnedFd,
    listener: TcpListener,
    upstream: SocketAddr,
    links: Vec<Option<Link>>,
    /// Places in `links` that are free again.
    free: Vec<usize>,
    buffer: Vec<u8>,
}

impl Relay {
    fn new(listener: TcpListener, upstream: SocketAddr) -> io::Result<Self> {
        Ok(Self {
            epoll: watching(&listener)?,
            listener,
            upstream,
            links: Vec::new(),
            free: Vec::new(),
            buffer: vec![0; READ_BYTES],
        })
    }

    fn run(mut self) -> io::Result<()> {
        let mut events = no_events();
        loop {
            for event in wait(&self.epoll, &mut events)? {
                let (token, flags) = (event.data.u64(), event.flags);
                if token == LISTENER { self.accept() } else { self.serve(token, flags) }
            }
        }
    }

    /// Takes every client that waits. One that can't be served is closed: the load generator counts that.
    fn accept(&mut self) {
        while let Ok((client, _)) = self.listener.accept() {
            let place = self.free.pop().unwrap_or(self.links.len());
            if let Ok(link) = self.link(client, place) {
                if place == self.links.len() {
                    self.links.push(None);
                }
                self.links[place] = Some(link);
            } else if place < self.links.len() {
                self.free.push(place);
            }
        }
    }

    /// Connects `client` with the upstream. The wait for the connection is taken: it is once per client, on loopback.
    fn link(&self, client: TcpStream, place: usize) -> io::Result<Link> {
        let link = Link::new(client, TcpStream::connect(self.upstream)?)?;
        for side in [Side::Client, Side::Upstream] {
            let data = EventData::new_u64(2 * place as u64 + side as u64);
            epoll::add(&self.epoll, link.socket(side), data, EventFlags::IN)?;
        }
        Ok(link)
    }

    fn serve(&mut self, token: u64, flags: EventFlags) {
        let place = (token / 2) as usize;
        let side = if token.is_multiple_of(2) { Side::Client } else { Side::Upstream };
        // An earlier event of the same batch may have closed it.
        let Some(Some(link)) = self.links.get_mut(place) else { return };
        let served = link.serve(side, flags, &mut self.buffer).and_then(|interest_changed| {
            if interest_changed {
                for side in [Side::Client, Side::Upstream] {
                    let data = EventData::new_u64(2 * place as u64 + side as u64);
                    epoll::modify(&self.epoll, link.socket(side), data, link.interest(side))?;
                }
            }
            Ok(())
        });
        if served.is_err() {
            // Dropping the sockets takes them out of the epoll set.
            self.links[place] = None;
            self.free.push(place);
        }
    }
}
