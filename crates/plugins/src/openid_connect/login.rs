//! The login of a user at the provider: authorization code flow (OpenID Connect Core 3.1).

use super::claims;
use super::client::Client;
use super::client_auth::Form;
use super::provider::Document;
use super::sessions::{Login, Logins};
use crate::auth::same_secret;
use crate::headers::text;
use crate::identity::{Session, encode_args, is_local, random_text, shown};
use crate::text::decode_arg;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use plugin::{Exchange, Flow, Reply, Services, log_for};
use ring::digest;
use serde_json::Value;
use std::rc::Rc;
use std::sync::Arc;

/// Seconds for which a state that was used is remembered: as long as its cookie is good.
const USED_S: u64 = 660;

/// Sends the client to the provider. `silently` asks it to answer without a page of its own.
pub(super) fn begin(client: &Arc<Client>, exchange: &mut Exchange<'_>, now_s: u64, silently: bool) -> Flow {
    let pushes = client.config.par.enabled;
    if let Some(document) = client.provider.known(now_s).filter(|_| !pushes) {
        return redirect(client, &document, None, exchange, now_s, silently);
    }
    let (services, asking, settled) = (Rc::clone(exchange.services), Arc::clone(client), Arc::clone(client));
    if !pushes {
        return Flow::wait(
            async move { asking.provider.document(&services, now_s).await },
            move |found, exchange| match found {
                Ok(document) => redirect(&settled, &document, None, exchange, now_s, silently),
                Err(why) => failed(exchange, &why),
            },
        );
    }
    let Some(login) = login_of(client, exchange) else { return Flow::status(500) };
    let pairs = parameters(client, &login, silently);
    Flow::wait(
        async move {
            let document = asking.provider.document(&services, now_s).await?;
            let uri = asking.push(&services, &document, pairs, now_s).await?;
            Ok::<_, String>((document, uri, login))
        },
        move |pushed, exchange| match pushed {
            Ok((document, uri, login)) => {
                redirect(&settled, &document, Some((login, uri)), exchange, now_s, silently)
            }
            Err(why) => failed(exchange, &why),
        },
    )
}

fn failed(exchange: &Exchange<'_>, why: &str) -> Flow {
    log_for!(error, exchange, "openid-connect: OIDC authentication failed: {why}");
    Flow::status(500)
}

/// A new login for a request.
fn login_of(client: &Client, exchange: &Exchange<'_>) -> Option<Login> {
    let target = String::from_utf8_lossy(exchange.request.target()).into_owned();
    let random = |wanted: bool| if wanted { random_text().map(Some) } else { Some(None) };
    Some(Login {
        state: random_text()?,
        nonce: random(client.config.use_nonce)?,
        verifier: random(client.config.use_pkce)?,
        target: if is_local(&target) { target } else { "/".to_owned() },
        redirect_uri: redirect_uri(client, exchange),
    })
}

/// The parameters of an authorization request.
fn parameters(client: &Client, login: &Login, silently: bool) -> Vec<(&'static str, String)> {
    let config = &client.config;
    let mut pairs = vec![
        ("response_type", "code".to_owned()),
        ("client_id", config.client_id.clone()),
        ("state", login.state.clone()),
        ("redirect_uri", login.redirect_uri.clone()),
        ("scope", config.scope.clone()),
    ];
    pairs.extend(login.nonce.clone().map(|nonce| ("nonce", nonce)));
    if let Some(verifier) = &login.verifier {
        let challenge = digest::digest(&digest::SHA256, verifier.as_bytes());
        pairs.push(("code_challenge", URL_SAFE_NO_PAD.encode(challenge.as_ref())));
        pairs.push(("code_challenge_method", "S256".to_owned()));
    }
    if silently {
        pairs.push(("prompt", "none".to_owned()));
    }
    pairs
}

