//! The sessions of users, and the logins that are under way.

use super::config::SessionConfig;
use crate::identity::{CookieAttributes, SameSite, Session, Sessions, random_text};
use crate::jose::Token;
use crate::redis_policy::{Client as RedisClient, PolicyConfig, Redis, Request};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::ConfigError;
use plugin::{CompileContext, Exchange};
use redis::Value as Reply;
use ring::digest;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Seconds that a login may take.
const LOGIN_S: u64 = 600;

/// Logins that one client may have under way: one a tab.
const LOGINS_MAX: usize = 5;

/// How often a login begins anew by itself before the client is told that it failed.
const RESTARTS_MAX: u64 = 3;

/// Seconds after which a session's cookie is renewed, if it is used.
const TOUCH_S: u64 = 60;

/// Logouts that the process remembers, each for as long as a session may last: some 100 bytes each.
const REVOKED_MAX: usize = 100_000;

/// The sessions of one configuration.
pub(super) struct Store {
    cookies: Sessions,
    logins: Sessions,
    redis: Option<(Redis, String)>,
    absolute_s: u64,
    lifetime_s: u64,
    revoked: Arc<Revoked>,
}

/// The users and sessions that the provider logged out, and when.
#[derive(Default)]
pub(super) struct Revoked {
    known: Mutex<HashMap<String, (u64, u64)>>,
    /// How many there are: none on most gateways, and then nobody looks.
    count: AtomicUsize,
}

/// A login that is under way.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct Login {
    pub(super) state: String,
    pub(super) nonce: Option<String>,
    pub(super) verifier: Option<String>,
    /// Where the client goes afterwards.
    pub(super) target: String,
    pub(super) redirect_uri: String,
}

/// The logins of one client.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Logins {
    pub(super) logins: Vec<Login>,
    /// How often one began anew by itself.
    pub(super) restarts: u64,
}

/// A session as a request shows it.
pub(super) enum Shown {
    None,
    /// Its content, and whether its cookie is to be renewed.
    Here(Session, bool),
    /// It is in Redis under this id.
    There(String, RedisClient),
}

impl Store {
    pub(super) fn compile(config: &SessionConfig, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let name = config.cookie_name.clone().unwrap_or_else(|| "session".to_owned());
        if !crate::headers::is_token(&name) {
            return Err(vec![ConfigError::new("/session/cookie_name", "is no name of a cookie")]);
        }
        for (path, value) in
            [("/session/cookie_path", &config.cookie_path), ("/session/cookie_domain", &config.cookie_domain)]
        {
            if value
                .as_ref()
                .is_some_and(|value| value.bytes().any(|byte| byte.is_ascii_control() || byte == b';'))
            {
                return Err(vec![ConfigError::new(path, "is no value of a cookie's attribute")]);
            }
        }
        let attributes = CookieAttributes {
            path: config.cookie_path.clone().unwrap_or_else(|| "/".to_owned()),
            domain: config.cookie_domain.clone(),
            secure: config.cookie_secure.unwrap_or(false),
            http_only: config.cookie_http_only.unwrap_or(true),
            same_site: config.cookie_same_site.unwrap_or(SameSite::Lax),
        };
        // Strict would hide it from the request with which a client comes back from the provider.
        let same_site =
            if attributes.same_site == SameSite::Strict { SameSite::Lax } else { attributes.same_site };
        let of_logins = CookieAttributes { same_site, ..attributes.clone() };
        let limit = |seconds: Option<u64>, default_s: u64| match seconds.unwrap_or(default_s) {
            0 => u64::from(u32::MAX),
            seconds => seconds,
        };
        let absolute_s = limit(Some(config.absolute_s()), 0);
        let renewed_s = limit(config.idling_timeout, 900).min(limit(config.rolling_timeout, 3600));
        let lifetime_s = renewed_s.min(absolute_s);
        let secret = config.secret.as_str();
        Ok(Self {
            logins: Sessions::new(format!("{name}_login"), [secret], LOGIN_S, of_logins),
            cookies: Sessions::new(name, [secret], lifetime_s, attributes),
            redis: redis(config, cx)?,
            absolute_s,
            lifetime_s,
            revoked: cx.shared.get(),
        })
    }

