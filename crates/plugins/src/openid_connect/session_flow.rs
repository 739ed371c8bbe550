//! Requests with a session, and without.

use super::client::{Client, invalid_token};
use super::client_auth::Form;
use super::config::UnauthAction;
use super::login;
use super::sessions::{Shown, id_claims};
use crate::identity::Session;
use crate::jose::Token;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use plugin::{Exchange, Flow, Reply, Services, log_for};
use serde_json::{Value, json};
use std::rc::Rc;
use std::sync::Arc;

/// Lets in who has a session, and has the others log in.
pub(super) fn enter(client: &Arc<Client>, exchange: &mut Exchange<'_>, now_s: u64) -> Flow {
    let Some(store) = &client.store else { return Flow::status(401) };
    match store.shown(exchange, now_s) {
        Shown::None => without(client, exchange, now_s),
        Shown::Here(session, touch) => with(client, (session, touch, None), exchange, now_s),
        Shown::There(id, redis) => {
            let (asking, settled) = (Arc::clone(client), Arc::clone(client));
            Flow::wait(
                async move {
                    let store = asking.store.as_ref().ok_or_else(|| "no sessions".to_owned())?;
                    Ok::<_, String>((store.load(&redis, &id, now_s).await?, id))
                },
                move |found, exchange| match found {
                    Ok((Some((session, touch)), id)) => {
                        with(&settled, (session, touch, Some(id)), exchange, now_s)
                    }
                    Ok((None, _)) => without(&settled, exchange, now_s),
                    Err(why) => {
                        log_for!(
                            error,
                            exchange,
                            "openid-connect: OIDC authentication failed: no session from redis: {why}"
                        );
                        Flow::status(500)
                    }
                },
            )
        }
    }
}

/// A request without a session.
fn without(client: &Arc<Client>, exchange: &mut Exchange<'_>, now_s: u64) -> Flow {
    match client.config.unauth_action {
        UnauthAction::Auth => login::begin(client, exchange, now_s, false),
        UnauthAction::Deny => Flow::status(401),
        UnauthAction::Pass => Flow::Next,
    }
}

/// A request with a session: its content, whether it is to be renewed, and its id in Redis.
fn with(
    client: &Arc<Client>,
    (session, touch, id): (Session, bool, Option<String>),
    exchange: &mut Exchange<'_>,
    now_s: u64,
) -> Flow {
    let config = &client.config;
    let number = |name: &str| session.get(name).and_then(Value::as_u64);
    if config.force_reauthorize {
        return without(client, exchange, now_s);
    }
    let is_old = config.refresh_session_interval.zip(number("authenticated_at"));
    if is_old.is_some_and(|(interval_s, at_s)| now_s >= at_s.saturating_add(interval_s))
        && config.unauth_action == UnauthAction::Auth
    {
        return login::begin(client, exchange, now_s, true);
    }
    let is_over = number("expires_at")
        .is_some_and(|at_s| now_s.saturating_add(config.access_token_expires_leeway) >= at_s);
    if is_over && config.renew_access_token_on_expiry {
        let Some(refresh) = session.get("refresh_token").and_then(Value::as_str).map(str::to_owned) else {
            return without(client, exchange, now_s);
        };
        return renew(client, (session, id, refresh), exchange, now_s);
    }
    let renewed = touch.then(|| session.clone());
    match (client.admit_session(&session, exchange), renewed) {
        (Flow::Next, Some(session)) => keep(client, session, id, exchange, now_s),
        (flow, _) => flow,
    }
}

/// Renews the access token of a session.
fn renew(
    client: &Arc<Client>,
    (mut session, id, refresh): (Session, Option<String>, String),
    exchange: &mut Exchange<'_>,
    now_s: u64,
) -> Flow {
    let (services, asking, settled) = (Rc::clone(exchange.services), Arc::clone(client), Arc::clone(client));
    Flow::wait(
        async move { asking.refresh(&services, &mut session, refresh, now_s).await.map(|()| session) },
        move |renewed, exchange| match renewed {
            Ok(session) => match settled.admit_session(&session, exchange) {
                Flow::Next => keep(&settled, session, id, exchange, now_s),
                flow => flow,
            },
            Err(why) => {
                log_for!(warn, exchange, "openid-connect: failed to renew the access token: {why}");
                without(&settled, exchange, now_s)
            }
        },
    )
}

