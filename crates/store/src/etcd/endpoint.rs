//! Where a member of the cluster is, and a connection to it.

use std::fmt;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A member's address as `deployment.etcd.host` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Whether it is spoken to over TLS.
    pub tls: bool,
    /// `etcd-1:2379`, the port filled in.
    pub authority: String,
}

/// TLS with the cluster.
#[derive(Debug, Clone)]
pub struct EtcdTls {
    /// Whom to trust, and the certificate to show.
    pub config: Arc<ClientConfig>,
    /// The name to ask for and to verify; `None` for the host's.
    pub server_name: Option<String>,
}

/// Bytes to and from a member.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// The port of etcd's clients where none is named.
const PORT_DEFAULT: u16 = 2379;

impl Endpoint {
    /// Reads `http://host:2379` or `https://...`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (tls, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => return Err("write it like http://127.0.0.1:2379".to_owned()),
        };
        let authority: http::uri::Authority =
            rest.trim_end_matches('/').parse().map_err(|_| format!("{rest:?} is no host and port"))?;
        if authority.as_str().contains('@') {
            return Err("user and password have keys of their own".to_owned());
        }
        let port = match authority.as_str().strip_prefix(authority.host()).unwrap_or_default() {
            "" => PORT_DEFAULT,
            port => port
                .strip_prefix(':')
                .and_then(|port| port.parse().ok())
                .ok_or_else(|| format!("{port:?} is no port"))?,
        };
        Ok(Self { tls, authority: format!("{}:{port}", authority.host()) })
    }

    /// Opens a connection that speaks HTTP/2.
    pub(crate) async fn connect(&self, tls: Option<&EtcdTls>) -> Result<Box<dyn Transport>, String> {
        let stream = TcpStream::connect(&self.authority).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        if !self.tls {
            return Ok(Box::new(stream));
        }
        let tls = tls.ok_or("no TLS is configured for it")?;
        let mut config = ClientConfig::clone(&tls.config);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let host = self.authority.rsplit_once(':').map_or("", |(host, _)| host);
        let host = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host);
        let name = tls.server_name.clone().unwrap_or_else(|| host.to_owned());
        let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
        let connector = TlsConnector::from(Arc::new(config));
        let stream = connector.connect(name, stream).await.map_err(|error| format!("TLS: {error}"))?;
        Ok(Box::new(stream))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_apisix_writes_them() {
        for (text, expected) in [
            ("http://127.0.0.1:2379", Ok("http://127.0.0.1:2379")),
            ("https://etcd-1", Ok("https://etcd-1:2379")),
            ("http://[::1]:12379/", Ok("http://[::1]:12379")),
            ("127.0.0.1:2379", Err("like http")),
            ("http://", Err("no host")),
            ("http://h:99999", Err("no port")),
            ("http://root:pw@h:1", Err("keys of their own")),
        ] {
            let read = Endpoint::parse(text).map(|endpoint| endpoint.to_string());
            match expected {
                Ok(endpoint) => assert_eq!(read.as_deref(), Ok(endpoint), "{text}"),
                Err(words) => {
                    assert!(read.as_ref().is_err_and(|said| said.contains(words)), "{text}: {read:?}");
                }
            }
        }
    }
}