    /// The session that a request shows.
    pub(super) fn shown(&self, exchange: &Exchange<'_>, now_s: u64) -> Shown {
        let Some((session, made_s)) = self.cookies.read(&exchange.request, now_s) else { return Shown::None };
        match (&self.redis, session.get("id").and_then(Value::as_str)) {
            (Some((redis, _)), Some(id)) => Shown::There(id.to_owned(), redis.client(exchange)),
            (None, None) => match self.current(session, now_s) {
                Some(session) => Shown::Here(session, now_s >= made_s + TOUCH_S),
                None => Shown::None,
            },
            // The storage was changed.
            _ => Shown::None,
        }
    }

    /// The session with this id in Redis, and whether it is to be renewed.
    pub(super) async fn load(
        &self,
        client: &RedisClient,
        id: &str,
        now_s: u64,
    ) -> Result<Option<(Session, bool)>, String> {
        let found = client.ask(&Request::command("GET").key(self.key(id))).await;
        let Reply::BulkString(sealed) = found.map_err(|fault| fault.to_string())? else { return Ok(None) };
        let Some((session, made_s)) = self.cookies.open(&sealed, now_s) else { return Ok(None) };
        let Some(session) = self.current(session, now_s) else { return Ok(None) };
        for key in of_session(&session) {
            let answer = client.ask(&Request::command("GET").key(self.key(&key))).await;
            let at_s = crate::redis_policy::number(&answer.map_err(|fault| fault.to_string())?);
            if at_s.is_some_and(|at_s| since(&session) as f64 <= at_s) {
                return Ok(None);
            }
        }
        Ok(Some((session, now_s >= made_s + TOUCH_S)))
    }

    /// What becomes the cookie of `session`: itself, or the id under which it is in Redis then.
    pub(super) async fn save(
        &self,
        client: Option<&RedisClient>,
        id: Option<String>,
        session: Session,
        now_s: u64,
    ) -> Result<Session, String> {
        let Some(client) = client else { return Ok(session) };
        let id = id.or_else(random_text).ok_or("no random bytes")?;
        let sealed = self.cookies.seal(&session, now_s).ok_or("no random bytes")?;
        let request =
            Request::command("SET").key(self.key(&id)).arg(sealed).arg("EX").number(self.lifetime_s);
        client.ask(&request).await.map_err(|fault| fault.to_string())?;
        let mut cookie = Session::new();
        cookie.insert("id".to_owned(), id.into());
        Ok(cookie)
    }

    /// What asks Redis, where sessions are there.
    pub(super) fn client(&self, exchange: &Exchange<'_>) -> Option<RedisClient> {
        self.redis.as_ref().map(|(redis, _)| redis.client(exchange))
    }

    /// Has the client keep a session, as [`Self::save`] made it; `false` where it is too long for cookies.
    pub(super) fn keep(&self, session: &Session, exchange: &mut Exchange<'_>, now_s: u64) -> bool {
        let secure = exchange.client.scheme() == "https";
        self.cookies.write(session, now_s, secure, &exchange.request, exchange.reply_headers)
    }

    /// Ends the session that a request shows.
    pub(super) fn end(&self, exchange: &mut Exchange<'_>, now_s: u64) {
        if let Shown::There(id, client) = self.shown(exchange, now_s) {
            client.ask_later(Request::command("DEL").key(self.key(&id)), "openid-connect: ending a session");
        }
        let secure = exchange.client.scheme() == "https";
        self.cookies.clear(secure, &exchange.request, exchange.reply_headers);
    }

    /// The logins under way of a request's client; `None` where it shows none.
    pub(super) fn logins(&self, exchange: &Exchange<'_>, now_s: u64) -> Option<Logins> {
        let (session, _) = self.logins.read(&exchange.request, now_s)?;
        serde_json::from_value(Value::Object(session)).ok()
    }

    /// Has the client keep its logins.
    pub(super) fn keep_logins(&self, mut logins: Logins, exchange: &mut Exchange<'_>, now_s: u64) -> bool {
        let secure = exchange.client.scheme() == "https";
        let surplus = logins.logins.len().saturating_sub(LOGINS_MAX);
        logins.logins.drain(..surplus);
        if logins.logins.is_empty() && logins.restarts == 0 {
            self.logins.clear(secure, &exchange.request, exchange.reply_headers);
            return true;
        }
        loop {
            let Ok(Value::Object(session)) = serde_json::to_value(&logins) else { return false };
            if self.logins.write(&session, now_s, secure, &exchange.request, exchange.reply_headers) {
                return true;
            }
            // Long URIs: the oldest make room.
            if logins.logins.len() < 2 {
                return false;
            }
            logins.logins.remove(0);
        }
    }

