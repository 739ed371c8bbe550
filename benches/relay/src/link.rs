//! A client and its upstream connection: what is read from one is written to the other.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use rustix::event::epoll::EventFlags;

use crate::accepted;

/// One end of a link.
#[derive(Clone, Copy)]
pub enum Side {
    /// Who connected to us.
    Client = 0,
    /// Whom we connected to.
    Upstream = 1,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Client => Self::Upstream,
            Self::Upstream => Self::Client,
        }
    }
}

/// Two connected sockets and what could not be written yet.
pub struct Link {
    ends: [End; 2],
}

/// A socket and the bytes that wait to be written to it. At most one read's worth waits: the other side is not read
/// before they are gone.
struct End {
    socket: TcpStream,
    waiting: Vec<u8>,
    written: usize,
}

impl Link {
    /// Joins two connected sockets.
    pub fn new(client: TcpStream, upstream: TcpStream) -> io::Result<Self> {
        Ok(Self { ends: [End::new(client)?, End::new(upstream)?] })
    }

    /// The socket of a side.
    pub fn socket(&self, side: Side) -> &TcpStream {
        &self.ends[side as usize].socket
    }

    /// What epoll shall report of a side.
    pub fn interest(&self, side: Side) -> EventFlags {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::OUT, self.ends[side as usize].is_waiting());
        flags.set(EventFlags::IN, !self.ends[side.other() as usize].is_waiting());
        flags
    }

    /// Does what an event of `side` allows. Tells whether the interests have changed; an error, the end of the stream
    /// included, ends the link.
    pub fn serve(&mut self, side: Side, flags: EventFlags, buffer: &mut [u8]) -> io::Result<bool> {
        let mut changed = false;
        if flags.contains(EventFlags::OUT) {
            changed = self.ends[side as usize].flush()?;
        }
        let from = side as usize;
        let to = side.other() as usize;
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) && !self.ends[to].is_waiting()
        {
            let count = match self.ends[from].socket.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(changed),
                Err(error) => return Err(error),
            };
            changed |= self.ends[to].write(&buffer[..count])?;
        }
        Ok(changed)
    }
}

impl End {
    fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, waiting: Vec::new(), written: 0 })
    }

    fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Writes what the socket takes and keeps the rest; true when something was kept.
    fn write(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let count = accepted(self.socket.write(bytes))?;
        self.waiting.extend_from_slice(&bytes[count..]);
        Ok(self.is_waiting())
    }

    /// Writes what was kept; true when all of it is gone.
    fn flush(&mut self) -> io::Result<bool> {
        self.written += accepted(self.socket.write(&self.waiting[self.written..]))?;
        let done = self.written == self.waiting.len();
        if done {
            self.waiting.clear();
            self.written = 0;
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A connection as its two sockets.
    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn what_the_reader_does_not_take_waits_and_stops_the_other_side() {
        let (mut client, client_end) = connection();
        let (mut upstream, upstream_end) = connection();
        let mut link = Link::new(client_end, upstream_end).unwrap();
        let body = vec![7u8; 32 << 20];
        let sent = body.clone();
        let sender = std::thread::spawn(move || upstream.write_all(&sent).map(|()| upstream));
        let mut buffer = vec![0; 1 << 16];
        while !link.ends[0].is_waiting() {
            link.serve(Side::Upstream, EventFlags::IN, &mut buffer).unwrap();
        }
        assert_eq!(link.interest(Side::Client), EventFlags::OUT | EventFlags::IN);
        assert_eq!(link.interest(Side::Upstream), EventFlags::empty());
        client.set_nonblocking(true).unwrap();
        let mut received = Vec::new();
        while received.len() < body.len() {
            let side = if link.ends[0].is_waiting() { Side::Client } else { Side::Upstream };
            let flags = if link.ends[0].is_waiting() { EventFlags::OUT } else { EventFlags::IN };
            link.serve(side, flags, &mut buffer).unwrap();
            if let Ok(count) = client.read(&mut buffer) {
                received.extend_from_slice(&buffer[..count]);
            }
        }
        assert!(received == body);
        drop(sender.join().unwrap());
    }

    #[test]
    fn the_end_of_either_side_ends_the_link() {
        let (client, client_end) = connection();
        let (_upstream, upstream_end) = connection();
        let mut link = Link::new(client_end, upstream_end).unwrap();
        drop(client);
        let mut buffer = [0; 16];
        while link.serve(Side::Client, EventFlags::IN, &mut buffer).is_ok() {}
    }
}
