//! Sends clients to a CAS server to log in, and lets in those that did.
//!
//! ## When to use
//! For pages whose users a server with the CAS protocol 2.0 knows. A client without a session is redirected to it and comes
//! back with a ticket, which the plugin has validated.
//!
//! ## Example
//! ```json
//! {
//!     "cas-auth": {
//!         "idp_uri": "http://127.0.0.1:8080/realms/test/protocol/cas",
//!         "cas_callback_uri": "/anything/cas_callback",
//!         "logout_uri": "/anything/logout",
//!         "cookie": {"secret": "a-secret-of-at-least-32-characters", "secure": false}
//!     }
//! }
//! ```
//! The callback and the logout URI have to be paths of this route. The CAS server posts its single logout to the callback.
//!
//! ## Differences from APISIX
//! - A session's cookie is a random number and not the ticket, which has been in a URL and in logs.
//! - A gateway keeps at most 100,000 sessions; the one that ends first makes room for a new one.
//! - An answer of the CAS server has to have status 200, `authenticationSuccess`, no `authenticationFailure` and a user.

use crate::auth::same_secret;
use crate::identity::{
    CookieAttributes, SameSite, ask, cleared, encode_args, is_local, random_text, set_cookie,
};
use crate::text::decode_arg;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use model::ConfigError;
use model::var::{Template, VarSource};
use plugin::{
    Call, CallError, CallTimeouts, CompileContext, Endpoint, EndpointOptions, Exchange, Fields, Flow,
    OnAccess, Plugin, PluginDef, Reply, WholeBody, log_for,
};
use ring::{digest, hmac};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stdx::{Clock, Secret};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<CasAuth>("cas-auth", 2597).on_access().encrypt_fields(&["cookie.secret"]).build()
}

/// The cookie with the URI that a client asked for before its login.
const REQUEST_URI: &str = "CAS_REQUEST_URI";

/// Seconds for which a session lasts without a request.
const SESSION_S: u64 = 3600;

/// Sessions of all configurations. Each takes some 300 bytes: 30 MB.
const SESSIONS_MAX: usize = 100_000;

/// How long each step of a validation may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    max_req_body_size: usize,
    idp_uri: String,
    cas_callback_uri: String,
    logout_uri: String,
    cookie: CookieConfig,
}

#[derive(Debug, Deserialize)]
struct CookieConfig {
    secret: Secret,
    #[serde(default = "yes")]
    secure: bool,
    #[serde(default = "lax")]
    samesite: SameSite,
}

fn yes() -> bool {
    true
}

fn lax() -> SameSite {
    SameSite::Lax
}

/// The compiled form.
pub struct CasAuth {
    max_req_body_size: usize,
    idp_uri: String,
    logout_uri: String,
    callback_path: String,
    /// The callback's URL.
    service: Template,
    validation: Endpoint,
    site: Arc<Site>,
    clock: Arc<Clock>,
}

/// The cookies and sessions of one configuration.
struct Site {
    key: hmac::Key,
    cookie: String,
    /// What tells the tickets of this configuration from others'.
    fingerprint: String,
    attributes: CookieAttributes,
    store: Arc<Store>,
}

/// The sessions of all configurations.
#[derive(Default)]
struct Store(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    sessions: HashMap<String, Entry>,
    /// The session that a ticket became, by fingerprint and ticket.
    tickets: HashMap<(String, String), String>,
}

struct Entry {
    ticket: (String, String),
    until_s: u64,
}

