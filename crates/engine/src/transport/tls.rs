//! An encrypted connection: rustls between the socket and whoever reads and writes.

use crate::sys::{plain, unacknowledged};
use std::cell::RefCell;
use std::io::{self, BufRead, IoSlice, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tls::rustls::{Connection, ProtocolVersion};
use tokio::io::{AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// An encrypted connection. Both directions share the session, so each call borrows it for its own length.
#[derive(Debug)]
pub(crate) struct TlsStream(RefCell<Session>);

#[derive(Debug)]
struct Session {
    socket: TcpStream,
    tls: Connection,
    /// Encrypted bytes that the socket has taken.
    sent: u64,
}

impl TlsStream {
    pub(crate) fn new(socket: TcpStream, tls: Connection) -> Box<Self> {
        Box::new(Self(RefCell::new(Session { socket, tls, sent: 0 })))
    }

    /// Drives the handshake to its end.
    pub(crate) fn poll_handshake(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let session = &mut *self.0.borrow_mut();
        loop {
            let done = !session.tls.is_handshaking();
            // In TLS 1.3 the rest leaves with the first message: a client's last flight, a server's tickets.
            if done && session.tls.protocol_version() == Some(ProtocolVersion::TLSv1_3) {
                return Poll::Ready(Ok(()));
            }
            ready!(session.poll_flush(cx))?;
            if done {
                return Poll::Ready(Ok(()));
            }
            if ready!(session.poll_receive(cx))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// The session, for a look at what was agreed upon.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&Connection) -> T) -> T {
        look(&self.0.borrow().tls)
    }

    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let session = &mut *self.0.borrow_mut();
        loop {
            match session.tls.reader().read(into.initialize_unfilled()) {
                Ok(count) => {
                    into.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The end of the socket without the end of the session: whoever cuts a connection is not believed.
                Err(error) => return Poll::Ready(Err(error)),
            }
            ready!(session.poll_receive(cx))?;
        }
    }

    /// Encrypts as much as the session takes, and sends what the socket takes of it; [`Self::poll_flush`] sends the
    /// rest.
    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let session = &mut *self.0.borrow_mut();
        loop {
            let count = session.tls.writer().write_vectored(slices)?;
            let flushed = session.poll_flush(cx)?;
            if count > 0 || slices.iter().all(|slice| slice.is_empty()) {
                return Poll::Ready(Ok(count));
            }
            // The session's buffer was full: it takes more once it is empty.
            ready!(flushed);
        }
    }

    /// Encrypts as much as the session takes, and sends only when it takes no more: for who writes many small pieces in a
    /// row and calls [`Self::poll_flush`] after the last.
    pub(crate) fn poll_gather(
        &self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let session = &mut *self.0.borrow_mut();
        loop {
            let count = session.tls.writer().write_vectored(slices)?;
            if count > 0 || slices.iter().all(|slice| slice.is_empty()) {
                return Poll::Ready(Ok(count));
            }
            ready!(session.poll_flush(cx))?;
        }
    }

    pub(crate) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_flush(cx)
    }

    /// Encrypted bytes that the socket has taken so far.
    pub(crate) fn sent(&self) -> u64 {
        self.0.borrow().sent
    }

    /// As [`crate::io::Sink::queued`].
    pub(crate) fn queued(&self) -> Option<u64> {
        unacknowledged(&self.0.borrow().socket)
    }

    /// Says that nothing more comes (RFC 8446 section 6.1), and closes the sending side.
    pub(crate) fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let session = &mut *self.0.borrow_mut();
        session.tls.send_close_notify();
        ready!(session.poll_flush(cx))?;
        Pin::new(&mut session.socket).poll_shutdown(cx)
    }

    /// As [`super::WriteSide::poll_left`].
    pub(crate) fn poll_left(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let session = &mut *self.0.borrow_mut();
        loop {
            match session.tls.process_new_packets() {
                Ok(state) if state.plaintext_bytes_to_read() > 0 => return Poll::Ready(false),
                Ok(state) if state.peer_has_closed() => return Poll::Ready(true),
                Ok(_) => {}
                Err(_) => return Poll::Ready(true),
            }
            match ready!(session.poll_receive(cx)) {
                Ok(count) if count > 0 => {}
                _ => return Poll::Ready(true),
            }
        }
    }

    /// As [`super::Stream::is_quiet`]. What the session itself sends, as servers send tickets, is taken in.
    pub(crate) fn is_quiet(&self) -> bool {
        let session = &mut *self.0.borrow_mut();
        // What was decrypted and not read is no longer on the socket.
        if !matches!(session.tls.reader().fill_buf(), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
        {
            return false;
        }
        loop {
            match session.tls.read_tls(&mut Now(&session.socket)) {
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
                Ok(0) => return false,
                Ok(_) => match session.tls.process_new_packets() {
                    Ok(state) if state.plaintext_bytes_to_read() == 0 && !state.peer_has_closed() => {}
                    _ => return false,
                },
            }
        }
    }
}

impl Session {
    /// Reads once from the socket, and takes in what came: how much that was, 0 at the end.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut wire = Wire { socket: &mut self.socket, cx };
        let count = match self.tls.read_tls(&mut wire) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            result => result?,
        };
        if let Err(error) = self.tls.process_new_packets() {
            // The other side is told why, if it can be told at once.
            let _ = self.poll_flush(cx);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Wire { socket: &mut self.socket, cx }) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(count) => self.sent += count as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Session {
    /// A last word where the socket takes it at once: a client that sees the end announced knows that nothing was cut.
    fn drop(&mut self) {
        if !self.tls.is_handshaking() {
            self.tls.send_close_notify();
            let mut sent = io::Result::Ok(1);
            while self.tls.wants_write() && matches!(sent, Ok(1..)) {
                sent = self.tls.write_tls(&mut Now(&self.socket));
            }
        }
    }
}

/// The socket within a poll: what can't be done now would block, and wakes the task once it can.
struct Wire<'w, 'c> {
    socket: &'w mut TcpStream,
    cx: &'w mut Context<'c>,
}

impl Read for Wire<'_, '_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(into);
        match plain::poll_recv(self.socket, self.cx, &mut buffer) {
            Poll::Ready(result) => result.map(|()| buffer.filled().len()),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl Write for Wire<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match Pin::new(&mut *self.socket).poll_write_vectored(self.cx, slices) {
            Poll::Ready(result) => result,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The socket outside of any poll: nobody is woken.
struct Now<'w>(&'w TcpStream);

impl Read for Now<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(into)
    }
}

impl Write for Now<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