/// Answers with the redirection, and has the client keep what its return is checked against.
fn redirect(
    client: &Client,
    document: &Document,
    pushed: Option<(Login, String)>,
    exchange: &mut Exchange<'_>,
    now_s: u64,
    silently: bool,
) -> Flow {
    let endpoint = match document.endpoint("authorization_endpoint") {
        Ok(endpoint) => endpoint.to_owned(),
        Err(why) => return failed(exchange, &why),
    };
    let (login, query) = match pushed {
        Some((login, uri)) => {
            let query = encode_args(&[("client_id", &client.config.client_id), ("request_uri", &uri)]);
            (login, query)
        }
        None => {
            let Some(login) = login_of(client, exchange) else { return Flow::status(500) };
            let own = parameters(client, &login, silently);
            let more = client.config.authorization_params.iter();
            // What the flow depends on can't be replaced.
            let more = more.filter(|(name, _)| own.iter().all(|(other, _)| other != name));
            let more: Vec<_> = more.filter_map(|(name, value)| Some((name.as_str(), text(value)?))).collect();
            let own = own.iter().map(|(name, value)| (*name, value.clone()));
            (login.clone(), encode_args(&own.chain(more).collect::<Vec<_>>()))
        }
    };
    let Some(store) = &client.store else { return Flow::status(500) };
    let mut logins = store.logins(exchange, now_s).unwrap_or_default();
    logins.logins.push(login);
    if !store.keep_logins(logins, exchange, now_s) {
        return failed(exchange, "the logins under way are too long for a cookie");
    }
    let separator = if endpoint.contains('?') { '&' } else { '?' };
    let reply = Reply::status(302).with_header("Location", format!("{endpoint}{separator}{query}"));
    Flow::reply(reply.with_header("Cache-Control", "no-cache, no-store, max-age=0"))
}

