//! What must hold of the claims in tokens.

use super::config::Config;
use super::provider::{Document, Provider};
use crate::jose::{Algorithm, Key, Token};
use plugin::Services;
use ring::hmac;
use serde_json::{Map, Value};
use std::rc::Rc;

pub(super) type Claims = Map<String, Value>;

/// The member of a logout token's `events` (OpenID Connect Back-Channel Logout 1.0, 2.4).
const LOGOUT_EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// Whether `claims` hold `now_s`, by clocks that differ by `slack_s` at most. A token is over when it says so.
pub(super) fn timely(claims: &Claims, now_s: u64, slack_s: u64) -> Result<(), &'static str> {
    let now = now_s as f64;
    let slack = slack_s as f64;
    let time = |name: &str| match claims.get(name) {
        None => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or("a time claim is no number"),
    };
    if time("exp")?.is_some_and(|exp| exp <= now) {
        return Err("token expired");
    }
    if time("nbf")?.is_some_and(|nbf| nbf > now + slack) {
        return Err("token is not valid yet");
    }
    if time("iat")?.is_some_and(|iat| iat > now + slack) {
        return Err("token was issued in the future");
    }
    Ok(())
}

/// Whether an audience, one or several, has `client_id`.
pub(super) fn is_for(audience: Option<&Value>, client_id: &str) -> bool {
    match audience {
        Some(Value::String(audience)) => audience == client_id,
        Some(Value::Array(all)) => all.iter().any(|audience| audience.as_str() == Some(client_id)),
        _ => false,
    }
}

/// The scopes in a claim: text with spaces, or a list.
pub(super) fn scopes(claims: &Claims) -> Option<Vec<&str>> {
    match claims.get("scope").or_else(|| claims.get("scp"))? {
        Value::String(text) => Some(text.split_ascii_whitespace().collect()),
        Value::Array(all) => Some(all.iter().filter_map(Value::as_str).collect()),
        _ => None,
    }
}

/// The claims of an ID token that the token endpoint gave (OpenID Connect Core 3.1.3.7).
pub(super) async fn id_token(
    config: &Config,
    provider: &Provider,
    services: &Rc<dyn Services>,
    (raw, nonce): (&str, Option<&str>),
    now_s: u64,
) -> Result<Claims, String> {
    let document = provider.document(services, now_s).await?;
    let token = Token::parse(raw.as_bytes()).ok_or("the id_token is no token")?;
    let is_unsigned = token.is_unsigned() && config.accept_none_alg;
    if !is_unsigned {
        signed(config, provider, &document, services, &token, now_s).await?;
    }
    let claims = token.payload;
    issued(config, &document, &claims)?;
    timely(&claims, now_s, config.iat_slack)?;
    let present = |name: &str| claims.get(name).is_some_and(|value| !value.is_null());
    if !present("exp") || !present("iat") {
        return Err("the id_token has no exp or no iat".to_owned());
    }
    if claims.get("sub").and_then(Value::as_str).is_none_or(str::is_empty) {
        return Err("the id_token has no sub".to_owned());
    }
    if nonce.is_some() && claims.get("nonce").and_then(Value::as_str) != nonce {
        return Err("the id_token's nonce is not the one of the request".to_owned());
    }
    Ok(claims)
}

/// The claims of a logout token (OpenID Connect Back-Channel Logout 1.0, 2.6).
pub(super) async fn logout_token(
    config: &Config,
    provider: &Provider,
    services: &Rc<dyn Services>,
    raw: &str,
    now_s: u64,
) -> Result<Claims, String> {
    let document = provider.document(services, now_s).await?;
    let token = Token::parse(raw.as_bytes()).ok_or("the logout_token is no token")?;
    if token.kind.as_deref().is_some_and(|kind| !matches!(kind, "JWT" | "logout+jwt")) {
        return Err("the logout_token is of another kind".to_owned());
    }
    signed(config, provider, &document, services, &token, now_s).await?;
    let claims = token.payload;
    issued(config, &document, &claims)?;
    timely(&claims, now_s, config.iat_slack)?;
    let is_event =
        claims.get("events").and_then(|events| events.get(LOGOUT_EVENT)).is_some_and(Value::is_object);
    // One with a nonce may be an ID token that somebody stole.
    if !is_event || claims.contains_key("nonce") || !claims.contains_key("iat") {
        return Err("the token is no logout_token".to_owned());
    }
    Ok(claims)
}

fn issued(config: &Config, document: &Document, claims: &Claims) -> Result<(), String> {
    let issuer = document.endpoint("issuer")?;
    if claims.get("iss").and_then(Value::as_str) != Some(issuer) {
        return Err("the token is of another issuer".to_owned());
    }
    if !is_for(claims.get("aud"), &config.client_id) {
        return Err("the token is for another client".to_owned());
    }
    if claims.get("azp").is_some_and(|azp| azp.as_str() != Some(&config.client_id)) {
        return Err("the token was given to another client".to_owned());
    }
    Ok(())
}

/// Checks the signature of a token for the client. The algorithm has to be expected: the one that is configured, or one
/// that the provider says it signs with.
async fn signed(
    config: &Config,
    provider: &Provider,
    document: &Document,
    services: &Rc<dyn Services>,
    token: &Token<'_>,
    now_s: u64,
) -> Result<(), String> {
    let algorithm = token.algorithm().ok_or("the token is unsigned or has an unknown algorithm")?;
    let is_expected = match &config.token_signing_alg_values_expected {
        Some(expected) => expected == algorithm.name(),
        None => document.lists("id_token_signing_alg_values_supported", algorithm.name()),
    };
    if !is_expected {
        return Err(format!("the token is signed with {}, which is not expected", algorithm.name()));
    }
    let is_good = match (algorithm.digest(), &config.client_secret) {
        (None, _) => provider.signed(services, token, now_s).await?,
        (Some(digest), Some(secret)) => {
            token.is_signed_with(algorithm, &Key::Secret(hmac::Key::new(digest, secret.as_bytes())))
        }
        (Some(_), None) => false,
    };
    if is_good { Ok(()) } else { Err("the token's signature is wrong".to_owned()) }
}

/// The algorithm of a bearer token, if its signature may be checked with public keys.
pub(super) fn bearer_algorithm(config: &Config, token: &Token<'_>) -> Result<Algorithm, &'static str> {
    let algorithm = token.algorithm().filter(|algorithm| algorithm.digest().is_none());
    let algorithm = algorithm.ok_or("the token is unsigned or has an unknown algorithm")?;
    match &config.token_signing_alg_values_expected {
        Some(expected) if expected != algorithm.name() => Err("the token's algorithm is not expected"),
        _ => Ok(algorithm),
    }
}