impl Plugin for CasAuth {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let Config { cookie, idp_uri, cas_callback_uri, .. } = config;
        if cookie.samesite == SameSite::None && !cookie.secure {
            let message = "cookie.secure must be true when cookie.samesite is \"None\"";
            return Err(vec![ConfigError::new("", message)]);
        }
        let url = format!("{idp_uri}/serviceValidate");
        let validation = cx.endpoint(&url, EndpointOptions::default());
        let validation = validation
            .map_err(|errors| errors.into_iter().map(|error| error.under("/idp_uri")).collect::<Vec<_>>())?;
        let absolute =
            ["http://", "https://"].iter().find_map(|scheme| cas_callback_uri.strip_prefix(scheme));
        let callback_path = match absolute {
            None => cas_callback_uri.clone(),
            Some(rest) => {
                let path = rest.find('/').map_or("/", |at| &rest[at..]);
                path.split(['?', '#']).next().unwrap_or("/").to_owned()
            }
        };
        // A dollar sign is no variable in a URL.
        let literal = |text: &str| text.replace('$', "%24");
        let service = match absolute {
            Some(_) => literal(&cas_callback_uri),
            None => format!("$scheme://$host:$server_port{}", literal(&cas_callback_uri)),
        };
        let mut fingerprint = String::new();
        for byte in
            digest::digest(&digest::SHA256, format!("{idp_uri}|{cas_callback_uri}").as_bytes()).as_ref()
        {
            let _ = write!(fingerprint, "{byte:02x}");
        }
        let site = Site {
            key: hmac::Key::new(hmac::HMAC_SHA256, cookie.secret.as_bytes()),
            cookie: format!("CAS_SESSION_{fingerprint}"),
            fingerprint,
            attributes: CookieAttributes {
                secure: cookie.secure,
                same_site: cookie.samesite,
                ..CookieAttributes::default()
            },
            store: cx.shared.get(),
        };
        Ok(Self {
            max_req_body_size: config.max_req_body_size,
            idp_uri,
            logout_uri: config.logout_uri,
            callback_path,
            service: Template::parse(&service),
            validation,
            site: Arc::new(site),
            clock: cx.shared.get(),
        })
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "max_req_body_size": {
                    "description": "Bytes of a single logout's body; a longer one gets 413.",
                    "type": "integer", "minimum": 1, "default": 67_108_864
                },
                "idp_uri": {"description": "The CAS server's address.", "type": "string"},
                "cas_callback_uri": {
                    "description": "Where clients come back: a path, to which scheme, host and port of the request are \
                                    added, or a URL.",
                    "type": "string"
                },
                "logout_uri": {"description": "The path that ends a session.", "type": "string"},
                "cookie": {
                    "type": "object",
                    "properties": {
                        "secret": {
                            "description": "What signs the URI that a client asked for.",
                            "type": "string", "minLength": 32
                        },
                        "secure": {
                            "description": "Whether cookies are for HTTPS alone.", "type": "boolean", "default": true
                        },
                        "samesite": {
                            "description": "The cookies' attribute `SameSite`.",
                            "type": "string", "enum": ["Lax", "None"], "default": "Lax"
                        }
                    },
                    "required": ["secret"]
                }
            },
            "encrypt_fields": ["cookie.secret"],
            "required": ["idp_uri", "cas_callback_uri", "logout_uri", "cookie"]
        })
    }
}

impl OnAccess for CasAuth {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let method = exchange.request.method();
        let is_callback = *exchange.request.path == *self.callback_path.as_bytes();
        if method == b"GET" && *exchange.request.path == *self.logout_uri.as_bytes() {
            return self.logout(exchange);
        }
        if method == b"POST" && is_callback {
            return self.single_logout(exchange);
        }
        let now_s = self.clock.unix_ms(exchange.timing.started) / 1000;
        if let Some(session) = self.site.session(exchange) {
            if self.site.store.touch(&session, &self.site.fingerprint, now_s) {
                return Flow::Next;
            }
            exchange.reply_headers.append("Set-Cookie", cleared(&self.site.cookie, &self.site.attributes));
            return self.login(exchange);
        }
        let ticket = exchange.request.arg(b"ticket").filter(|_| is_callback);
        let ticket = ticket.and_then(|ticket| String::from_utf8(decode_arg(ticket).into_owned()).ok());
        match ticket {
            Some(ticket) => self.validate(ticket, exchange, now_s),
            None => self.login(exchange),
        }
    }
}

