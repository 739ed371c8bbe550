//! Client certificates: whom a site asks for one, and which it takes.

use crate::identity::{IdentityError, certificates};
use crate::provider;
use model::ConfigError;
use model::pattern::{self, PatternError, PatternOptions};
use model::resource::ClientVerification;
use pcre2::bytes::Regex;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, TrustAnchor, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use webpki::KeyUsage;

/// Backtracking steps after which a pattern counts as not matching; then a certificate is needed.
const MATCH_LIMIT: u32 = 100_000;

/// What became of a client's certificate: `$ssl_client_verify`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// None was shown.
    None,
    /// It was shown and verified.
    Success,
    /// It was shown and not accepted, for this reason, in OpenSSL's words.
    Failed(&'static str),
}

impl Verdict {
    /// As in nginx: `NONE`, `SUCCESS`, `FAILED:reason`.
    #[must_use]
    pub fn text(&self) -> Cow<'static, str> {
        match self {
            Self::None => Cow::Borrowed("NONE"),
            Self::Success => Cow::Borrowed("SUCCESS"),
            Self::Failed(reason) => Cow::Owned(format!("FAILED:{reason}")),
        }
    }
}

/// `client` of an ssl, compiled.
#[derive(Debug)]
pub(crate) struct ClientAuth {
    anchors: Vec<TrustAnchor<'static>>,
    subjects: Vec<DistinguishedName>,
    depth: usize,
    skip: Vec<Regex>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientAuth {
    pub(crate) fn compile(written: &ClientVerification) -> Result<Self, Vec<ConfigError>> {
        let mut errors = Vec::new();
        let anchors = anchors(&written.ca).unwrap_or_else(|error| {
            errors.push(ConfigError::new("/ca", format!("failed to validate client_cert: {error}")));
            Vec::new()
        });
        let mut skip = Vec::new();
        for (at, pattern) in written.skip_mtls_uri_regex.iter().enumerate() {
            match compile_pattern(pattern) {
                Ok(pattern) => skip.push(pattern),
                Err(error) => {
                    errors.push(ConfigError::new(format!("/skip_mtls_uri_regex/{at}"), error.to_string()));
                }
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Self {
            subjects: anchors.iter().map(|anchor| DistinguishedName::in_sequence(&anchor.subject)).collect(),
            anchors,
            depth: written.depth as usize,
            skip,
            algorithms: provider::shared().signature_verification_algorithms,
        })
    }

    /// Whether the handshake goes on without a good certificate, because some paths need none.
    pub(crate) fn is_lenient(&self) -> bool {
        !self.skip.is_empty()
    }

    /// Whether requests for `path` need a verified certificate.
    pub(crate) fn guards(&self, path: &[u8]) -> bool {
        !self.skip.iter().any(|pattern| pattern.is_match(path).unwrap_or(false))
    }

    /// What to say of a chain that a client has shown, own certificate first.
    pub(crate) fn verdict(&self, chain: &[CertificateDer<'_>]) -> Verdict {
        let Some((own, intermediates)) = chain.split_first() else { return Verdict::None };
        match self.verify(own, intermediates, UnixTime::now()) {
            Ok(()) => Verdict::Success,
            Err(error) => Verdict::Failed(words(&error, own)),
        }
    }

    fn verify(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), webpki::Error> {
        let short = |path: &webpki::VerifiedPath<'_>| {
            if path.intermediate_certificates().count() <= self.depth {
                Ok(())
            } else {
                Err(webpki::Error::MaximumPathDepthExceeded)
            }
        };
        let own = webpki::EndEntityCert::try_from(own)?;
        let usage = KeyUsage::client_auth();
        let known = self.algorithms.all;
        own.verify_for_usage(known, &self.anchors, intermediates, now, usage, None, Some(&short)).map(|_| ())
    }
}

fn compile_pattern(text: &str) -> Result<Regex, PatternError> {
    pattern::compile(text, PatternOptions { caseless: false, jit: true, steps_max: MATCH_LIMIT })
}

fn anchors(pem: &str) -> Result<Vec<TrustAnchor<'static>>, IdentityError> {
    let unreadable = |error: webpki::Error| IdentityError::Certificate(error.to_string());
    let anchor =
        |certificate| Ok(webpki::anchor_from_trusted_cert(certificate).map_err(unreadable)?.to_owned());
    certificates(pem)?.iter().map(anchor).collect()
}

/// OpenSSL's words for a failed verification, which operators search for.
fn words(error: &webpki::Error, own: &CertificateDer<'_>) -> &'static str {
    use webpki::Error as E;
    match error {
        E::CertExpired { .. } => "certificate has expired",
        E::CertNotValidYet { .. } => "certificate is not yet valid",
        E::MaximumPathDepthExceeded => "certificate chain too long",
        E::RequiredEkuNotFoundContext(_) => "unsuitable certificate purpose",
        E::InvalidSignatureForPublicKey => "certificate signature failure",
        E::CaUsedAsEndEntity | E::UnknownIssuer if crate::der::is_self_issued(own) => {
            "self-signed certificate"
        }
        E::UnknownIssuer => "unable to get local issuer certificate",
        E::UnsupportedCertVersion => VERSION_1,
        _ => "certificate rejected",
    }
}

/// The verifier in a handshake.
#[derive(Debug)]
pub(crate) struct Verifier(pub(crate) Arc<ClientAuth>);

impl ClientCertVerifier for Verifier {
    fn client_auth_mandatory(&self) -> bool {
        !self.0.is_lenient()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.0.subjects
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        // Where some paths need no certificate, a bad one is remembered and held against the other paths.
        if self.0.is_lenient() {
            return Ok(ClientCertVerified::assertion());
        }
        self.0.verify(own, intermediates, now).map_err(|error| refusal(&error))?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.algorithms.supported_schemes()
    }
}

/// The alert that the client gets.
fn refusal(error: &webpki::Error) -> Error {
    use webpki::Error as E;
    match error {
        E::CertExpired { .. } => CertificateError::Expired,
        E::CertNotValidYet { .. } => CertificateError::NotValidYet,
        E::UnknownIssuer => CertificateError::UnknownIssuer,
        E::InvalidSignatureForPublicKey => CertificateError::BadSignature,
        E::BadDer | E::BadDerTime => CertificateError::BadEncoding,
        E::UnsupportedCertVersion => CertificateError::Other(OtherError(Arc::new(Unsupported))),
        _ => CertificateError::ApplicationVerificationFailure,
    }
    .into()
}

/// A certificate of X.509 version 1: what `openssl x509 -req` makes without extensions.
struct Unsupported;

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(VERSION_1)
    }
}

/// The same words: rustls prints errors of this kind by it.
impl fmt::Debug for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(VERSION_1)
    }
}

impl std::error::Error for Unsupported {}

/// What to say of a certificate of X.509 version 1.
const VERSION_1: &str = "X.509 v1 certificates are not supported: issue it as v3, with extensions";
