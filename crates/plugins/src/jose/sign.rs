//! Signing tokens, as a client does that authenticates by them (RFC 7523).

use super::Algorithm;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RsaKeyPair,
};
use serde_json::Value;

/// A key that signs with one algorithm.
pub(crate) struct Signer {
    algorithm: Algorithm,
    key: SigningKey,
}

enum SigningKey {
    Secret(Box<hmac::Key>),
    Rsa(Box<RsaKeyPair>),
    Ec(Box<EcdsaKeyPair>),
}

impl Signer {
    /// Signs with a shared secret.
    pub(crate) fn secret(algorithm: Algorithm, secret: &str) -> Option<Self> {
        let key = hmac::Key::new(algorithm.digest()?, secret.as_bytes());
        Some(Self { algorithm, key: SigningKey::Secret(Box::new(key)) })
    }

    /// Signs with a private key in PEM: `PRIVATE KEY`, or `RSA PRIVATE KEY`. `None` where it is none for this algorithm.
    pub(crate) fn private(algorithm: Algorithm, pem: &str) -> Option<Self> {
        let (_, rest) = pem.split_once("-----BEGIN ")?;
        let (label, rest) = rest.split_once("-----")?;
        let (body, _) = rest.split_once("-----END ")?;
        let text: String = body.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let der = STANDARD.decode(text).ok()?;
        let key = match (algorithm, label) {
            (Algorithm::RS256 | Algorithm::RS512, "RSA PRIVATE KEY") => {
                SigningKey::Rsa(Box::new(RsaKeyPair::from_der(&der).ok()?))
            }
            (Algorithm::RS256 | Algorithm::RS512, "PRIVATE KEY") => {
                SigningKey::Rsa(Box::new(RsaKeyPair::from_pkcs8(&der).ok()?))
            }
            (Algorithm::ES256, "PRIVATE KEY") => {
                let pair =
                    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &SystemRandom::new());
                SigningKey::Ec(Box::new(pair.ok()?))
            }
            _ => return None,
        };
        Some(Self { algorithm, key })
    }

    /// The token with `claims`; `None` where the system has no random bytes.
    pub(crate) fn token(&self, kid: Option<&str>, claims: &Value) -> Option<String> {
        let mut header = serde_json::json!({"typ": "JWT", "alg": self.algorithm.name()});
        if let Some(kid) = kid {
            header["kid"] = kid.into();
        }
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(claims));
        let signature = match &self.key {
            SigningKey::Secret(key) => hmac::sign(key, signed.as_bytes()).as_ref().to_vec(),
            SigningKey::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let padding =
                    if self.algorithm == Algorithm::RS512 { &RSA_PKCS1_SHA512 } else { &RSA_PKCS1_SHA256 };
                pair.sign(padding, &SystemRandom::new(), signed.as_bytes(), &mut signature).ok()?;
                signature
            }
            SigningKey::Ec(pair) => {
                pair.sign(&SystemRandom::new(), signed.as_bytes()).ok()?.as_ref().to_vec()
            }
        };
        Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}
