//! One end of a connection that speaks HTTP/1 by hand: a client or an upstream.

use crate::Message;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// How long a peer waits for bytes. A test that expects none says how long it waits itself.
const PATIENCE: Duration = Duration::from_secs(15);

/// A connection with what was read from it and not yet used.
#[derive(Debug)]
pub struct Peer {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Peer {
    /// Takes a connection.
    pub fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: Vec::new() }
    }

    /// Connects to a port of loopback.
    pub fn connect(port: u16) -> Self {
        Self::new(TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).unwrap())
    }

    /// The connection.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends bytes to a side that may have stopped to listen.
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Says that nothing more is sent.
    pub fn finish(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Ends the connection by a reset, as a crashed peer's kernel would.
    pub fn reset(self) {
        rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO)).unwrap();
    }

    /// Waits for more bytes; false at the end of the connection.
    ///
    /// # Errors
    /// When the other side has reset it, or nothing comes for too long.
    pub fn fill(&mut self) -> io::Result<bool> {
        let mut piece = [0; 64 * 1024];
        let count = self.stream.read(&mut piece)?;
        self.buffer.extend_from_slice(&piece[..count]);
        Ok(count > 0)
    }

    /// What is read and not yet used.
    pub fn unused(&self) -> &[u8] {
        &self.buffer
    }

    /// Exactly so many bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        self.try_bytes(count).unwrap_or_else(|error| panic!("{error}, after {:?}", lossy(&self.buffer)))
    }

    fn try_bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < count {
            if !self.fill()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.buffer.drain(..count).collect())
    }

    /// Bytes up to and with `end`.
    fn until(&mut self, end: &[u8]) -> io::Result<Vec<u8>> {
        let mut from = 0;
        loop {
            if let Some(at) = self.buffer[from..].windows(end.len()).position(|window| window == end) {
                return Ok(self.buffer.drain(..from + at + end.len()).collect());
            }
            from = self.buffer.len().saturating_sub(end.len());
            if !self.fill()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// A head alone.
    pub fn head(&mut self) -> Message {
        self.try_head().unwrap_or_else(|error| panic!("no head: {error}, after {:?}", lossy(&self.buffer)))
    }

    /// A head alone, where one comes.
    ///
    /// # Errors
    /// When the connection ends before it is complete.
    pub fn try_head(&mut self) -> io::Result<Message> {
        Ok(Message::head(&self.until(b"\r\n\r\n")?))
    }

    /// A whole request.
    ///
    /// # Errors
    /// When the connection ends before it is complete.
    pub fn request(&mut self) -> io::Result<Message> {
        let mut message = self.try_head()?;
        if message.lists("transfer-encoding", "chunked") {
            self.chunks(&mut message)?;
        } else if let Some(length) = message.field("content-length") {
            message.body = self.try_bytes(length.parse().unwrap())?;
        }
        Ok(message)
    }

    /// A whole response to a request that was no HEAD. Interim ones count.
    pub fn response(&mut self) -> Message {
        self.try_response("GET")
            .unwrap_or_else(|error| panic!("no response: {error}, after {:?}", lossy(&self.buffer)))
    }

    /// A whole response to `method`.
    ///
    /// # Errors
    /// When the connection ends before it is complete.
    pub fn try_response(&mut self, method: &str) -> io::Result<Message> {
        let mut message = self.try_head()?;
        if method == "HEAD" || matches!(message.status(), 100..200 | 204 | 304) {
            return Ok(message);
        }
        if message.lists("transfer-encoding", "chunked") {
            self.chunks(&mut message)?;
        } else if let Some(length) = message.field("content-length") {
            message.body = self.try_bytes(length.parse().unwrap())?;
        } else {
            while self.fill()? {}
            message.body = std::mem::take(&mut self.buffer);
        }
        Ok(message)
    }

    /// A chunked body, read by the letter: whatever is written otherwise fails the test.
    fn chunks(&mut self, message: &mut Message) -> io::Result<()> {
        loop {
            let line = self.until(b"\r\n")?;
            let size = std::str::from_utf8(&line[..line.len() - 2]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap_or_else(|_| panic!("bad chunk size {size:?}"));
            if size == 0 {
                break;
            }
            message.body.extend(self.try_bytes(size)?);
            assert_eq!(self.try_bytes(2)?, b"\r\n", "after a chunk");
        }
        loop {
            let line = self.until(b"\r\n")?;
            if line == b"\r\n" {
                return Ok(());
            }
            message.trailers.push(String::from_utf8_lossy(&line).trim_end().to_owned());
        }
    }

    /// Whether the other side has ended the connection, with nothing more sent. Waits for it.
    pub fn is_closed(&mut self) -> bool {
        match self.fill() {
            Ok(more) => !more && self.buffer.is_empty(),
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset && self.buffer.is_empty(),
        }
    }

    /// Whether nothing comes and nothing ends for a moment.
    pub fn is_quiet(&mut self, moment: Duration) -> bool {
        self.stream.set_read_timeout(Some(moment)).unwrap();
        let quiet = matches!(self.fill(), Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        quiet
    }

    /// Asks for `path` and reads the response.
    pub fn get(&mut self, path: &str) -> Message {
        self.get_from("e2e", path)
    }

    /// Asks for `path` at `host` and reads the response.
    pub fn get_from(&mut self, host: &str, path: &str) -> Message {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        self.response()
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(2000)]).into_owned()
}
