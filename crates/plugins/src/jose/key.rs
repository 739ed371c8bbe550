//! The keys that signatures of tokens are checked with (RFC 7518).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::ConfigError;
use ring::{hmac, signature};
use serde::Deserialize;

/// The algorithms of `alg` that a consumer may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum Algorithm {
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
pub(super) enum Key {
    Secret(hmac::Key),
    Public(signature::UnparsedPublicKey<Vec<u8>>),
}

impl Algorithm {
    /// The name in a token's header.
    pub(super) fn name(self) -> &'static str {
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
    pub(super) fn digest(self) -> Option<hmac::Algorithm> {
        match self {
            Self::HS256 => Some(hmac::HMAC_SHA256),
            Self::HS384 => Some(hmac::HMAC_SHA384),
            Self::HS512 => Some(hmac::HMAC_SHA512),
            _ => None,
        }
    }

    fn verification(self) -> Option<&'static dyn signature::VerificationAlgorithm> {
        Some(match self {
            Self::RS256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Self::RS384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Self::RS512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            Self::PS256 => &signature::RSA_PSS_2048_8192_SHA256,
            Self::PS384 => &signature::RSA_PSS_2048_8192_SHA384,
            Self::PS512 => &signature::RSA_PSS_2048_8192_SHA512,
            Self::ES256 => &signature::ECDSA_P256_SHA256_FIXED,
            Self::ES384 => &signature::ECDSA_P384_SHA384_FIXED,
            Self::EdDsa => &signature::ED25519,
            Self::HS256 | Self::HS384 | Self::HS512 | Self::ES512 => return None,
        })
    }
}

impl Key {
    /// The key of a public key in PEM: `PUBLIC KEY` (RFC 7468 section 13) or `RSA PUBLIC KEY`.
    ///
    /// # Errors
    /// When it is none, or the algorithm isn't there.
    pub(super) fn public(algorithm: Algorithm, pem: &str) -> Result<Self, ConfigError> {
        let Some(verification) = algorithm.verification() else {
            let message = format!("{} is not there in this build", algorithm.name());
            return Err(ConfigError::new("/algorithm", message));
        };
        let key = key_bits(pem).ok_or_else(|| ConfigError::new("/public_key", "missing valid public key"))?;
        Ok(Self::Public(signature::UnparsedPublicKey::new(verification, key)))
    }

    /// Whether `signature` is that of `message`.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Secret(key) => hmac::verify(key, message, signature).is_ok(),
            Self::Public(key) => key.verify(message, signature).is_ok(),
        }
    }
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
    let (info, _) = element(&der, 0x30)?;
    let (_algorithm, rest) = element(info, 0x30)?;
    let (bits, _) = element(rest, 0x03)?;
    // The first byte says how many bits of the last one don't count: none in a key.
    Some(bits.strip_prefix(&[0])?.to_vec())
}

/// The content of the DER element with this tag at the start of `der`, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let rest = der.strip_prefix(&[tag])?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = if *first < 0x80 {
        (usize::from(*first), rest)
    } else {
        // Keys are shorter than 64 KiB: at most two bytes of length.
        let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f)).filter(|(b, _)| b.len() <= 2)?;
        (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
    };
    rest.split_at_checked(length)
}
