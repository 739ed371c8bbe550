//! TLS on a server of the control plane.

use ::tls::rustls::{self, ServerConfig};
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a handshake may take, from the connection's start: the time of a request's head.
const HANDSHAKE_TIMEOUT: Duration = super::deadlines::HEAD_TIMEOUT;

/// What a client gets that speaks HTTP without TLS: nginx's status and words.
const PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n\
    Content-Length: 72\r\n\r\n{\"error_msg\":\"The plain HTTP request was sent to HTTPS port, use https\"}";

/// The first byte of a TLS record with a handshake (RFC 8446 section 5.1).
const HANDSHAKE_RECORD: u8 = 22;

/// The TLS configuration of a listener, which a reload may replace. Without one, connections are in the clear.
#[derive(Debug, Default)]
pub struct ListenerTls(RwLock<Option<Arc<ServerConfig>>>);

impl ListenerTls {
    /// A listener with this configuration.
    #[must_use]
    pub fn new(config: Option<Arc<ServerConfig>>) -> Self {
        Self(RwLock::new(config))
    }

    /// Replaces the configuration: it is that of connections that are accepted from now on.
    pub fn replace(&self, config: Option<Arc<ServerConfig>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = config;
    }

    /// The configuration for the next connection.
    pub(super) fn current(&self) -> Option<Arc<ServerConfig>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Answers the client's handshake. `None` where it fails; the error log says why. `server` is the server's name there.
pub(super) async fn accept(
    config: Arc<ServerConfig>,
    mut stream: TcpStream,
    peer: SocketAddr,
    server: &'static str,
) -> Option<TlsStream<TcpStream>> {
    let handshake = async {
        let mut first = [0];
        match stream.peek(&mut first).await {
            // A port scan, or a health check that only connects.
            Ok(0) => return None,
            Ok(_) if first[0] != HANDSHAKE_RECORD => {
                // What is read is not answered by a reset, which might overtake the answer.
                let mut read = vec![0; 4096];
                let _ = stream.read(&mut read).await;
                let _ = stream.write_all(PLAIN).await;
                return None;
            }
            // An error comes again with the handshake.
            Ok(_) | Err(_) => {}
        }
        match TlsAcceptor::from(config).accept(stream).await {
            Ok(stream) => Some(stream),
            Err(error) => {
                let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
                let reason = tls.map_or_else(|| error.to_string(), ::tls::handshake_failure);
                tracing::warn!(%peer, "TLS handshake with {server} failed: {reason}");
                None
            }
        }
    };
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await {
        Ok(stream) => stream,
        Err(_) => {
            tracing::warn!(%peer, "TLS handshake with {server} failed: timed out");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_plain_http_has_the_length_it_says() {
        let text = String::from_utf8_lossy(PLAIN);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{}", body.len());
    }
}
