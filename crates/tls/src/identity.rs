//! A certificate chain with its private key, in PEM as resources hold them.

use crate::provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{SignatureAlgorithm, SignatureScheme};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A certificate chain with its private key.
#[derive(Debug)]
pub struct Identity {
    /// Names it: no other one has this number in the life of the process.
    pub uid: u64,
    certified: Arc<CertifiedKey>,
}

/// Why a chain or key can't be used; worded as in APISIX, whose tools look for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// No certificate can be read.
    #[error("failed to parse cert: {0}")]
    Certificate(String),
    /// No key can be read, or it is of a kind that is not used.
    #[error("failed to parse key: {0}")]
    Key(String),
    /// What stands for the key is no PEM: it was encrypted by somebody else.
    #[error("failed to decrypt previous encrypted key")]
    Sealed,
    /// The key belongs to another certificate.
    #[error("failed to match key: the private key does not belong to the certificate")]
    Mismatch,
}

impl Identity {
    /// Reads a chain, own certificate first, and its key.
    ///
    /// # Errors
    /// What can't be read, or that the two don't belong together.
    pub fn from_pem(chain: &str, key: &str) -> Result<Self, IdentityError> {
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        let chain = certificates(chain)?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| unreadable(key))?;
        let key = provider::signing_key(key).map_err(|error| {
            IdentityError::Key(format!(
                "not a key that can be used (RSA from 2048 bits, ECDSA, Ed25519): {error}"
            ))
        })?;
        let certified = CertifiedKey::new(chain, key);
        if !matches(&certified)? {
            return Err(IdentityError::Mismatch);
        }
        Ok(Self { uid: SERIAL.fetch_add(1, Ordering::Relaxed), certified: Arc::new(certified) })
    }

    pub(crate) fn certified(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }

    /// Whether signing is cheap: with RSA it costs the server ten times as much.
    pub(crate) fn is_elliptic(&self) -> bool {
        self.certified.key.algorithm() != SignatureAlgorithm::RSA
    }

    pub(crate) fn suits(&self, offered: &[SignatureScheme]) -> bool {
        self.certified.key.choose_scheme(offered).is_some()
    }
}

/// The same chain, whatever the key in memory: one certificate has one key.
impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.certified.cert == other.certified.cert
    }
}

/// Says of a text why it is no key. As in APISIX, what doesn't look like PEM is taken for an encrypted key.
fn unreadable(key: &str) -> IdentityError {
    if key.trim_start().starts_with("---") || key.contains("-----BEGIN ") {
        IdentityError::Key("PEM_read_bio_PrivateKey() failed".to_owned())
    } else {
        IdentityError::Sealed
    }
}

/// Reads a chain alone, as a list of authorities is one.
///
/// # Errors
/// [`IdentityError::Certificate`].
pub fn check_chain(chain: &str) -> Result<(), IdentityError> {
    certificates(chain).map(|_| ())
}

/// The certificates of a PEM text, at least one; each is one that can be read.
pub(crate) fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let broken = || IdentityError::Certificate("PEM_read_bio_X509_AUX() failed".to_owned());
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let chain = chain.map_err(|_| broken())?;
    let readable = |certificate: &CertificateDer<'_>| webpki::anchor_from_trusted_cert(certificate).is_ok();
    if chain.is_empty() || !chain.iter().all(readable) {
        return Err(broken());
    }
    Ok(chain)
}

/// Returns whether one of the certificates in a PEM text is of X.509 version 1. Text that holds no certificates has none.
#[must_use]
pub fn has_version_1(pem: &str) -> bool {
    let chain = certificates(pem).unwrap_or_default();
    chain.iter().any(|certificate| crate::der::is_version_1(certificate) == Some(true))
}

/// Whether the key is the first certificate's. Read as an anchor, because certificates of X.509 version 1, which rustls
/// serves without looking inside, are read no other way.
fn matches(certified: &CertifiedKey) -> Result<bool, IdentityError> {
    let Some(public) = certified.key.public_key() else { return Ok(true) };
    let own = certified.cert.first().ok_or(IdentityError::Mismatch)?;
    let anchor = webpki::anchor_from_trusted_cert(own)
        .map_err(|error| IdentityError::Certificate(error.to_string()))?;
    // The anchor's form lacks the outer header, of at most four bytes.
    let (public, inner) = (public.as_ref(), anchor.subject_public_key_info.as_ref());
    Ok(public.ends_with(inner) && public.len() - inner.len() <= 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertifiedKey as Generated, generate_simple_self_signed};

    #[test]
    fn what_is_broken_is_named() {
        let Generated { cert, signing_key } = generate_simple_self_signed(["a.com".to_owned()]).unwrap();
        let other = generate_simple_self_signed(["a.com".to_owned()]).unwrap();
        let (cert, key) = (cert.pem(), signing_key.serialize_pem());
        let noise = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        for (cert, key, expected) in [
            (cert.as_str(), key.as_str(), None),
            ("no PEM", &key, Some("failed to parse cert: PEM_read_bio_X509_AUX() failed")),
            (noise, &key, Some("failed to parse cert: PEM_read_bio_X509_AUX() failed")),
            (&cert, "-----BEGIN no PEM", Some("failed to parse key: PEM_read_bio_PrivateKey() failed")),
            (&cert, "sealed", Some("failed to decrypt previous encrypted key")),
            (&cert, &other.signing_key.serialize_pem(), Some("failed to match key")),
        ] {
            let error = Identity::from_pem(cert, key).err().map(|error| error.to_string());
            assert_eq!(error.is_some(), expected.is_some(), "{error:?}");
            assert!(error.unwrap_or_default().starts_with(expected.unwrap_or_default()));
        }
    }
}
