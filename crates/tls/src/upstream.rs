//! The client's side: TLS to upstreams.

use crate::Identity;
use crate::identity::certificates;
use crate::provider;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::{Arc, OnceLock};

/// Whose certificates upstreams may have (`apisix.ssl.ssl_trusted_certificate`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust {
    /// Authorities in PEM, besides the system's.
    pub pem: Vec<String>,
    /// Whether the system's are trusted.
    pub system: bool,
}

/// Whether an upstream's certificate is looked at (`tls.verify` of an upstream).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verify {
    /// It must be valid for the name that is asked for.
    Name,
    /// Any will do: what is sent is encrypted, to whoever answers.
    Nothing,
}

/// Makes what handshakes with upstreams are done with.
#[derive(Debug)]
pub struct Upstreams {
    trust: Trust,
    /// Read when the first upstream is to be verified: the system's list takes a moment.
    roots: OnceLock<Arc<RootCertStore>>,
}

impl Upstreams {
    /// Upstreams that are trusted as `trust` says.
    ///
    /// # Errors
    /// A text that holds no certificates.
    pub fn new(trust: Trust) -> Result<Self, crate::IdentityError> {
        trust.pem.iter().try_for_each(|pem| certificates(pem).map(|_| ()))?;
        Ok(Self { trust, roots: OnceLock::new() })
    }

    /// Returns whether both trust the same authorities for certain. Those of the system may have changed since they were
    /// read.
    #[must_use]
    pub fn trusts_as(&self, other: &Self) -> bool {
        !self.trust.system && self.trust == other.trust
    }

    /// What handshakes are done with that show `identity` and offer the protocols of `alpn`. It remembers sessions, so
    /// it is to be kept.
    ///
    /// # Errors
    /// Where nothing is trusted and the upstream is to be verified.
    pub fn config(
        &self,
        verify: Verify,
        identity: Option<&Identity>,
        alpn: &[&str],
    ) -> Result<Arc<ClientConfig>, Error> {
        let provider = Arc::clone(provider::shared());
        let verifier: Arc<dyn ServerCertVerifier> = match verify {
            Verify::Nothing => {
                Arc::new(Anyone(provider.signature_verification_algorithms.supported_schemes()))
            }
            Verify::Name => WebPkiServerVerifier::builder_with_provider(self.roots(), Arc::clone(&provider))
                .build()
                .map_err(|error| Error::General(error.to_string()))?,
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match identity {
            Some(identity) => {
                builder.with_client_cert_resolver(Arc::new(Own(Arc::clone(identity.certified()))))
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(Arc::new(config))
    }

    fn roots(&self) -> Arc<RootCertStore> {
        Arc::clone(self.roots.get_or_init(|| {
            let mut roots = RootCertStore::empty();
            if self.trust.system {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
            for pem in &self.trust.pem {
                roots.add_parsable_certificates(certificates(pem).unwrap_or_default());
            }
            Arc::new(roots)
        }))
    }
}

/// Shows one certificate, whatever the server says it would take: the operator has chosen it.
#[derive(Debug)]
struct Own(Arc<CertifiedKey>);

impl ResolvesClientCert for Own {
    fn resolve(&self, _hints: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.key.choose_scheme(schemes).map(|_| Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Takes any certificate. Signatures are not looked at either: they would only show that whoever answers has the key
/// of a certificate that says nothing.
#[derive(Debug)]
struct Anyone(Vec<SignatureScheme>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.clone()
    }
}
