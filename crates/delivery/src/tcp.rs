//! A collector at a TCP port, with TLS where that is asked for. Each batch has a connection of its own.

use crate::{Destination, Framing};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;
use tls::{Trust, Upstreams, Verify};

/// A TCP server.
#[derive(Debug)]
pub struct TcpCollector {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// For connecting, and for each write.
    pub timeout: Duration,
    /// The name to ask for in the handshake, where TLS is spoken. Certificates are not looked at, as by APISIX.
    pub tls: Option<String>,
    /// How a batch is written.
    pub framing: Framing,
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
        let Some(name) = &self.tls else { return stream.write_all(bytes) };
        let name = ServerName::try_from(name.clone()).map_err(io::Error::other)?;
        let upstreams = Upstreams::new(Trust::default()).map_err(io::Error::other)?;
        let config = upstreams.config(Verify::Nothing, None, &[]).map_err(io::Error::other)?;
        let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, stream);
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
    use std::io::Read;
    use std::net::TcpListener;

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
