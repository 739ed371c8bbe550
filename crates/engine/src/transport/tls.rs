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

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::sync::Arc;
    use tls::rustls::pki_types::{PrivateKeyDer, ServerName};
    use tls::rustls::version::{TLS12, TLS13};
    use tls::rustls::{ClientConnection, ServerConfig, ServerConnection, SupportedProtocolVersion};
    use tokio::net::TcpListener;

    /// Both ends of a connection after the handshake: the gateway's, and an upstream's that has sent all it had to.
    async fn pair(version: &'static SupportedProtocolVersion) -> (Box<TlsStream>, Box<TlsStream>) {
        let upstreams = tls::Upstreams::new(tls::Trust::default()).unwrap();
        let config = upstreams.config(tls::Verify::Nothing, None, &[]).unwrap();
        let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let server = ServerConfig::builder_with_provider(Arc::clone(config.crypto_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let name = ServerName::try_from("a.test").unwrap();
        let client = TlsStream::new(socket, ClientConnection::new(config, name).unwrap().into());
        let (socket, _) = listener.accept().await.unwrap();
        let server = TlsStream::new(socket, ServerConnection::new(Arc::new(server)).unwrap().into());
        let (ours, theirs) = tokio::join!(shake(&client), shake(&server));
        ours.unwrap();
        theirs.unwrap();
        (client, server)
    }

    async fn shake(stream: &TlsStream) -> io::Result<()> {
        poll_fn(|cx| stream.poll_handshake(cx)).await?;
        poll_fn(|cx| stream.poll_flush(cx)).await
    }

    async fn send(stream: &TlsStream, bytes: &[u8]) {
        assert_eq!(poll_fn(|cx| stream.poll_write(cx, &[IoSlice::new(bytes)])).await.unwrap(), bytes.len());
        poll_fn(|cx| stream.poll_flush(cx)).await.unwrap();
    }

    /// Waits until the connection isn't quiet: what the other side has sent may arrive in pieces.
    async fn until_not_quiet(stream: &TlsStream) {
        while stream.is_quiet() {
            poll_fn(|cx| stream.0.borrow().socket.poll_read_ready(cx)).await.unwrap();
        }
    }

    #[tokio::test]
    async fn tickets_leave_a_connection_quiet() {
        let (ours, theirs) = pair(&TLS13).await;
        poll_fn(|cx| ours.0.borrow().socket.poll_read_ready(cx)).await.unwrap();
        assert!(ours.is_quiet() && ours.is_quiet());
        // What comes after them does not.
        send(&theirs, b"HTTP/1.1 408 Request Timeout\r\n\r\n").await;
        until_not_quiet(&ours).await;
    }

    #[tokio::test]
    async fn what_was_sent_unasked_is_no_quiet_wherever_it_waits() {
        for version in [&TLS12, &TLS13] {
            let (ours, theirs) = pair(version).await;
            send(&theirs, b"12").await;
            until_not_quiet(&ours).await;
            assert!(!ours.is_quiet(), "{version:?}: taken from the socket by the look before");
            let (ours, theirs) = pair(version).await;
            send(&theirs, b"12").await;
            let mut byte = [0];
            let mut buffer = ReadBuf::new(&mut byte);
            poll_fn(|cx| ours.poll_read(cx, &mut buffer)).await.unwrap();
            assert_eq!(buffer.filled(), b"1");
            assert!(!ours.is_quiet(), "{version:?}: decrypted, and half of it read");
            let mut buffer = ReadBuf::new(&mut byte);
            poll_fn(|cx| ours.poll_read(cx, &mut buffer)).await.unwrap();
            assert!(ours.is_quiet(), "{version:?}: all of it read");
        }
    }

    #[tokio::test]
    async fn an_end_is_no_quiet() {
        for version in [&TLS12, &TLS13] {
            let (ours, theirs) = pair(version).await;
            poll_fn(|cx| theirs.poll_shutdown(cx)).await.unwrap();
            until_not_quiet(&ours).await;
            let (ours, theirs) = pair(version).await;
            rustix::net::shutdown(&theirs.0.borrow().socket, rustix::net::Shutdown::Both).unwrap();
            until_not_quiet(&ours).await;
        }
    }
}