impl CasAuth {
    fn service(&self, exchange: &Exchange<'_>) -> Vec<u8> {
        let mut url = Vec::new();
        self.service.render(exchange as &dyn VarSource, &mut url);
        url
    }

    fn login(&self, exchange: &mut Exchange<'_>) -> Flow {
        let signed = self.site.sign(exchange.request.target());
        exchange
            .reply_headers
            .append("Set-Cookie", set_cookie(REQUEST_URI, &signed, &self.site.attributes, None));
        let url = format!("{}/login?{}", self.idp_uri, encode_args(&[("service", self.service(exchange))]));
        Flow::reply(Reply::status(302).with_header("Location", url))
    }

    fn logout(&self, exchange: &mut Exchange<'_>) -> Flow {
        let Some(session) = self.site.session(exchange) else { return Flow::status(401) };
        self.site.store.end(&session);
        exchange.reply_headers.append("Set-Cookie", cleared(&self.site.cookie, &self.site.attributes));
        Flow::reply(Reply::status(302).with_header("Location", format!("{}/logout", self.idp_uri)))
    }

    /// Ends the session of a ticket for which the CAS server says that its user has logged out.
    fn single_logout(&self, exchange: &Exchange<'_>) -> Flow {
        let body = match exchange.request.whole_body(self.max_req_body_size) {
            WholeBody::Unread => return Flow::Body(self.max_req_body_size),
            WholeBody::TooLong => return Flow::status(413),
            WholeBody::Whole(body) => String::from_utf8_lossy(body),
        };
        match between(&body, "<samlp:SessionIndex>", "</samlp:SessionIndex>") {
            None | Some("") => Flow::reply(Reply::message(400, "invalid logout request from IdP, no ticket")),
            Some(ticket) => {
                self.site.store.end_ticket(&(self.site.fingerprint.clone(), ticket.to_owned()));
                Flow::reply(Reply::text(200, ""))
            }
        }
    }

    /// Has the ticket with which a client comes back validated.
    fn validate(&self, ticket: String, exchange: &mut Exchange<'_>, now_s: u64) -> Flow {
        let cookie = exchange.request.cookie(REQUEST_URI.as_bytes());
        let Some(asked) = cookie.and_then(|cookie| self.site.verified(cookie)).filter(|uri| is_local(uri))
        else {
            log_for!(warn, exchange, "cas-auth: callback rejected, missing or invalid initiation cookie");
            return Flow::reply(Reply::message(401, "invalid callback state"));
        };
        let service = self.service(exchange);
        let query = encode_args(&[("ticket", ticket.as_bytes()), ("service", &service)]);
        let target = format!("{}?{query}", self.validation.target);
        let call = Call::new("GET", self.validation.authority.as_str(), target, CallTimeouts::all(TIMEOUT));
        let Ok(call) = call else { return Flow::reply(Reply::message(401, "invalid ticket")) };
        let (services, endpoint) = (Rc::clone(exchange.services), self.validation.clone());
        let site = Arc::clone(&self.site);
        Flow::wait(async move { ask(&services, &endpoint, call).await }, move |answer, exchange| {
            let session = user(answer).and_then(|_| {
                let session = random_text().ok_or("no random bytes")?;
                let is_new = site.store.add(&session, (site.fingerprint.clone(), ticket), now_s);
                if is_new { Ok(session) } else { Err("the ticket was validated before") }
            });
            match session {
                Ok(session) => {
                    let fields = &mut *exchange.reply_headers;
                    fields.append("Set-Cookie", set_cookie(&site.cookie, &session, &site.attributes, None));
                    fields.append("Set-Cookie", cleared(REQUEST_URI, &site.attributes));
                    Flow::reply(Reply::status(302).with_header("Location", asked))
                }
                Err(why) => {
                    log_for!(error, exchange, "cas-auth: validate ticket failed: {why}");
                    Flow::reply(Reply::message(401, "invalid ticket"))
                }
            }
        })
    }
}

