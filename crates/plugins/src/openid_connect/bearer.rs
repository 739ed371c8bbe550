//! Requests that show an access token.

use super::claims::{self, Claims};
use super::client::{Client, invalid_token};
use super::client_auth::Form;
use crate::jose::{Algorithm, Key, Token};
use plugin::{Exchange, Flow, Reply, Services, log_for};
use serde_json::{Value, json};
use std::rc::Rc;
use std::sync::Arc;

/// The keys of a `public_key`, one for each algorithm that it may be for.
pub(super) fn public_keys(pem: &str) -> Vec<(Algorithm, Key)> {
    let asymmetric = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];
    let algorithms = asymmetric.iter().filter_map(|name| Algorithm::named(name));
    algorithms.filter_map(|algorithm| Some((algorithm, Key::public(algorithm, pem).ok()?))).collect()
}

/// The access token that a request shows: in `Authorization`, else in `X-Access-Token`, which is `other`.
pub(super) fn shown(exchange: &Exchange<'_>, other: Option<String>) -> Result<Option<String>, &'static str> {
    let Some(header) = exchange.request.header(b"authorization") else { return Ok(other) };
    let Some(at) = header.iter().position(|byte| *byte == b' ') else {
        return Err("Invalid Authorization header format.");
    };
    if !header[..at].eq_ignore_ascii_case(b"bearer") {
        return Ok(None);
    }
    Ok(Some(String::from_utf8_lossy(header[at + 1..].trim_ascii()).into_owned()))
}

/// Lets in who shows a good access token.
pub(super) fn admit(client: &Arc<Client>, token: String, exchange: &mut Exchange<'_>, now_s: u64) -> Flow {
    if let Some(claims) = client.introspected.find(&token, now_s) {
        return client.admit_bearer(&token, &claims, exchange);
    }
    let fields = client.config.introspection_addon_headers.iter();
    let fields: Vec<_> = fields
        .filter_map(|name| Some((name.clone(), exchange.request.header(name.as_bytes())?.to_vec())))
        .collect();
    let (services, asking, settled) = (Rc::clone(exchange.services), Arc::clone(client), Arc::clone(client));
    Flow::wait(
        async move {
            let claims = if asking.config.verifies_locally() {
                asking.verify(&services, &token, now_s).await.map(Arc::new)
            } else {
                asking.introspect(&services, &token, &fields, now_s).await
            };
            (token, claims)
        },
        move |(token, claims), exchange| match claims {
            Ok(claims) => settled.admit_bearer(&token, &claims, exchange),
            Err(why) => {
                log_for!(error, exchange, "openid-connect: OIDC introspection failed: {why}");
                invalid_token(&settled.config.realm, &why)
            }
        },
    )
}

impl Client {
    /// The claims of a token whose signature the gateway checks.
    async fn verify(&self, services: &Rc<dyn Services>, raw: &str, now_s: u64) -> Result<Claims, String> {
        let config = &self.config;
        let token = Token::parse(raw.as_bytes()).ok_or("invalid jwt: not a signed token")?;
        let algorithm = claims::bearer_algorithm(config, &token)?;
        let discovered;
        let issuers: Vec<&str> = match &config.claim_validator.issuer.valid_issuers {
            Some(issuers) => issuers.iter().map(String::as_str).collect(),
            None => {
                discovered = self.provider.document(services, now_s).await.map_err(|why| {
                    tracing::error!("openid-connect: {why}");
                    "issuer validation unavailable"
                })?;
                vec![discovered.endpoint("issuer")?]
            }
        };
        let is_signed = if config.public_key.is_some() {
            let keys = self.public_keys.iter().filter(|(of, _)| *of == algorithm);
            keys.into_iter().any(|(of, key)| token.is_signed_with(*of, key))
        } else {
            self.provider.signed(services, &token, now_s).await?
        };
        if !is_signed {
            return Err("signature verification failed".to_owned());
        }
        let claims = token.payload;
        if !claims.get("iss").and_then(Value::as_str).is_some_and(|issuer| issuers.contains(&issuer)) {
            return Err("jwt issuer is not valid".to_owned());
        }
        claims::timely(&claims, now_s, config.iat_slack)?;
        Ok(claims)
    }

    /// What the provider says of a token (RFC 7662).
    async fn introspect(
        &self,
        services: &Rc<dyn Services>,
        token: &str,
        fields: &[(String, Vec<u8>)],
        now_s: u64,
    ) -> Result<Arc<Claims>, String> {
        let config = &self.config;
        let document;
        let url = match &config.introspection_endpoint {
            Some(url) => url.as_str(),
            None => {
                document = self.provider.document(services, now_s).await?;
                document.endpoint("introspection_endpoint")?
            }
        };
        let form = Form { pairs: vec![("token", token.to_owned())], ..Form::default() };
        let method = &config.introspection_endpoint_auth_method;
        let answer = self.provider.post(services, url, method, form, fields, now_s).await?;
        let claims = match answer {
            (200, Some(Value::Object(claims))) => claims,
            (status, _) => return Err(format!("introspection failed with status {status}")),
        };
        if claims.get("active") != Some(&Value::Bool(true)) {
            return Err("invalid token".to_owned());
        }
        claims::timely(&claims, now_s, config.iat_slack)?;
        let claims = Arc::new(claims);
        let expiry = config.introspection_expiry_claim.as_deref().unwrap_or("exp");
        if let Some(mut until_s) = claims.get(expiry).and_then(Value::as_f64).map(|time| time as u64) {
            if config.introspection_interval > 0 {
                until_s = until_s.min(now_s.saturating_add(config.introspection_interval));
            }
            self.introspected.keep(token, &claims, now_s, until_s);
        }
        Ok(claims)
    }

    /// Lets a request pass whose token is good, if its claims are what is asked for.
    fn admit_bearer(&self, token: &str, claims: &Claims, exchange: &mut Exchange<'_>) -> Flow {
        let config = &self.config;
        let refuse = |exchange: &Exchange<'_>, why: String| {
            log_for!(error, exchange, "openid-connect: OIDC introspection failed: {why}");
            Flow::reply(Reply::text(403, json!({ "error": why }).to_string()))
        };
        if let Some(required) = &config.required_scopes {
            let granted = claims::scopes(claims).unwrap_or_default();
            if required.iter().any(|scope| !granted.contains(&scope.as_str())) {
                return refuse(exchange, format!("required scopes {} not present", required.join(", ")));
            }
        }
        let validator = &config.claim_validator.audience;
        let audience = claims.get(validator.claim.as_deref().unwrap_or("aud"));
        if (validator.required || validator.match_with_client_id) && audience.is_none() {
            return refuse(exchange, "required audience claim not present".to_owned());
        }
        if validator.match_with_client_id && !claims::is_for(audience, &config.client_id) {
            return refuse(exchange, "mismatched audience".to_owned());
        }
        let all = Value::Object(claims.clone());
        if let Err(why) = self.check_claims(&all) {
            log_for!(error, exchange, "openid-connect: OIDC claim validation failed: {why}");
            return invalid_token(&config.realm, &why);
        }
        self.set_access_token(token, exchange);
        self.set_userinfo(all, exchange);
        Flow::Next
    }
}
