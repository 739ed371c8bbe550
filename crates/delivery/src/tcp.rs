//! A collector at a TCP port, with TLS where that is asked for. Each batch has a connection of its own.

use crate::{Destination, Framing};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A TCP server.
#[derive(Debug)]
pub struct TcpCollector {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// For connecting, and for each write.
    pub timeout: Duration,
    /// TLS with the server; `None` for plain TCP.
    pub tls: Option<CollectorTls>,
    /// How a batch is written.
    pub framing: Framing,
}

/// TLS with a TCP server.
#[derive(Debug)]
pub struct CollectorTls {
    /// The name to ask for in the handshake, and the one that the certificate must be valid for.
    pub name: String,
    /// Whether the certificate is verified.
    pub verify: bool,
    /// Made with the first batch.
    pub config: OnceLock<Arc<ClientConfig>>,
}

impl CollectorTls {
    /// TLS that asks for `name`.
    #[must_use]
    pub fn new(name: String, verify: bool) -> Self {
        Self { name, verify, config: OnceLock::new() }
    }

    fn connection(&self) -> io::Result<ClientConnection> {
        let config = match self.config.get() {
            Some(config) => Arc::clone(config),
            None => {
                let made = tls::for_streams(self.verify).map_err(io::Error::other)?;
                Arc::clone(self.config.get_or_init(|| made))
            }
        };
        let name = ServerName::try_from(self.name.clone()).map_err(io::Error::other)?;
        ClientConnection::new(config, name).map_err(io::Error::other)
    }
}

impl Destination for TcpCollector {
    fn send(&self, entries: &[Vec<u8>]) -> Result<(), String> {
        let sent = self.connect().and_then(|stream| self.write(stream, &self.framing.join(entries)));
        sent.map_err(|error| format!("{}:{}: {error}", self.host, self.port))
    }
}

impl TcpCollector {
    fn connect(&self) -> io::Result<TcpStream> {
        let stream =
            reach(&self.host, self.port, |address| TcpStream::connect_timeout(&address, self.timeout))?;
        stream.set_read_timeout(Some(self.timeout))?;
        stream.set_write_timeout(Some(self.timeout))?;
        Ok(stream)
    }

    fn write(&self, mut stream: TcpStream, bytes: &[u8]) -> io::Result<()> {
        let Some(tls) = &self.tls else { return stream.write_all(bytes) };
        let mut stream = StreamOwned::new(tls.connection()?, stream);
        stream.write_all(bytes)?;
        stream.conn.send_close_notify();
        stream.flush()
    }
}

/// What `open` makes of the first of a host's addresses that it can do something with.
pub(crate) fn reach<T>(host: &str, port: u16, open: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host.trim_matches(['[', ']']), port).to_socket_addrs()? {
        match open(address) {
            Ok(opened) => return Ok(opened),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{ServerConfig, ServerConnection};
    use std::io::Read;
    use std::net::TcpListener;

    #[test]
    fn a_server_is_sent_entries_only_if_its_certificate_is_trusted_for_the_name() {
        let made = rcgen::generate_simple_self_signed(["logs.example".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let (listener, config) = (TcpListener::bind("127.0.0.1:0").unwrap(), Arc::new(config));
        let port = listener.local_addr().unwrap().port();
        // What the server reads from one connection; nothing where the handshake fails.
        let sent = |name: &str, verify: bool| {
            let (listener, config) = (listener.try_clone().unwrap(), Arc::clone(&config));
            let server = std::thread::spawn(move || {
                let stream = listener.accept().unwrap().0;
                let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
                let mut got = String::new();
                let _ = stream.read_to_string(&mut got);
                got
            });
            let collector = TcpCollector {
                host: "127.0.0.1".to_owned(),
                port,
                timeout: Duration::from_secs(5),
                tls: Some(CollectorTls::new(name.to_owned(), verify)),
                framing: Framing::Lines,
            };
            let result = collector.send(&[b"secret".to_vec()]);
            (result.is_ok(), server.join().unwrap())
        };
        let (all, nothing) = ((true, "secret".to_owned()), (false, String::new()));
        assert_eq!(sent("logs.example", true), nothing, "nobody trusts it");
        assert_eq!(sent("logs.example", false), all, "not verified");
        tls::trust_for_calls(tls::Trust { pem: vec![made.cert.pem()], system: false });
        assert_eq!(sent("logs.example", true), all, "ssl_trusted_certificate has it");
        assert_eq!(sent("other.example", true), nothing, "another name");
    }

    #[test]
    fn a_batch_has_a_connection_of_its_own() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let framing = Framing::Lines;
        let timeout = Duration::from_secs(5);
        let collector = TcpCollector { host: "127.0.0.1".to_owned(), port, timeout, tls: None, framing };
        for _ in 0..2 {
            collector.send(&[b"a".to_vec(), b"b".to_vec()]).unwrap();
            let mut got = String::new();
            listener.accept().unwrap().0.read_to_string(&mut got).unwrap();
            assert_eq!(got, "a\nb");
        }
        drop(listener);
        let refused = collector.send(&[b"a".to_vec()]).unwrap_err();
        assert!(refused.contains(&format!("127.0.0.1:{port}")), "{refused}");
    }
}