    /// Ends the sessions of which a logout token's claims speak.
    pub(super) async fn revoke(
        &self,
        client: Option<&RedisClient>,
        claims: &Session,
        now_s: u64,
    ) -> Result<(), String> {
        let keys = revocations(claims);
        if keys.is_empty() {
            return Err("the logout_token names neither a session nor a user".to_owned());
        }
        // A logout of one session doesn't end the user's others.
        let key = keys.into_iter().next().unwrap_or_default();
        if let Some(client) = client {
            let request =
                Request::command("SET").key(self.key(&key)).number(now_s).arg("EX").number(self.absolute_s);
            client.ask(&request).await.map_err(|fault| fault.to_string())?;
        }
        self.revoked.add(key, now_s, now_s.saturating_add(self.absolute_s))
    }

    /// `session`, unless it is over or was logged out.
    fn current(&self, session: Session, now_s: u64) -> Option<Session> {
        let since_s = since(&session);
        let is_over = now_s >= since_s.saturating_add(self.absolute_s)
            || (self.revoked.count.load(Ordering::Relaxed) > 0
                && of_session(&session).iter().any(|key| self.revoked.covers(key, since_s)));
        (!is_over).then_some(session)
    }

    fn key(&self, id: &str) -> String {
        let prefix = self.redis.as_ref().map_or("", |(_, prefix)| prefix);
        format!("{prefix}:{id}")
    }
}

/// When a session began.
fn since(session: &Session) -> u64 {
    session.get("since").and_then(Value::as_u64).unwrap_or_default()
}

/// The claims of a session's ID token, which was checked when the session began.
pub(super) fn id_claims(session: &Session) -> Option<Session> {
    let raw = session.get("enc_id_token")?.as_str()?;
    Token::parse(raw.as_bytes()).map(|token| token.payload)
}

/// What logs a session out.
fn of_session(session: &Session) -> Vec<String> {
    id_claims(session).map(|claims| revocations(&claims)).unwrap_or_default()
}

/// What logs out a session with these claims, or whom they log out: the session first, then the user.
fn revocations(claims: &Session) -> Vec<String> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let issuer = text("iss").unwrap_or_default();
    let named = ["sid", "sub"].iter().filter_map(|name| Some((*name, text(name)?)));
    named
        .map(|(name, value)| {
            let digest = digest::digest(&digest::SHA256, json!([issuer, name, value]).to_string().as_bytes());
            format!("revoked:{}", URL_SAFE_NO_PAD.encode(digest.as_ref()))
        })
        .collect()
}

impl Revoked {
    fn covers(&self, key: &str, since_s: u64) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).is_some_and(|(at_s, _)| since_s <= *at_s)
    }

    fn add(&self, key: String, at_s: u64, until_s: u64) -> Result<(), String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REVOKED_MAX {
            known.retain(|_, (_, until_s)| at_s < *until_s);
        }
        if known.len() >= REVOKED_MAX {
            return Err("too many logouts to remember".to_owned());
        }
        known.insert(key, (at_s, until_s));
        self.count.store(known.len(), Ordering::Relaxed);
        Ok(())
    }
}

impl Logins {
    /// Whether one may begin anew by itself once more, which is counted.
    pub(super) fn restart(&mut self) -> bool {
        self.restarts += 1;
        self.restarts <= RESTARTS_MAX
    }
}

fn redis(
    config: &SessionConfig,
    cx: &CompileContext<'_>,
) -> Result<Option<(Redis, String)>, Vec<ConfigError>> {
    let Some(storage) = config.redis() else { return Ok(None) };
    let policy = json!({
        "policy": "redis",
        "redis_host": storage.host,
        "redis_port": storage.port,
        "redis_username": storage.username,
        "redis_password": storage.password.as_str(),
        "redis_database": storage.database,
        "redis_timeout": storage.connect_timeout.max(storage.read_timeout),
        "redis_ssl": storage.ssl,
        "redis_ssl_verify": storage.ssl_verify,
        "redis_keepalive_timeout": storage.keepalive_timeout,
    });
    let policy: PolicyConfig = serde_json::from_value(policy)
        .map_err(|error| vec![ConfigError::new("/session/redis", error.to_string())])?;
    let under = |errors: Vec<ConfigError>| {
        errors.into_iter().map(|error| error.under("/session/redis")).collect::<Vec<_>>()
    };
    Ok(Redis::compile(&policy, cx).map_err(under)?.map(|redis| (redis, storage.prefix.clone())))
}
