//! Sets of public keys, as an identity provider publishes them (RFC 7517 section 5).

use super::{Algorithm, Key, Token};
use serde_json::{Map, Value};

/// Keys of a set that are looked at. Providers publish two to four; the bound keeps one that lies from making each token
/// cost thousands of signatures.
const KEYS_MAX: usize = 64;

/// A set of public keys.
#[derive(Debug, Default)]
pub(crate) struct Jwks(Vec<Map<String, Value>>);

impl Jwks {
    /// Reads `{"keys": [...]}`; `None` where it isn't that.
    pub(crate) fn parse(json: &[u8]) -> Option<Self> {
        let Value::Object(mut set) = serde_json::from_slice(json).ok()? else { return None };
        let Some(Value::Array(keys)) = set.remove("keys") else { return None };
        let keys = keys.into_iter().filter_map(|key| match key {
            Value::Object(key) => Some(key),
            _ => None,
        });
        Some(Self(keys.take(KEYS_MAX).collect()))
    }

    /// Whether the set has a key that `token` may have been signed with.
    pub(crate) fn knows(&self, token: &Token<'_>) -> bool {
        self.candidates(token).next().is_some()
    }

    /// Whether `token` was signed with `algorithm` and one of the keys that it may have been signed with: the key that it
    /// names by `kid`, or any of the set where it names none.
    pub(crate) fn verifies(&self, token: &Token<'_>, algorithm: Algorithm) -> bool {
        self.candidates(token)
            .any(|jwk| Key::of_jwk(jwk, algorithm).is_some_and(|key| token.is_signed_with(algorithm, &key)))
    }

    fn candidates<'s>(&'s self, token: &'s Token<'_>) -> impl Iterator<Item = &'s Map<String, Value>> {
        let text = |jwk: &'s Map<String, Value>, name: &str| jwk.get(name).and_then(Value::as_str);
        self.0.iter().filter(move |jwk| {
            token.kid.as_deref().is_none_or(|kid| text(jwk, "kid") == Some(kid))
                && text(jwk, "use").is_none_or(|usage| usage == "sig")
                && text(jwk, "alg").is_none_or(|name| token.algorithm().map(Algorithm::name) == Some(name))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
    use serde_json::json;

    #[test]
    fn a_token_is_good_with_the_key_that_it_names_alone() {
        let random = SystemRandom::new();
        let pair = || {
            let document =
                EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random)
                .expect("a key")
        };
        let (one, two) = (pair(), pair());
        let jwk = |pair: &EcdsaKeyPair, kid: &str, more: Value| {
            let point = pair.public_key().as_ref().to_vec();
            let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
            let mut jwk = json!({
                "kty": "EC", "crv": "P-256", "kid": kid, "x": text(&point[1..33]), "y": text(&point[33..])
            });
            jwk.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
            jwk
        };
        let sign = |pair: &EcdsaKeyPair, header: Value| {
            let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
            let signed = format!("{}.{}", part(&header), part(&json!({"sub": "a"})));
            let signature = pair.sign(&random, signed.as_bytes()).expect("signed");
            format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
        };
        let set = |keys: Value| Jwks::parse(json!({ "keys": keys }).to_string().as_bytes()).expect("a set");
        let both =
            set(json!([jwk(&one, "1", json!({})), jwk(&two, "2", json!({"use": "sig", "alg": "ES256"}))]));
        let encrypting = set(json!([jwk(&one, "1", json!({"use": "enc"}))]));
        let other = set(json!([jwk(&one, "1", json!({"alg": "ES384"}))]));
        let symmetric = set(json!([{"kty": "oct", "kid": "1", "k": "c2VjcmV0"}]));
        for (keys, header, known, good) in [
            (&both, json!({"alg": "ES256", "kid": "1"}), true, true),
            (&both, json!({"alg": "ES256"}), true, true),
            (&both, json!({"alg": "ES256", "kid": "2"}), true, false),
            (&both, json!({"alg": "ES256", "kid": "3"}), false, false),
            (&both, json!({"alg": "none", "kid": "1"}), true, false),
            (&both, json!({"alg": "HS256", "kid": "1"}), true, false),
            (&encrypting, json!({"alg": "ES256", "kid": "1"}), false, false),
            (&other, json!({"alg": "ES256", "kid": "1"}), false, false),
            (&symmetric, json!({"alg": "HS256", "kid": "1"}), true, false),
        ] {
            let text = sign(&one, header.clone());
            let token = Token::parse(text.as_bytes()).expect("a token");
            assert_eq!(keys.knows(&token), known, "{header}");
            let verified = token.algorithm().is_some_and(|algorithm| keys.verifies(&token, algorithm));
            assert_eq!(verified, good, "{header}");
        }
        for nonsense in ["", "[]", "{}", r#"{"keys": {}}"#, "<html>"] {
            assert!(Jwks::parse(nonsense.as_bytes()).is_none(), "{nonsense}");
        }
    }
}