/// Where the provider sends the client back: the configured URL, or the path `.apisix/redirect` below the request's.
pub(super) fn redirect_uri(client: &Client, exchange: &Exchange<'_>) -> String {
    let path = match &client.config.redirect_uri {
        Some(uri) if !uri.starts_with('/') => return uri.clone(),
        Some(path) => path.clone(),
        None => {
            let path = String::from_utf8_lossy(&exchange.request.path).into_owned();
            match path.strip_suffix(CALLBACK) {
                Some(_) => path,
                None => format!("{}{CALLBACK}", path.strip_suffix('/').unwrap_or(&path)),
            }
        }
    };
    // Of a client that is not trusted these fields have been taken out.
    let first = |name: &[u8]| {
        let value = exchange.request.header(name)?;
        let value = value.split(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
        std::str::from_utf8(value).ok().filter(|value| !value.is_empty()).map(str::to_owned)
    };
    let (mut host, mut scheme) = (None, None);
    for pair in first(b"forwarded").iter().flat_map(|value| value.split(';')) {
        match pair.trim().split_once('=') {
            Some((name, value)) if name.eq_ignore_ascii_case("host") => {
                host = Some(value.trim_matches('"').to_owned());
            }
            Some((name, value)) if name.eq_ignore_ascii_case("proto") => {
                scheme = Some(value.trim_matches('"').to_owned());
            }
            _ => {}
        }
    }
    let host = host.or_else(|| first(b"x-forwarded-host")).or_else(|| first(b"host"));
    let host = host.unwrap_or_else(|| String::from_utf8_lossy(&exchange.request.host).into_owned());
    let scheme = scheme.or_else(|| first(b"x-forwarded-proto"));
    let scheme = scheme.filter(|scheme| scheme == "https" || scheme == "http");
    format!("{}://{host}{path}", scheme.as_deref().unwrap_or(exchange.client.scheme()))
}

/// The path to which clients come back, below the one that they asked for.
const CALLBACK: &str = "/.apisix/redirect";

/// Whether a request is one with which a client comes back from the provider.
pub(super) fn is_callback(client: &Client, exchange: &Exchange<'_>) -> bool {
    let path = &*exchange.request.path;
    match &client.callback_path {
        Some(callback) => path == callback.as_bytes(),
        None => path.ends_with(CALLBACK.as_bytes()),
    }
}

/// Goes on with a client that comes back from the provider.
pub(super) fn finish(client: &Arc<Client>, exchange: &mut Exchange<'_>, now_s: u64) -> Flow {
    let Some(store) = &client.store else { return Flow::status(500) };
    let argument = |name: &[u8]| {
        let value = exchange.request.arg(name).filter(|value| !value.is_empty())?;
        String::from_utf8(decode_arg(value).into_owned()).ok()
    };
    let (state, code, error) = (argument(b"state"), argument(b"code"), argument(b"error"));
    let Some(mut logins) = store.logins(exchange, now_s) else {
        return failed(exchange, "request to the redirect_uri path but there's no session state found");
    };
    let known = state.as_ref().and_then(|state| {
        logins.logins.iter().position(|login| same_secret(login.state.as_bytes(), state.as_bytes()))
    });
    if let Some(error) = error {
        let target = known.map(|at| logins.logins[at].target.clone());
        let why = format!("unhandled request to the redirect_uri: the provider says {}", shown(&error));
        return match target.filter(|_| error == "temporarily_unavailable") {
            Some(target) => restart(client, logins, target, &why, exchange, now_s),
            None => failed(exchange, &why),
        };
    }
    let (Some(state), Some(code)) = (state, code) else {
        return failed(exchange, "unhandled request to the redirect_uri: no state or no code");
    };
    let why = "state from argument does not match state restored from session";
    let Some(at) = known.filter(|_| client.used.take(&state, now_s, now_s + USED_S)) else {
        let target = logins.logins.last().map_or("/", |login| &login.target).to_owned();
        return restart(client, logins, target, why, exchange, now_s);
    };
    let login = logins.logins.remove(at);
    logins.restarts = 0;
    store.keep_logins(logins, exchange, now_s);
    let (services, asking, settled) = (Rc::clone(exchange.services), Arc::clone(client), Arc::clone(client));
    let redis = store.client(exchange);
    Flow::wait(
        async move {
            let session = asking.exchange_code(&services, &login, code, now_s).await?;
            let store = asking.store.as_ref().ok_or("no sessions")?;
            Ok::<_, String>((store.save(redis.as_ref(), None, session, now_s).await?, login.target))
        },
        move |session, exchange| match (session, &settled.store) {
            (Ok((session, target)), Some(store)) => {
                if !store.keep(&session, exchange, now_s) {
                    return failed(exchange, "the session is too long for cookies: keep sessions in redis");
                }
                Flow::reply(Reply::status(302).with_header("Location", target))
            }
            (Err(why), _) => failed(exchange, &why),
            (_, None) => Flow::status(500),
        },
    )
}

/// Has the client log in anew, a few times.
fn restart(
    client: &Client,
    mut logins: Logins,
    target: String,
    why: &str,
    exchange: &mut Exchange<'_>,
    now_s: u64,
) -> Flow {
    if exchange.request.method() != b"GET" {
        return failed(exchange, why);
    }
    if !logins.restart() {
        return failed(exchange, &format!("{why} (giving up after 3 restarts of the authentication flow)"));
    }
    let kept = client.store.as_ref().is_some_and(|store| store.keep_logins(logins, exchange, now_s));
    if !kept {
        return failed(exchange, why);
    }
    log_for!(warn, exchange, "openid-connect: {why}, restarting the authentication flow");
    Flow::reply(Reply::status(302).with_header("Location", target))
}

impl Client {
    /// Pushes an authorization request: its URI (RFC 9126).
    async fn push(
        &self,
        services: &Rc<dyn Services>,
        document: &Document,
        pairs: Vec<(&'static str, String)>,
        now_s: u64,
    ) -> Result<String, String> {
        let par = &self.config.par;
        let url = match &par.endpoint {
            Some(url) => url,
            None => document.endpoint("pushed_authorization_request_endpoint")?,
        };
        let method = par.endpoint_auth_method.as_ref().unwrap_or(&self.config.token_endpoint_auth_method);
        // The client's id is a parameter of the request, and may be part of its authentication.
        let mut form = Form { pairs, authorization: None };
        if method != "client_secret_basic" {
            form.pairs.retain(|(name, _)| *name != "client_id");
        }
        let (status, body) = self.provider.post(services, url, method, form, &[], now_s).await?;
        let uri = body.as_ref().and_then(|body| body.get("request_uri")?.as_str());
        let uri = uri.filter(|_| matches!(status, 200 | 201));
        uri.map(str::to_owned)
            .ok_or_else(|| format!("the pushed authorization request failed with status {status}"))
    }

    /// The session that a code is worth.
    async fn exchange_code(
        &self,
        services: &Rc<dyn Services>,
        login: &Login,
        code: String,
        now_s: u64,
    ) -> Result<Session, String> {
        let mut form = Form::default();
        form.pairs.push(("grant_type", "authorization_code".to_owned()));
        form.pairs.push(("code", code));
        form.pairs.push(("redirect_uri", login.redirect_uri.clone()));
        form.pairs.extend(login.verifier.clone().map(|verifier| ("code_verifier", verifier)));
        let tokens = self.tokens(services, form, now_s).await?;
        let raw =
            tokens.get("id_token").and_then(Value::as_str).ok_or("the token endpoint gave no id_token")?;
        let nonce = login.nonce.as_deref();
        let id_token = claims::id_token(&self.config, &self.provider, services, (raw, nonce), now_s).await?;
        let mut session = Session::new();
        session.insert("since".to_owned(), now_s.into());
        session.insert("authenticated_at".to_owned(), now_s.into());
        session.insert("enc_id_token".to_owned(), raw.into());
        self.take_tokens(&tokens, &mut session, now_s);
        if let Some(user) = self.userinfo(services, &session, &id_token, now_s).await? {
            session.insert("user".to_owned(), user);
        }
        Ok(session)
    }

    /// What the token endpoint answers to a form.
    pub(super) async fn tokens(
        &self,
        services: &Rc<dyn Services>,
        form: Form,
        now_s: u64,
    ) -> Result<Session, String> {
        let document = self.provider.document(services, now_s).await?;
        let url = document.endpoint("token_endpoint")?;
        let method = &self.config.token_endpoint_auth_method;
        match self.provider.post(services, url, method, form, &[], now_s).await? {
            (200, Some(Value::Object(tokens))) => Ok(tokens),
            (status, body) => {
                let error = body.as_ref().and_then(|body| body.get("error")?.as_str()).unwrap_or("no tokens");
                Err(format!("the token endpoint answered with status {status}: {}", shown(error)))
            }
        }
    }

    /// Puts the access and refresh token of an answer into a session.
    pub(super) fn take_tokens(&self, tokens: &Session, session: &mut Session, now_s: u64) {
        for name in ["access_token", "refresh_token"] {
            if let Some(token) = tokens.get(name).and_then(Value::as_str).filter(|token| !token.is_empty()) {
                session.insert(name.to_owned(), token.into());
            }
        }
        let said = tokens.get("expires_in").and_then(|value| match value {
            Value::String(text) => text.parse().ok(),
            value => value.as_u64(),
        });
        match said.or(self.config.access_token_expires_in) {
            Some(expires_in) => {
                session.insert("expires_at".to_owned(), now_s.saturating_add(expires_in).into())
            }
            None => session.remove("expires_at"),
        };
    }

    /// What the provider says of the user, where somebody wants to know.
    async fn userinfo(
        &self,
        services: &Rc<dyn Services>,
        session: &Session,
        id_token: &Session,
        now_s: u64,
    ) -> Result<Option<Value>, String> {
        let document = self.provider.document(services, now_s).await?;
        let token = session.get("access_token").and_then(Value::as_str);
        let (Some(url), Some(token)) = (document.text("userinfo_endpoint"), token) else { return Ok(None) };
        if !self.config.set_userinfo_header && self.config.claim_schema.is_none() {
            return Ok(None);
        }
        match self.provider.get(services, url, Some(token)).await {
            Ok((200, Some(user))) if user.is_object() => {
                if user.get("sub") != id_token.get("sub") {
                    return Err("the userinfo endpoint speaks of another user".to_owned());
                }
                Ok(Some(user))
            }
            Ok((status, _)) => {
                tracing::error!(status, "openid-connect: the userinfo endpoint gave no claims");
                Ok(None)
            }
            Err(why) => {
                tracing::error!("openid-connect: the userinfo endpoint gave no claims: {why}");
                Ok(None)
            }
        }
    }
}
