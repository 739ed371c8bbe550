//! `ssls`: certificates, for clients that ask for a name and for upstreams that ask who calls.

use crate::Id;
use serde::Deserialize;
use stdx::Secret;

/// A certificate with its key. Every certificate and key may be a reference (`$secret://`, `$env://`) instead of PEM.
#[derive(Debug, Clone, Deserialize)]
pub struct Ssl {
    /// The resource's id.
    pub id: Option<Id>,
    /// Whom the certificate is shown to.
    #[serde(rename = "type", default)]
    pub side: SslSide,
    /// The chain in PEM, own certificate first.
    pub cert: String,
    /// Its private key in PEM, or as it was encrypted for the store.
    pub key: Secret,
    /// One server name; exact, or a suffix where it begins with `*`.
    pub sni: Option<String>,
    /// Or several.
    pub snis: Option<Vec<String>>,
    /// Further chains for the same names, such as one of another key type.
    #[serde(default)]
    pub certs: Vec<String>,
    /// The key of each of `certs`.
    #[serde(default)]
    pub keys: Vec<Secret>,
    /// Whether clients are asked for a certificate, and whose are taken.
    pub client: Option<ClientVerification>,
    /// 1: in use (default); 0: kept but not shown.
    pub status: Option<u8>,
    /// The versions spoken (`TLSv1.1`, `TLSv1.2`, `TLSv1.3`); the gateway-wide setting where absent.
    pub ssl_protocols: Option<Vec<String>>,
}

/// Whom a certificate is shown to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SslSide {
    /// Clients of the gateway.
    #[default]
    Server,
    /// Upstreams, by `tls.client_cert_id`.
    Client,
}

/// `client` of an ssl: mutual TLS.
#[derive(Debug, Clone, Deserialize)]
pub struct ClientVerification {
    /// The certificates that clients' are signed with, in PEM.
    pub ca: String,
    /// How many intermediate certificates a client's chain may have.
    #[serde(default = "depth")]
    pub depth: u32,
    /// Paths that need no client certificate, as regular expressions.
    #[serde(default)]
    pub skip_mtls_uri_regex: Vec<String>,
}

fn depth() -> u32 {
    1
}

impl Ssl {
    /// Its server names, whichever of the two fields holds them. Of both APISIX prefers the list.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let one = self.sni.iter().filter(|_| self.snis.is_none());
        self.snis.iter().flatten().chain(one).map(String::as_str)
    }

    /// Every chain with its key.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let more = self.certs.iter().zip(&self.keys).map(|(cert, key)| (cert.as_str(), key.as_str()));
        std::iter::once((self.cert.as_str(), self.key.as_str())).chain(more)
    }

    /// Whether it is shown to anybody.
    #[must_use]
    pub fn enabled(&self) -> bool {
        self.status != Some(0)
    }
}
