//! Google's access tokens: asked for with a signed claim (RFC 7523), kept until shortly before they end.

use super::excerpt;
use crate::http::{Call, Client};
use crate::limits::TOKENS_MAX;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use model::resource::GcpAccount;
use ring::digest;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde::Deserialize;
use serde_json::json;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How long a claim is good for; Google's maximum.
const CLAIM_SECONDS: u64 = 3600;

/// A token is not used in its last minute: it could end on its way.
const SPARE: Duration = Duration::from_secs(60);

/// The tokens at hand, by the hash of everything that they were asked for with.
#[derive(Default)]
pub(super) struct Tokens(Mutex<HashMap<Vec<u8>, Token>>);

/// Access tokens of service accounts, for plugins that call Google's APIs.
#[derive(Default)]
pub struct GoogleTokens {
    client: Client,
    tokens: Tokens,
}

impl std::fmt::Debug for GoogleTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GoogleTokens").finish_non_exhaustive()
    }
}

impl GoogleTokens {
    /// The `Authorization` field of an account: a token that is asked for where none is at hand, which blocks. With
    /// `verify` the certificate of the account's `token_uri` has to be valid.
    ///
    /// # Errors
    /// Why there is none, without secrets.
    pub fn authorization(&self, account: &GcpAccount, verify: bool) -> Result<String, String> {
        self.tokens.token(&self.client, account, !verify)
    }
}

struct Token {
    header: String,
    until: Instant,
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    #[serde(default = "bearer")]
    token_type: String,
    expires_in: u64,
}

fn bearer() -> String {
    "Bearer".to_owned()
}

impl Tokens {
    /// The `Authorization` header of a service account.
    ///
    /// # Errors
    /// Why there is none, without secrets.
    pub(super) fn token(
        &self,
        client: &Client,
        account: &GcpAccount,
        trust_anyone: bool,
    ) -> Result<String, String> {
        let id = identity(account);
        if let Some(token) = self.lock().get(&id).filter(|token| token.until > Instant::now()) {
            return Ok(token.header.clone());
        }
        // Not under the lock: threads for other accounts need not wait, and a second token does no harm.
        let granted = ask(client, account, trust_anyone)?;
        let header = format!("{} {}", granted.token_type, granted.access_token);
        let life = Duration::from_secs(granted.expires_in).saturating_sub(SPARE);
        let mut tokens = self.lock();
        tokens.retain(|_, token| token.until > Instant::now());
        if tokens.len() < TOKENS_MAX {
            tokens.insert(id, Token { header: header.clone(), until: Instant::now() + life });
        }
        Ok(header)
    }

    /// Forgets an account's token.
    pub(super) fn forget(&self, account: &GcpAccount) {
        self.lock().remove(&identity(account));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Vec<u8>, Token>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn identity(account: &GcpAccount) -> Vec<u8> {
    let GcpAccount { client_email, private_key, token_uri, .. } = account;
    let scope = account.scope.join(" ");
    let all = [client_email.as_str(), private_key.as_str(), token_uri.as_str(), scope.as_str()].join("\0");
    digest::digest(&digest::SHA256, all.as_bytes()).as_ref().to_vec()
}

fn ask(client: &Client, account: &GcpAccount, trust_anyone: bool) -> Result<Granted, String> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let assertion = claim(account, now)?;
    let body =
        format!("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion={assertion}");
    let headers = [("Content-Type", "application/x-www-form-urlencoded")];
    let call = Call { url: &account.token_uri, headers: &headers, body: Some(&body), trust_anyone };
    let answer = client.send(&call)?;
    if answer.status != 200 {
        let (status, said) = (answer.status, excerpt(&answer.body));
        return Err(format!("failed to get google oauth token: {status} {said}"));
    }
    serde_json::from_str(&answer.body).map_err(|_| "the answer to a request for a token has none".to_owned())
}

/// The signed claim: `{header}.{claims}.{signature}`.
fn claim(account: &GcpAccount, now: u64) -> Result<String, String> {
    let key = key(&account.private_key).ok_or("auth_config.private_key is no RSA key in PEM")?;
    let header = json!({ "alg": "RS256", "typ": "JWT" }).to_string();
    let claims = json!({
        "iss": account.client_email,
        "aud": account.token_uri,
        "scope": account.scope.join(" "),
        "iat": now,
        "exp": now + CLAIM_SECONDS,
    })
    .to_string();
    let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
        .map_err(|_| "the claim can't be signed with auth_config.private_key")?;
    Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// An RSA key in PEM, PKCS#8 as Google gives it or PKCS#1. Line ends may be written as `\n`, as in environment
/// variables.
fn key(pem: &str) -> Option<RsaKeyPair> {
    let pem = pem.replace("\\n", "\n");
    let (_, rest) = pem.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    let (body, _) = rest.split_once("-----END ")?;
    let body: String = body.split_whitespace().collect();
    let der = STANDARD.decode(body).ok()?;
    match label {
        "RSA PRIVATE KEY" => RsaKeyPair::from_der(&der).ok(),
        _ => RsaKeyPair::from_pkcs8(&der).ok(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
    use serde_json::Value;

    /// Made for these tests; opens nothing.
    pub(in crate::source) const ACCOUNT_KEY: &str = include_str!("gcp_test_key.pem");

    #[test]
    fn claims_are_signed_by_the_account() {
        let account: GcpAccount = serde_json::from_value(json!({
            "client_email": "a@b", "private_key": ACCOUNT_KEY.replace('\n', "\\n"), "project_id": "p",
            "scope": ["one", "two"],
        }))
        .unwrap();
        let claim = claim(&account, 1_000).unwrap();
        let (text, signature) = claim.rsplit_once('.').unwrap();
        let public = key(ACCOUNT_KEY).unwrap().public().as_ref().to_vec();
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public);
        public.verify(text.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
        let claims = URL_SAFE_NO_PAD.decode(text.split_once('.').unwrap().1).unwrap();
        let claims: Value = serde_json::from_slice(&claims).unwrap();
        let expected = json!({
            "iss": "a@b", "aud": "https://oauth2.googleapis.com/token", "scope": "one two", "iat": 1000, "exp": 4600,
        });
        assert_eq!(claims, expected);
    }

    #[test]
    fn what_is_no_key_is_none() {
        for text in ["", "private_key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"] {
            assert!(key(text).is_none(), "{text}");
        }
    }
}
