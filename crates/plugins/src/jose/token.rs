//! Tokens (RFC 7519), taken apart and looked at.

use super::key::{Algorithm, Key};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// A token whose signature is not checked yet.
pub(crate) struct Token<'t> {
    algorithm: Option<String>,
    /// Which of several keys signed it (RFC 7515 section 4.1.4).
    pub(crate) kid: Option<String>,
    /// What it is (section 4.1.9): `JWT`, `at+jwt`, `logout+jwt`.
    pub(crate) kind: Option<String>,
    pub(crate) payload: Map<String, Value>,
    signed: &'t [u8],
    /// `None` where it is no base64url: nobody's signature.
    signature: Option<Vec<u8>>,
}

/// A claim that says when a token is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TimeClaim {
    Exp,
    Nbf,
}

impl<'t> Token<'t> {
    /// Takes `text` apart; `None` where it is no signed token, or one with extensions.
    pub(crate) fn parse(text: &'t [u8]) -> Option<Self> {
        let last = text.iter().rposition(|byte| *byte == b'.')?;
        let (signed, signature) = (&text[..last], &text[last + 1..]);
        let (header, payload) = signed.split_at(signed.iter().position(|byte| *byte == b'.')?);
        let object = |part: &[u8]| match serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?) {
            Ok(Value::Object(object)) => Some(object),
            _ => None,
        };
        let header = object(header)?;
        // It names extensions that must be understood (RFC 7515 section 4.1.11), and none is.
        if header.contains_key("crit") {
            return None;
        }
        let member = |name: &str| header.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            algorithm: member("alg"),
            kid: member("kid"),
            kind: member("typ"),
            payload: object(&payload[1..])?,
            signed,
            signature: URL_SAFE_NO_PAD.decode(signature).ok(),
        })
    }

    /// The algorithm that it names, if this build has it. `none` is no algorithm.
    pub(crate) fn algorithm(&self) -> Option<Algorithm> {
        Algorithm::named(self.algorithm.as_deref()?)
    }

    /// Whether it says that it isn't signed, and isn't.
    pub(crate) fn is_unsigned(&self) -> bool {
        self.algorithm.as_deref() == Some("none") && self.signature.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether it was signed with `key`. The algorithm is the consumer's: a token that names another is not looked at,
    /// or whoever knows a public key could use it as a secret.
    pub(crate) fn is_signed_with(&self, algorithm: Algorithm, key: &Key) -> bool {
        let verifies = |signature: &Vec<u8>| key.verifies(self.signed, signature);
        self.algorithm.as_deref() == Some(algorithm.name()) && self.signature.as_ref().is_some_and(verifies)
    }

    /// Whether it is valid now, `grace_s` seconds more or less. Claims named by `required` must be there; without any,
    /// those that are there count.
    pub(crate) fn is_timely(&self, required: &[TimeClaim], now_s: u64, grace_s: u64) -> bool {
        let claims = if required.is_empty() { &[TimeClaim::Nbf, TimeClaim::Exp] } else { required };
        let (now, grace) = (now_s as f64, grace_s as f64);
        claims.iter().all(|claim| {
            let name = match claim {
                TimeClaim::Exp => "exp",
                TimeClaim::Nbf => "nbf",
            };
            match (self.payload.get(name), claim) {
                (None, _) => required.is_empty(),
                (Some(time), TimeClaim::Exp) => time.as_f64().is_some_and(|exp| exp > now - grace),
                (Some(time), TimeClaim::Nbf) => time.as_f64().is_some_and(|nbf| nbf < now + grace),
            }
        })
    }
}
