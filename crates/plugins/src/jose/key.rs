//! The keys that signatures of tokens are checked with (RFC 7518).

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use model::ConfigError;
use ring::{hmac, signature};
use serde::Deserialize;
use serde_json::{Map, Value};
use tls::der::tagged;

/// The algorithms of `alg` that a consumer may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum Algorithm {
    HS256,
    HS384,
    HS512,
    RS256,
    RS384,
    RS512,
    ES256,
    ES384,
    ES512,
    PS256,
    PS384,
    PS512,
    #[serde(rename = "EdDSA")]
    EdDsa,
}

/// A key, ready to check signatures.
pub(crate) enum Key {
    Secret(hmac::Key),
    Public(signature::UnparsedPublicKey<Vec<u8>>),
    /// An RSA key by its numbers, as a JWK has them.
    Rsa(&'static signature::RsaParameters, signature::RsaPublicKeyComponents<Vec<u8>>),
}

impl Algorithm {
    const ALL: [Self; 13] = [
        Self::HS256,
        Self::HS384,
        Self::HS512,
        Self::RS256,
        Self::RS384,
        Self::RS512,
        Self::ES256,
        Self::ES384,
        Self::ES512,
        Self::PS256,
        Self::PS384,
        Self::PS512,
        Self::EdDsa,
    ];

    /// The algorithm called `name`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// The name in a token's header.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::HS256 => "HS256",
            Self::HS384 => "HS384",
            Self::HS512 => "HS512",
            Self::RS256 => "RS256",
            Self::RS384 => "RS384",
            Self::RS512 => "RS512",
            Self::ES256 => "ES256",
            Self::ES384 => "ES384",
            Self::ES512 => "ES512",
            Self::PS256 => "PS256",
            Self::PS384 => "PS384",
            Self::PS512 => "PS512",
            Self::EdDsa => "EdDSA",
        }
    }

    /// The digest of an algorithm with a shared secret; `None` for those with key pairs.
    pub(crate) fn digest(self) -> Option<hmac::Algorithm> {
        match self {
            Self::HS256 => Some(hmac::HMAC_SHA256),
            Self::HS384 => Some(hmac::HMAC_SHA384),
            Self::HS512 => Some(hmac::HMAC_SHA512),
            _ => None,
        }
    }

    /// The parameters of an algorithm with RSA keys.
    fn rsa(self) -> Option<&'static signature::RsaParameters> {
        Some(match self {
            Self::RS256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Self::RS384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Self::RS512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            Self::PS256 => &signature::RSA_PSS_2048_8192_SHA256,
            Self::PS384 => &signature::RSA_PSS_2048_8192_SHA384,
            Self::PS512 => &signature::RSA_PSS_2048_8192_SHA512,
            _ => return None,
        })
    }

    fn verification(self) -> Option<&'static dyn signature::VerificationAlgorithm> {
        if let Some(rsa) = self.rsa() {
            return Some(rsa);
        }
        Some(match self {
            Self::ES256 => &signature::ECDSA_P256_SHA256_FIXED,
            Self::ES384 => &signature::ECDSA_P384_SHA384_FIXED,
            Self::EdDsa => &signature::ED25519,
            _ => return None,
        })
    }
}

impl Key {
    /// The key of a public key in PEM: `PUBLIC KEY` (RFC 7468 section 13) or `RSA PUBLIC KEY`.
    ///
    /// # Errors
    /// When it is none, or the algorithm isn't there.
    pub(crate) fn public(algorithm: Algorithm, pem: &str) -> Result<Self, ConfigError> {
        let Some(verification) = algorithm.verification() else {
            let message = format!("{} is not there in this build", algorithm.name());
            return Err(ConfigError::new("/algorithm", message));
        };
        let key = key_bits(pem).ok_or_else(|| ConfigError::new("/public_key", "missing valid public key"))?;
        Ok(Self::Public(signature::UnparsedPublicKey::new(verification, key)))
    }

    /// The key of a JWK (RFC 7517) for `algorithm`; `None` where the JWK is of another kind, or has no public key.
    /// Symmetric keys never count: who publishes one has published what it signs.
    pub(crate) fn of_jwk(jwk: &Map<String, Value>, algorithm: Algorithm) -> Option<Self> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        let number = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?.trim_end_matches('=')).ok();
        if let Some(parameters) = algorithm.rsa() {
            let (n, e) = (text("kty") == Some("RSA")).then(|| number("n").zip(number("e")))??;
            return Some(Self::Rsa(parameters, signature::RsaPublicKeyComponents { n, e }));
        }
        let key = match (algorithm, text("kty")?, text("crv")?) {
            (Algorithm::ES256, "EC", "P-256") => point(&number("x")?, &number("y")?, 32),
            (Algorithm::ES384, "EC", "P-384") => point(&number("x")?, &number("y")?, 48),
            (Algorithm::EdDsa, "OKP", "Ed25519") => number("x")?,
            _ => return None,
        };
        Some(Self::Public(signature::UnparsedPublicKey::new(algorithm.verification()?, key)))
    }

    /// Whether `signature` is that of `message`.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Secret(key) => hmac::verify(key, message, signature).is_ok(),
            Self::Public(key) => key.verify(message, signature).is_ok(),
            Self::Rsa(parameters, key) => key.verify(parameters, message, signature).is_ok(),
        }
    }
}

/// An uncompressed point (SEC 1 section 2.3.3) with coordinates of `bytes` bytes.
fn point(x: &[u8], y: &[u8], bytes: usize) -> Vec<u8> {
    let mut point = vec![4];
    for coordinate in [x, y] {
        point.extend(std::iter::repeat_n(0, bytes.saturating_sub(coordinate.len())));
        point.extend_from_slice(coordinate);
    }
    point
}

/// The key itself: what stands in the bit string of a `SubjectPublicKeyInfo`, or the whole of an `RSAPublicKey`.
fn key_bits(pem: &str) -> Option<Vec<u8>> {
    let (_, rest) = pem.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    let (body, _) = rest.split_once("-----END ")?;
    let text: String = body.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let der = STANDARD.decode(text).ok()?;
    if label == "RSA PUBLIC KEY" {
        return Some(der);
    }
    if label == "CERTIFICATE" {
        return certified(&der);
    }
    let (info, _) = tagged(&der, 0x30)?;
    let (_algorithm, rest) = tagged(info, 0x30)?;
    let (bits, _) = tagged(rest, 0x03)?;
    // The first byte says how many bits of the last one don't count: none in a key.
    Some(bits.strip_prefix(&[0])?.to_vec())
}

/// The key in a certificate (RFC 5280 section 4.1): the seventh member of its body, or the sixth where that has no version.
fn certified(der: &[u8]) -> Option<Vec<u8>> {
    let (certificate, _) = tagged(der, 0x30)?;
    let (mut rest, _) = tagged(certificate, 0x30)?;
    if rest.first() == Some(&0xa0) {
        rest = tagged(rest, 0xa0)?.1;
    }
    // Serial number, signature algorithm, issuer, validity, subject.
    for tag in [0x02, 0x30, 0x30, 0x30, 0x30] {
        rest = tagged(rest, tag)?.1;
    }
    let (info, _) = tagged(rest, 0x30)?;
    let (_algorithm, rest) = tagged(info, 0x30)?;
    Some(tagged(rest, 0x03)?.0.strip_prefix(&[0])?.to_vec())
}
