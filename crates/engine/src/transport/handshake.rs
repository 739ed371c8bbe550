//! Handshakes with clients and with upstreams, each as a whole within a limit.

use super::TlsStream;
use crate::error::{ErrorKind, ProxyError, Side};
use crate::io::{read, write_all};
use crate::timer::TimeLimit;
use crate::worker::Current;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use tls::rustls::pki_types::ServerName;
use tls::rustls::server::Acceptor;
use tls::rustls::{ClientConfig, ClientConnection, Connection};
use tls::{Peer, Server};
use tokio::net::TcpStream;

/// Bytes of a client's hello that are read at once; few are longer.
const HELLO_READ: usize = 2048;

/// The alert for a name that nobody has (RFC 6066 section 3), as a record of its own: there is no session yet.
const UNRECOGNIZED_NAME: &[u8] = &[21, 3, 3, 0, 2, 2, 112];

/// Answers a client's handshake with the site that it asks for.
///
/// # Errors
/// Why there is no session, for the log.
pub(crate) async fn accept(
    mut socket: TcpStream,
    server: &Server,
    snapshot: impl Fn() -> Current,
    limit: TimeLimit<'_>,
) -> Result<(Box<TlsStream>, Peer), String> {
    let mut acceptor = Acceptor::default();
    let mut bytes = [0u8; HELLO_READ];
    let accepted = loop {
        let count = read(&mut socket, &mut bytes, limit).await.map_err(|error| error.to_string())?;
        if count == 0 {
            return Err("the client left before its hello was complete".to_owned());
        }
        let mut rest = &bytes[..count];
        while !rest.is_empty() {
            acceptor.read_tls(&mut rest).map_err(|error| error.to_string())?;
        }
        match acceptor.accept() {
            Ok(Some(accepted)) => break accepted,
            Ok(None) => {}
            Err((error, mut alert)) => {
                let mut words = Vec::new();
                let _ = alert.write_all(&mut words);
                let _ = write_all(&mut socket, &words, limit).await;
                return Err(error.to_string());
            }
        }
    };
    // Looked up only now: of a certificate that changes meanwhile the new one is shown.
    let choice = match server.choose(&accepted.client_hello(), &snapshot().tls) {
        Ok(choice) => choice,
        Err(error) => {
            let _ = write_all(&mut socket, UNRECOGNIZED_NAME, limit).await;
            return Err(error);
        }
    };
    let connection = match accepted.into_connection(Arc::clone(&choice.config)) {
        Ok(connection) => connection,
        Err((error, mut alert)) => {
            let mut words = Vec::new();
            let _ = alert.write_all(&mut words);
            let _ = write_all(&mut socket, &words, limit).await;
            return Err(error.to_string());
        }
    };
    let stream = TlsStream::new(socket, Connection::Server(connection));
    finish(&stream, limit).await.map_err(|error| error.to_string())?;
    let peer = stream.with(|connection| match connection {
        Connection::Server(connection) => Ok(Peer::new(connection, choice)),
        Connection::Client(_) => Err("not a server's session".to_owned()),
    })?;
    Ok((stream, peer))
}

/// Begins a session with the upstream called `name`.
///
/// # Errors
/// An upstream that can't be spoken with, or is not who it should be. Nothing was sent to it, so another may be tried.
pub(crate) async fn connect(
    socket: TcpStream,
    config: &Arc<ClientConfig>,
    name: &ServerName<'static>,
    limit: TimeLimit<'_>,
) -> Result<Box<TlsStream>, ProxyError> {
    let failed = |kind, reason| ProxyError::new(Side::Upstream, kind, reason).retriable();
    let connection = ClientConnection::new(Arc::clone(config), name.clone())
        .map_err(|_| failed(ErrorKind::Connection, "TLS can't be begun"))?;
    let stream = TlsStream::new(socket, Connection::Client(connection));
    finish(&stream, limit).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::TimedOut => failed(ErrorKind::Timeout, "timed out in the TLS handshake"),
        _ => {
            tracing::error!(upstream = ?name, "TLS handshake with the upstream: {error}");
            failed(ErrorKind::Connection, "TLS handshake failed")
        }
    })?;
    Ok(stream)
}

async fn finish(stream: &TlsStream, mut limit: TimeLimit<'_>) -> std::io::Result<()> {
    poll_fn(|cx| match stream.poll_handshake(cx) {
        Poll::Pending => limit.pending(),
        polled => polled,
    })
    .await
}
