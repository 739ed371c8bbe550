//! The client's side of TLS.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, CommonState, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    SupportedCipherSuite,
};

use super::Protocol;
use crate::load::TlsFacts;

/// What the user asked for.
#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    /// Take any certificate.
    pub insecure: bool,
    /// Trust the certificates in this PEM file alone, instead of the system's.
    pub cacert: Option<PathBuf>,
}

/// How connections are encrypted.
#[derive(Debug, Clone)]
pub struct Tls {
    /// Shared by all connections, the session cache with it.
    pub config: Arc<ClientConfig>,
    /// Whom the certificate has to name.
    pub name: ServerName<'static>,
}

impl Tls {
    /// The configuration for connections to `host`.
    ///
    /// # Errors
    /// When the PEM file can't be read or has no certificate, or `host` is neither name nor address.
    pub fn new(host: &str, protocol: Protocol, options: &TlsOptions) -> Result<Self, String> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("{host:?} is neither a name nor an address"))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let mut config = if options.insecure {
            let verifier = Arc::new(AnyCertificate(provider));
            builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
        } else {
            builder.with_root_certificates(roots(options)?).with_no_client_auth()
        };
        config.alpn_protocols = match protocol {
            Protocol::Http1 => vec![b"http/1.1".to_vec()],
            Protocol::Http2 => vec![b"h2".to_vec()],
        };
        Ok(Self { config: Arc::new(config), name })
    }
}

fn roots(options: &TlsOptions) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = &options.cacert {
        let unreadable = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unreadable(&error))? {
            let certificate = certificate.map_err(|error| unreadable(&error))?;
            roots.add(certificate).map_err(|error| unreadable(&error))?;
        }
        if roots.is_empty() {
            return Err(unreadable(&"there is no certificate in it"));
        }
    } else {
        // A system's bundle may hold certificates that are none; the others do.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err("this system has no trusted certificates; use --cacert or --insecure".into());
        }
    }
    Ok(roots)
}

/// What a finished handshake agreed upon.
pub(super) fn facts(session: &CommonState) -> TlsFacts {
    let or_empty = |text: Option<String>| text.unwrap_or_default();
    TlsFacts {
        version: or_empty(session.protocol_version().map(|version| format!("{version:?}"))),
        suite: or_empty(session.negotiated_cipher_suite().map(|suite| suite_name(&suite))),
        group: or_empty(session.negotiated_key_exchange_group().map(|group| format!("{:?}", group.name()))),
    }
}

fn suite_name(suite: &SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite())
}

/// What to say where a handshake failed.
pub(super) fn failure(error: &Error) -> String {
    let remedy = match error {
        Error::InvalidCertificate(_) => "; --cacert names whom to trust, --insecure takes any certificate",
        Error::InvalidMessage(_) => "; does this port speak TLS?",
        _ => "",
    };
    format!("no TLS session: {error}{remedy}")
}

/// Takes any certificate: a load generator's user knows which server is asked. Signatures are checked, so that the
/// cost of the handshake is the real one.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
