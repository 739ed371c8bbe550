//! One HTTP/1.1 connection of the generator: its socket, its TLS session where it has one, and what is under way on it.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send,
    socket_with, sockopt,
};
use rustls::ClientConnection;

use super::response::{Progress, ResponseReader, Scanner};
use super::tls::{Tls, facts, failure};
use crate::load::{Endpoint, ErrorKind, Fault, Nanos, Turn, now};

/// A request that waits for its answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flight {
    pub(super) intended: Nanos,
    pub(super) sent: Nanos,
}

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Being made since this time, the TLS session included.
    Connecting(Nanos),
    /// Ready for requests.
    Open,
}

/// What reading brought.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// Answers completed.
    pub(super) answers: usize,
    /// When the last of them was complete.
    pub(super) at: Nanos,
    /// The server closes the connection behind the last of them.
    pub(super) closing: bool,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) state: State,
    pub(super) flights: VecDeque<Flight>,
    /// Answers since it was made: a connection that never gave one isn't made again at once.
    pub(super) answers: u64,
    socket: OwnedFd,
    session: Option<Box<ClientConnection>>,
    reader: ResponseReader,
    /// What the socket did not take yet.
    unsent: Vec<u8>,
}

impl Connection {
    /// Begins to connect.
    pub(super) fn begin(turn: &Turn<'_>, at: Nanos) -> Result<Self, Fault> {
        let plan = turn.plan;
        let socket = open(&plan.endpoint).map_err(|error| {
            Fault::new(
                ErrorKind::Connect,
                format!("no connection to {}: {}", plan.endpoint, describe(&error)),
            )
        })?;
        let session = plan.tls.as_ref().map(session).transpose()?;
        Ok(Self {
            state: State::Connecting(at),
            flights: VecDeque::with_capacity(plan.depth),
            answers: 0,
            socket,
            session,
            reader: ResponseReader::new(plan.check.clone()),
            unsent: Vec::new(),
        })
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The socket can be written: it is connected, or its buffer has room again.
    pub(super) fn writable(&mut self, turn: &mut Turn<'_>) -> Result<(), Fault> {
        if matches!(self.state, State::Connecting(_)) {
            let refused = sockopt::socket_error(&self.socket).and_then(|outcome| outcome);
            if let Err(error) = refused {
                let endpoint = &turn.plan.endpoint;
                let message = format!("no connection to {endpoint}: {}", describe(&error.into()));
                return Err(Fault::new(ErrorKind::Connect, message));
            }
            if self.session.is_none() {
                self.opened(turn);
                return Ok(());
            }
        }
        self.flush()
    }

    fn opened(&mut self, turn: &mut Turn<'_>) {
        self.state = State::Open;
        turn.tally.connects += 1;
        if let Some(session) = self.session.as_ref().filter(|_| turn.tally.tls.is_none()) {
            turn.tally.tls = Some(facts(session));
        }
    }

    /// Whether the socket must take more before all is sent.
    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Sends `bytes`, or keeps what the socket doesn't take.
    #[inline]
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        if let Some(session) = &mut self.session {
            session.writer().write_all(bytes).map_err(|error| write_fault(&error))?;
            return self.flush();
        }
        let taken = if self.unsent.is_empty() { transmit(&self.socket, bytes)? } else { 0 };
        if taken < bytes.len() {
            self.unsent.extend_from_slice(&bytes[taken..]);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Fault> {
        if let Some(session) = &mut self.session {
            while session.wants_write() {
                session.write_tls(&mut self.unsent).map_err(|error| write_fault(&error))?;
            }
        }
        if !self.unsent.is_empty() {
            let taken = transmit(&self.socket, &self.unsent)?;
            self.unsent.drain(..taken);
        }
        Ok(())
    }

    /// Reads what there is. `hung_up`: the server has closed its side, so everything up to the end has to be read now,
    /// because there will be no further event.
    #[inline]
    pub(super) fn readable(
        &mut self,
        turn: &mut Turn<'_>,
        scanner: &mut Scanner,
        buffer: &mut [u8],
        hung_up: bool,
    ) -> Result<Received, Fault> {
        let mut received = Received::default();
        loop {
            let count = match recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
                Ok((count, _)) => count,
                Err(Errno::AGAIN) => return Ok(received),
                Err(Errno::INTR) => continue,
                Err(error) => {
                    let message = format!("the connection broke: {}", describe(&error.into()));
                    return Err(Fault::new(self.read_kind(), message));
                }
            };
            if count == 0 {
                self.ended(turn, &mut received)?;
                return Ok(received);
            }
            match self.session {
                None => self.digest(&buffer[..count], turn, scanner, &mut received)?,
                Some(_) => self.decrypt(&buffer[..count], turn, scanner, &mut received)?,
            }
            if received.closing || (count < buffer.len() && !hung_up) {
                return Ok(received);
            }
        }
    }

    fn read_kind(&self) -> ErrorKind {
        if self.state == State::Open { ErrorKind::Read } else { ErrorKind::Connect }
    }

    /// Takes bytes of answers.
    #[inline]
    fn digest(
        &mut self,
        mut bytes: &[u8],
        turn: &mut Turn<'_>,
        scanner: &mut Scanner,
        received: &mut Received,
    ) -> Result<(), Fault> {
        let at = now();
        turn.tally.bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.flights.is_empty() {
                let message = format!("the server sent {} bytes that no request asked for", bytes.len());
                return Err(Fault::new(ErrorKind::Protocol, message));
            }
            let (used, progress) = self.reader.read(bytes, scanner)?;
            bytes = &bytes[used..];
            if let Progress::Complete(answer) = progress {
                self.complete(answer.status, at, turn, scanner);
                received.answers += 1;
                received.at = at;
                if !answer.keep_alive {
                    received.closing = true;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn complete(&mut self, status: u16, at: Nanos, turn: &mut Turn<'_>, scanner: &Scanner) {
        let Some(flight) = self.flights.pop_front() else { return };
        self.answers += 1;
        turn.answered(flight.intended, flight.sent, at, status);
        if let Some(mismatch) = self.reader.take_mismatch() {
            turn.tally.note_fault(1, ErrorKind::Body, || mismatch);
        }
        if turn.tally.server.is_none() {
            turn.tally.server = Some(scanner.server().unwrap_or_default());
        }
    }

    fn decrypt(
        &mut self,
        mut bytes: &[u8],
        turn: &mut Turn<'_>,
        scanner: &mut Scanner,
        received: &mut Received,
    ) -> Result<(), Fault> {
        // A record's plaintext at a time (RFC 8446 section 5.1).
        let mut plain = [0; 16 * 1024];
        while !bytes.is_empty() {
            let Some(session) = &mut self.session else { return Ok(()) };
            session.read_tls(&mut bytes).map_err(|error| Fault::new(ErrorKind::Tls, describe(&error)))?;
            session.process_new_packets().map_err(|error| Fault::new(ErrorKind::Tls, failure(&error)))?;
            if session.wants_write() {
                self.flush()?;
            }
            while let Some(session) = &mut self.session {
                match session.reader().read(&mut plain) {
                    Ok(0) => {
                        self.ended(turn, received)?;
                        return Ok(());
                    }
                    Ok(count) => self.digest(&plain[..count], turn, scanner, received)?,
                    Err(_) => break,
                }
                if received.closing {
                    return Ok(());
                }
            }
        }
        let established = self.session.as_ref().is_some_and(|session| !session.is_handshaking());
        if established && self.state != State::Open {
            self.opened(turn);
        }
        Ok(())
    }

    /// The server has closed its side.
    fn ended(&mut self, turn: &mut Turn<'_>, received: &mut Received) -> Result<(), Fault> {
        received.closing = true;
        if self.state != State::Open {
            let message = "the server closed the connection before it stood";
            return Err(Fault::new(ErrorKind::Connect, message));
        }
        if self.flights.is_empty() {
            return Ok(());
        }
        if let Progress::Complete(answer) = self.reader.end()? {
            if let Some(flight) = self.flights.pop_front() {
                turn.answered(flight.intended, flight.sent, now(), answer.status);
            }
            self.answers += 1;
            received.answers += 1;
        }
        Ok(())
    }
}

fn session(tls: &Tls) -> Result<Box<ClientConnection>, Fault> {
    let mut session = ClientConnection::new(tls.config.clone(), tls.name.clone())
        .map_err(|error| Fault::new(ErrorKind::Tls, failure(&error)))?;
    // Bounded by the plan: at most `depth` requests are under way.
    session.set_buffer_limit(None);
    Ok(Box::new(session))
}

/// A socket that is being connected.
fn open(endpoint: &Endpoint) -> io::Result<OwnedFd> {
    let family = match endpoint {
        Endpoint::Tcp(address) if address.is_ipv6() => AddressFamily::INET6,
        Endpoint::Tcp(_) => AddressFamily::INET,
        Endpoint::Unix(_) => AddressFamily::UNIX,
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    let begun = match endpoint {
        Endpoint::Tcp(address) => {
            sockopt::set_tcp_nodelay(&socket, true)?;
            connect(&socket, address)
        }
        Endpoint::Unix(path) => connect(&socket, &SocketAddrUnix::new(path.as_path())?),
    };
    match begun {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

#[inline]
fn transmit(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Fault> {
    loop {
        return match send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(taken) => Ok(taken),
            Err(Errno::AGAIN) => Ok(0),
            Err(Errno::INTR) => continue,
            Err(error) => Err(write_fault(&error.into())),
        };
    }
}

fn write_fault(error: &io::Error) -> Fault {
    Fault::new(ErrorKind::Write, format!("a request could not be sent: {}", describe(error)))
}

/// An error in words, without the operating system's number.
pub(super) fn describe(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    text.chars()
        .next()
        .map(|first| first.to_lowercase().chain(text.chars().skip(1)).collect())
        .unwrap_or_default()
}
