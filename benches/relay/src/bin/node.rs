//! A node that costs next to nothing: it answers from memory, and reads no more of a request than its path and its end.
//! Beside it on two cores the gateway in front is what a run saturates, whichever gateway that is.
//!
//! `node LISTEN` answers with 12 bytes on any path, 1 KiB on `/k1` and 64 KiB on `/k64`. One thread, epoll
//! (level-triggered); a request is expected without a body and without another behind it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

use relay::{LISTENER, accepted, no_events, wait, watching};
use rustix::event::epoll::{self, EventData, EventFlags};

/// The longest request's head.
const REQUEST_BYTES_MAX: usize = 16 * 1024;

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(listen), None) = (arguments.next(), arguments.next()) else {
        return Err(io::Error::other("usage: node LISTEN, as ADDRESS:PORT"));
    };
    Node::new(TcpListener::bind(listen)?)?.run()
}

struct Node {
    epoll: rustix::fd::OwnedFd,
    listener: TcpListener,
    /// By token. There are as many as a comparison has connections: a free place is looked for.
    clients: Vec<Option<Client>>,
    answers: Answers,
}

impl Node {
    fn new(listener: TcpListener) -> io::Result<Self> {
        Ok(Self { epoll: watching(&listener)?, listener, clients: Vec::new(), answers: Answers::new() })
    }

    fn run(mut self) -> io::Result<()> {
        let mut events = no_events();
        loop {
            for event in wait(&self.epoll, &mut events)? {
                let (token, flags) = (event.data.u64(), event.flags);
                if token == LISTENER { self.accept()? } else { self.serve(token, flags)? }
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        while let Ok((socket, _)) = self.listener.accept() {
            socket.set_nonblocking(true)?;
            socket.set_nodelay(true)?;
            let place = self.clients.iter().position(Option::is_none).unwrap_or(self.clients.len());
            epoll::add(&self.epoll, &socket, EventData::new_u64(place as u64), EventFlags::IN)?;
            if place == self.clients.len() {
                self.clients.push(None);
            }
            self.clients[place] = Some(Client { socket, request: Vec::new(), waiting: Vec::new() });
        }
        Ok(())
    }

    fn serve(&mut self, token: u64, flags: EventFlags) -> io::Result<()> {
        let place = token as usize;
        let Some(Some(client)) = self.clients.get_mut(place) else { return Ok(()) };
        let before = client.interest();
        if client.serve(flags, &self.answers).is_err() {
            // Dropping the socket takes it out of the epoll set.
            self.clients[place] = None;
        } else if client.interest() != before {
            epoll::modify(&self.epoll, &client.socket, EventData::new_u64(token), client.interest())?;
        }
        Ok(())
    }
}

struct Client {
    socket: TcpStream,
    /// The beginning of a request whose end has not come.
    request: Vec<u8>,
    /// What the socket did not take of an answer.
    waiting: Vec<u8>,
}

impl Client {
    fn interest(&self) -> EventFlags {
        if self.waiting.is_empty() { EventFlags::IN } else { EventFlags::OUT }
    }

    /// Does what an event allows; an error, the end of the stream included, ends the connection.
    fn serve(&mut self, flags: EventFlags, answers: &Answers) -> io::Result<()> {
        if flags.contains(EventFlags::OUT) {
            let count = accepted(self.socket.write(&self.waiting))?;
            self.waiting.drain(..count);
        }
        if !self.waiting.is_empty() {
            return Ok(());
        }
        let mut buffer = [0; REQUEST_BYTES_MAX];
        let count = match self.socket.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        let received = &buffer[..count];
        let ended = received.ends_with(b"\r\n\r\n");
        if ended && self.request.is_empty() {
            return self.answer(answers.to(received));
        }
        self.request.extend_from_slice(received);
        if self.request.ends_with(b"\r\n\r\n") {
            let answer = answers.to(&self.request);
            self.request.clear();
            return self.answer(answer);
        }
        if self.request.len() > REQUEST_BYTES_MAX { Err(ErrorKind::InvalidData.into()) } else { Ok(()) }
    }

    fn answer(&mut self, answer: &[u8]) -> io::Result<()> {
        let count = accepted(self.socket.write(answer))?;
        self.waiting.extend_from_slice(&answer[count..]);
        Ok(())
    }
}

/// Whole answers, with the fields that nginx sends.
struct Answers {
    short: Vec<u8>,
    k1: Vec<u8>,
    k64: Vec<u8>,
}

impl Answers {
    fn new() -> Self {
        let of = |body: &[u8]| {
            let head = format!(
                "HTTP/1.1 200 OK\r\nServer: node\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
                 Content-Type: text/plain\r\nContent-Length: {}\r\nConnection: keep-alive\r\n\r\n",
                body.len()
            );
            [head.as_bytes(), body].concat()
        };
        Self { short: of(b"hello world\n"), k1: of(&[b'x'; 1 << 10]), k64: of(&[b'x'; 1 << 16]) }
    }

    fn to(&self, request: &[u8]) -> &[u8] {
        if request.starts_with(b"GET /k1 ") {
            &self.k1
        } else if request.starts_with(b"GET /k64 ") {
            &self.k64
        } else {
            &self.short
        }
    }
}
