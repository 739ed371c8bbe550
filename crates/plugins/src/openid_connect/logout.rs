//! The end of sessions: by the user, and by the provider.

use super::claims;
use super::client::Client;
use super::client_auth::Form;
use super::sessions::Shown;
use crate::identity::{Session, encode_args};
use plugin::{Exchange, Flow, Reply, Services, WholeBody, form_fields, log_for};
use serde_json::Value;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of a logout token's form.
const FORM_MAX: usize = 64 * 1024;

/// Whether a request is one with which the provider logs a user out (OpenID Connect Back-Channel Logout 1.0, 2.5).
pub(super) fn is_back_channel(exchange: &Exchange<'_>) -> bool {
    let kind = exchange.request.header(b"content-type").unwrap_or_default();
    exchange.request.method() == b"POST" && kind.starts_with(b"application/x-www-form-urlencoded")
}

/// Ends the sessions of which a logout token speaks. A form without one is a user's.
pub(super) fn back_channel(client: &Arc<Client>, exchange: &mut Exchange<'_>, now_s: u64) -> Flow {
    let body = match exchange.request.whole_body(FORM_MAX) {
        WholeBody::Unread => return Flow::Body(FORM_MAX),
        WholeBody::TooLong => return Flow::status(413),
        WholeBody::Whole(body) => form_fields(body),
    };
    let answer = |status| Flow::reply(Reply::text(status, "").with_header("Cache-Control", "no-store"));
    let Some(raw) = body.get("logout_token").and_then(Value::as_str).map(str::to_owned) else {
        return front_channel(client, exchange, now_s);
    };
    let (services, asking) = (Rc::clone(exchange.services), Arc::clone(client));
    let redis = client.store.as_ref().and_then(|store| store.client(exchange));
    Flow::wait(
        async move {
            let store = asking.store.as_ref().ok_or_else(|| "there are no sessions".to_owned())?;
            let claims =
                claims::logout_token(&asking.config, &asking.provider, &services, &raw, now_s).await?;
            store.revoke(redis.as_ref(), &claims, now_s).await
        },
        move |done, exchange| match done {
            Ok(()) => answer(200),
            Err(why) => {
                log_for!(error, exchange, "openid-connect: the back-channel logout failed: {why}");
                answer(400)
            }
        },
    )
}

/// Ends the session of a request, and sends its client to the provider to end the one there.
pub(super) fn front_channel(client: &Arc<Client>, exchange: &mut Exchange<'_>, now_s: u64) -> Flow {
    let Some(store) = &client.store else { return Flow::status(401) };
    let shown = store.shown(exchange, now_s);
    store.end(exchange, now_s);
    let (services, asking, settled) = (Rc::clone(exchange.services), Arc::clone(client), Arc::clone(client));
    Flow::wait(
        async move {
            let session = match shown {
                Shown::None => None,
                Shown::Here(session, _) => Some(session),
                Shown::There(id, redis) => match &asking.store {
                    Some(store) => {
                        store.load(&redis, &id, now_s).await.ok().flatten().map(|(session, _)| session)
                    }
                    None => None,
                },
            };
            let document = asking.provider.document(&services, now_s).await?;
            if let (Some(session), true) = (&session, asking.config.revoke_tokens_on_logout) {
                asking.revoke_tokens(&services, session, now_s).await;
            }
            Ok::<_, String>((document, session))
        },
        move |found, exchange| {
            let (document, session) = match found {
                Ok(found) => found,
                Err(why) => {
                    log_for!(error, exchange, "openid-connect: OIDC {why}");
                    return Flow::status(503);
                }
            };
            let after = settled.config.post_logout_redirect_uri.as_deref();
            let url = match (document.text("end_session_endpoint"), after) {
                (Some(endpoint), after) => {
                    let hint = session.as_ref().and_then(|session| session.get("enc_id_token")?.as_str());
                    let pairs = [("id_token_hint", hint), ("post_logout_redirect_uri", after)];
                    let pairs: Vec<_> =
                        pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
                    let separator = if endpoint.contains('?') { "&" } else { "?" };
                    let separator = if pairs.is_empty() { "" } else { separator };
                    format!("{endpoint}{separator}{}", encode_args(&pairs))
                }
                (None, Some(after)) => after.to_owned(),
                (None, None) => {
                    let page = Reply::text(200, "<html><body>Logged Out</body></html>");
                    return Flow::reply(page.with_header("Content-Type", "text/html"));
                }
            };
            Flow::reply(Reply::status(302).with_header("Location", url))
        },
    )
}

impl Client {
    /// Revokes a session's tokens (RFC 7009). A provider that doesn't is no reason to stay logged in here.
    async fn revoke_tokens(&self, services: &Rc<dyn Services>, session: &Session, now_s: u64) {
        let Ok(document) = self.provider.document(services, now_s).await else { return };
        let Some(url) = document.text("revocation_endpoint") else { return };
        for name in ["refresh_token", "access_token"] {
            let Some(token) = session.get(name).and_then(Value::as_str) else { continue };
            let form = Form {
                pairs: vec![("token", token.to_owned()), ("token_type_hint", name.to_owned())],
                authorization: None,
            };
            let method = &self.config.token_endpoint_auth_method;
            match self.provider.post(services, url, method, form, &[], now_s).await {
                Ok((200, _)) => {}
                Ok((status, _)) => {
                    tracing::warn!(status, "openid-connect: the provider did not revoke the {name}");
                }
                Err(why) => tracing::warn!("openid-connect: the provider did not revoke the {name}: {why}"),
            }
        }
    }
}