/// Keeps a session that was changed, and lets its request pass.
fn keep(
    client: &Arc<Client>,
    session: Session,
    id: Option<String>,
    exchange: &mut Exchange<'_>,
    now_s: u64,
) -> Flow {
    let Some(store) = &client.store else { return Flow::status(500) };
    let failed = |exchange: &Exchange<'_>, why: &str| {
        log_for!(error, exchange, "openid-connect: failed to save the session: {why}");
        Flow::Next
    };
    let Some(redis) = store.client(exchange) else {
        return match store.keep(&session, exchange, now_s) {
            true => Flow::Next,
            false => failed(exchange, "it is too long for cookies"),
        };
    };
    let (saving, settled) = (Arc::clone(client), Arc::clone(client));
    Flow::wait(
        async move {
            let store = saving.store.as_ref().ok_or_else(|| "no sessions".to_owned())?;
            store.save(Some(&redis), id, session, now_s).await
        },
        move |saved, exchange| match (saved, &settled.store) {
            (Ok(cookie), Some(store)) => {
                store.keep(&cookie, exchange, now_s);
                Flow::Next
            }
            (Err(why), _) => failed(exchange, &why),
            (_, None) => Flow::status(500),
        },
    )
}

impl Client {
    /// Asks for new tokens (RFC 6749 section 6).
    async fn refresh(
        &self,
        services: &Rc<dyn Services>,
        session: &mut Session,
        refresh: String,
        now_s: u64,
    ) -> Result<(), String> {
        let mut form = Form::default();
        form.pairs.push(("grant_type", "refresh_token".to_owned()));
        form.pairs.push(("refresh_token", refresh));
        form.pairs.push(("scope", self.config.scope.clone()));
        let tokens = self.tokens(services, form, now_s).await?;
        if tokens.get("access_token").and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err("the token endpoint gave no access_token".to_owned());
        }
        if let Some(raw) = tokens.get("id_token").and_then(Value::as_str) {
            let before = id_claims(session);
            let claims =
                super::claims::id_token(&self.config, &self.provider, services, (raw, None), now_s).await?;
            if before.is_some_and(|before| before.get("sub") != claims.get("sub")) {
                return Err("the new id_token is of another user".to_owned());
            }
            session.insert("enc_id_token".to_owned(), raw.into());
        }
        self.take_tokens(&tokens, session, now_s);
        Ok(())
    }

    /// Lets a request with a session pass, if its claims and scopes are what is asked for.
    fn admit_session(&self, session: &Session, exchange: &mut Exchange<'_>) -> Flow {
        let config = &self.config;
        let text = |name: &str| session.get(name).and_then(Value::as_str);
        let id_token = id_claims(session).map(Value::Object);
        if config.claim_schema.is_some() {
            let mut data = Session::new();
            for (name, value) in [
                ("user", session.get("user")),
                ("access_token", session.get("access_token")),
                ("id_token", id_token.as_ref()),
            ] {
                data.extend(value.map(|value| (name.to_owned(), value.clone())));
            }
            if let Err(why) = self.check_claims(&Value::Object(data)) {
                log_for!(error, exchange, "openid-connect: OIDC claim validation failed: {why}");
                return invalid_token(&config.realm, &why);
            }
        }
        if let Some(required) = &config.required_scopes {
            let granted = granted_scopes(text("access_token"), id_token.as_ref());
            let why = match granted {
                None => Some("required scopes not present".to_owned()),
                Some(granted) if required.iter().all(|scope| granted.contains(scope)) => None,
                Some(_) => Some(format!("required scopes {} not present", required.join(", "))),
            };
            if let Some(why) = why {
                log_for!(error, exchange, "openid-connect: OIDC authentication failed: {why}");
                return Flow::reply(Reply::text(403, json!({ "error": why }).to_string()));
            }
        }
        if let Some(token) = text("access_token") {
            self.set_access_token(token, exchange);
        }
        let headers = &mut exchange.request.edit().headers;
        if let Some(claims) = id_token.filter(|_| config.set_id_token_header) {
            headers.set("X-ID-Token", STANDARD.encode(claims.to_string()));
        }
        if let Some(token) = text("refresh_token").filter(|_| config.set_refresh_token_header) {
            headers.set("X-Refresh-Token", token);
        }
        if let Some(token) = text("enc_id_token").filter(|_| config.set_raw_id_token_header) {
            headers.set("X-Raw-ID-Token", token);
        }
        if let Some(user) = session.get("user") {
            self.set_userinfo(user.clone(), exchange);
        }
        Flow::Next
    }
}

/// The scopes that a session was granted: those in its access token, if that is a JWT, or else in its ID token.
fn granted_scopes(access_token: Option<&str>, id_token: Option<&Value>) -> Option<Vec<String>> {
    let claims = access_token.and_then(|token| Token::parse(token.as_bytes())).map(|token| token.payload);
    let of = |claims: &Session| Some(super::claims::scopes(claims)?.into_iter().map(str::to_owned).collect());
    claims.as_ref().and_then(of).or_else(|| of(id_token?.as_object()?))
}
