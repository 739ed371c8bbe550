//! What a finished handshake tells of the client: the values of `$ssl_*`.

use crate::{Choice, Verdict, ciphers, der};
use rustls::pki_types::CertificateDer;
use rustls::{HandshakeKind, ProtocolVersion, ServerConnection};
use std::sync::Arc;

/// The client at the other end of a TLS connection.
#[derive(Debug)]
pub struct Peer {
    /// The site that it was shown.
    pub site: Arc<crate::Site>,
    /// The name that it asked for, in lower case, or the fallback's.
    pub server_name: Box<str>,
    /// `TLSv1.2` or `TLSv1.3`.
    pub protocol: &'static str,
    /// The cipher suite, by OpenSSL's name.
    pub cipher: &'static str,
    /// Whether the session is a resumed one.
    pub resumed: bool,
    /// Whether HTTP/2 was agreed upon.
    pub http2: bool,
    /// What became of its certificate.
    pub verdict: Verdict,
    certificate: Option<CertificateDer<'static>>,
}

impl Peer {
    /// The client of `connection`, whose handshake is done and was begun by `choice`.
    #[must_use]
    pub fn new(connection: &ServerConnection, choice: Choice) -> Self {
        let chain = connection.peer_certificates().unwrap_or_default();
        Self {
            http2: connection.alpn_protocol() == Some(b"h2"),
            verdict: choice.site.verdict(chain),
            certificate: chain.first().map(|certificate| certificate.clone().into_owned()),
            site: choice.site,
            server_name: choice.server_name,
            protocol: match connection.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "",
            },
            cipher: connection.negotiated_cipher_suite().map_or("", |suite| ciphers::name(suite.suite())),
            resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }

    /// Whether the client may ask for `path` of `host` (in lower case): as APISIX has it, a site that wants client
    /// certificates is reached through its own name alone, and by a verified client, unless the path needs none.
    /// `wanted` is the site that now has that host's name.
    ///
    /// # Errors
    /// Why not, for the log.
    pub fn admits(&self, host: &str, path: &[u8], wanted: Option<&crate::Site>) -> Result<(), String> {
        let sites = [Some(&*self.site), wanted];
        if sites.into_iter().flatten().any(|site| site.guards(path)) {
            match &self.verdict {
                Verdict::Success => {}
                Verdict::None => return Err("client certificate was not present".to_owned()),
                failed @ Verdict::Failed(_) => {
                    return Err(format!("client certificate verification is not passed: {}", failed.text()));
                }
            }
        }
        if wanted.is_some_and(crate::Site::asks_clients) && *host != *self.server_name {
            let name = &self.server_name;
            return Err(format!("client certificate verified with SNI {name}, but the host is {host}"));
        }
        Ok(())
    }

    /// The subject of its certificate, as RFC 2253 writes names; `None` where it has shown none.
    #[must_use]
    pub fn subject(&self) -> Option<String> {
        Some(der::name(self.parts()?.subject))
    }

    /// Its certificate's issuer, likewise.
    #[must_use]
    pub fn issuer(&self) -> Option<String> {
        Some(der::name(self.parts()?.issuer))
    }

    /// Its certificate's serial number in hexadecimal.
    #[must_use]
    pub fn serial(&self) -> Option<String> {
        let serial = self.parts()?.serial;
        // A positive number may have a leading zero octet that is no digit of it.
        Some(der::hex(serial.strip_prefix(&[0]).filter(|rest| !rest.is_empty()).unwrap_or(serial)))
    }

    /// SHA-1 of its certificate, in lower-case hexadecimal.
    #[must_use]
    pub fn fingerprint(&self) -> Option<String> {
        let digest =
            ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, self.certificate.as_ref()?);
        Some(der::hex(digest.as_ref()).to_ascii_lowercase())
    }

    /// Its certificate in PEM.
    #[must_use]
    pub fn pem(&self) -> Option<String> {
        use base64::Engine;
        let text = base64::engine::general_purpose::STANDARD.encode(self.certificate.as_ref()?);
        let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
        for line in text.as_bytes().chunks(64) {
            pem.extend(line.iter().map(|byte| char::from(*byte)));
            pem.push('\n');
        }
        pem.push_str("-----END CERTIFICATE-----\n");
        Some(pem)
    }

    fn parts(&self) -> Option<der::Parts<'_>> {
        der::Parts::read(self.certificate.as_ref()?)
    }
}