/// The user of whom a validation's answer speaks.
fn user(answer: Result<(u16, Fields, Vec<u8>), CallError>) -> Result<String, &'static str> {
    let (status, _, body) = answer.map_err(|error| error.reason)?;
    let body = String::from_utf8(body).map_err(|_| "the answer is not text")?;
    if status != 200
        || !body.contains("<cas:authenticationSuccess>")
        || body.contains("<cas:authenticationFailure")
    {
        return Err("serviceValidate did not return authenticationSuccess");
    }
    match between(&body, "<cas:user>", "</cas:user>").map(str::trim) {
        None | Some("") => Err("the answer names no user"),
        Some(user) => Ok(user.to_owned()),
    }
}

/// The text between the first `start` and the next `end`.
fn between<'t>(text: &'t str, start: &str, end: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(start)?;
    rest.split_once(end).map(|(inner, _)| inner)
}

impl Site {
    fn session(&self, exchange: &Exchange<'_>) -> Option<String> {
        let cookie = exchange.request.cookie(self.cookie.as_bytes())?;
        Some(String::from_utf8_lossy(cookie).into_owned())
    }

    /// `value` and its signature.
    fn sign(&self, value: &[u8]) -> String {
        let signature = hmac::sign(&self.key, value);
        format!("{}.{}", STANDARD_NO_PAD.encode(value), STANDARD_NO_PAD.encode(signature.as_ref()))
    }

    /// The value in a text that [`Self::sign`] made.
    fn verified(&self, signed: &[u8]) -> Option<String> {
        let (value, signature) = std::str::from_utf8(signed).ok()?.split_once('.')?;
        let value = STANDARD_NO_PAD.decode(value).ok()?;
        let signature = STANDARD_NO_PAD.decode(signature).ok()?;
        let is_own = same_secret(hmac::sign(&self.key, &value).as_ref(), &signature);
        String::from_utf8(value).ok().filter(|_| is_own)
    }
}

impl Store {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session; `false` where its ticket has one already.
    fn add(&self, session: &str, ticket: (String, String), now_s: u64) -> bool {
        let mut kept = self.lock();
        if kept.tickets.contains_key(&ticket) {
            return false;
        }
        if kept.sessions.len() >= SESSIONS_MAX {
            kept.make_room(now_s);
        }
        kept.tickets.insert(ticket.clone(), session.to_owned());
        kept.sessions.insert(session.to_owned(), Entry { ticket, until_s: now_s + SESSION_S });
        true
    }

    /// Whether there is such a session of this configuration, which then lasts on.
    fn touch(&self, session: &str, fingerprint: &str, now_s: u64) -> bool {
        let mut kept = self.lock();
        match kept.sessions.get_mut(session) {
            Some(entry) if entry.ticket.0 == fingerprint && now_s < entry.until_s => {
                entry.until_s = now_s + SESSION_S;
                true
            }
            _ => false,
        }
    }

    fn end(&self, session: &str) {
        self.lock().remove(session);
    }

    fn end_ticket(&self, ticket: &(String, String)) {
        let mut kept = self.lock();
        if let Some(session) = kept.tickets.get(ticket).cloned() {
            kept.remove(&session);
        }
    }
}

impl Kept {
    fn remove(&mut self, session: &str) {
        if let Some(entry) = self.sessions.remove(session) {
            self.tickets.remove(&entry.ticket);
        }
    }

    /// Removes the sessions that are over, or else the one that ends first.
    fn make_room(&mut self, now_s: u64) {
        self.sessions.retain(|_, entry| now_s < entry.until_s);
        let sessions = &self.sessions;
        self.tickets.retain(|_, session| sessions.contains_key(session));
        if self.sessions.len() >= SESSIONS_MAX {
            let first = self.sessions.iter().min_by_key(|(_, entry)| entry.until_s);
            if let Some(session) = first.map(|(session, _)| session.clone()) {
                self.remove(&session);
            }
        }
    }
}

#[cfg(test)]
mod tests;
