//! Sends clients to Casdoor to log in, and lets in those that did.
//!
//! ## When to use
//! For pages whose users Casdoor knows: a client without a session is redirected to Casdoor's login page and comes back
//! with a code, which the plugin exchanges for an access token (OAuth 2.0, RFC 6749 section 4.1).
//!
//! ## Example
//! ```json
//! {
//!     "authz-casdoor": {
//!         "endpoint_addr": "http://localhost:8000",
//!         "callback_url": "http://localhost:9080/callback",
//!         "client_id": "7ceb9b7fda4a9061ec1c",
//!         "client_secret": "3416238e1edf915eac08b8fe345b2b95cdba7e04"
//!     }
//! }
//! ```
//! `callback_url` has to be a path of this route.
//!
//! ## Differences from APISIX
//! - A session is in an encrypted cookie whose key is derived from `client_secret`: it is good on all gateways of a fleet.
//! - After the login a client comes back to the URI that it asked for with its query; in APISIX without it.
//! - A `state` has 256 random bits and is good for five minutes.

use crate::identity::{
    CookieAttributes, Servers, Session, Sessions, ask_json, encode_args, is_local, post_form, random_text,
};
use crate::text::decode_arg;
use model::ConfigError;
use plugin::{
    CallError, CallTimeouts, CompileContext, EndpointOptions, Exchange, Flow, OnAccess, Plugin, PluginDef,
    Reply, log_for,
};
use ring::digest;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::{Clock, Secret};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<AuthzCasdoor>("authz-casdoor", 2559)
        .on_access()
        .encrypt_fields(&["client_secret"])
        .build()
}

/// How long each step of a call to Casdoor may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Seconds that a login may take.
const LOGIN_S: u64 = 300;

/// Seconds after which a client logs in again in any case.
const SESSION_S: u64 = 86_400;

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    endpoint_addr: String,
    client_id: String,
    client_secret: Secret,
    callback_url: String,
}

/// The compiled form.
pub struct AuthzCasdoor {
    config: Config,
    callback_path: String,
    servers: Servers,
    /// Of clients that are on their way to log in.
    logins: Sessions,
    sessions: Arc<Sessions>,
    clock: Arc<Clock>,
}

impl Plugin for AuthzCasdoor {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let path =
            config.callback_url.split_once("//").and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..]));
        let callback_path =
            path.ok_or_else(|| vec![ConfigError::new("/callback_url", "the URL has no path")])?.to_owned();
        let servers = Servers::new(cx.upstreams(), EndpointOptions::default());
        let at = |errors: Vec<ConfigError>| {
            errors.into_iter().map(|error| error.under("/endpoint_addr")).collect::<Vec<_>>()
        };
        servers.find(&token_url(&config.endpoint_addr)).map_err(at)?;
        let mut name = "authz_casdoor_session_".to_owned();
        for byte in digest::digest(&digest::SHA256, config.client_id.as_bytes()).as_ref() {
            let _ = write!(name, "{byte:02x}");
        }
        let secret = config.client_secret.as_str();
        let sessions =
            |name: String, lifetime_s| Sessions::new(name, [secret], lifetime_s, CookieAttributes::default());
        Ok(Self {
            callback_path,
            servers,
            logins: sessions(format!("{name}_login"), LOGIN_S),
            sessions: Arc::new(sessions(name, SESSION_S)),
            clock: cx.shared.get(),
            config,
        })
    }

    fn schema() -> Value {
        let url = |what: &str| json!({"description": what, "type": "string", "pattern": "^[^%?]+[^/]$"});
        let text = |what: &str| json!({"description": what, "type": "string"});
        json!({
            "type": "object",
            "properties": {
                "endpoint_addr": url("The address of Casdoor, without a slash at its end."),
                "client_id": text("The application's client id in Casdoor."),
                "client_secret": text("The application's client secret."),
                "callback_url": url("The URL to which Casdoor sends clients back.")
            },
            "encrypt_fields": ["client_secret"],
            "required": ["callback_url", "endpoint_addr", "client_id", "client_secret"]
        })
    }
}

fn token_url(endpoint_addr: &str) -> String {
    format!("{endpoint_addr}/api/login/oauth/access_token")
}

impl OnAccess for AuthzCasdoor {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let now_s = self.clock.unix_ms(exchange.timing.started) / 1000;
        if *exchange.request.path == *self.callback_path.as_bytes() {
            return self.callback(exchange, now_s);
        }
        let session = self.sessions.read(&exchange.request, now_s);
        let is_valid = session.is_some_and(|(session, _)| {
            session.get("client_id").and_then(Value::as_str) == Some(&self.config.client_id)
                && session.get("expires_at").and_then(Value::as_u64).is_some_and(|at| at > now_s)
        });
        if is_valid { Flow::Next } else { self.login(exchange, now_s) }
    }
}

impl AuthzCasdoor {
    /// Sends the client to Casdoor's login page.
    fn login(&self, exchange: &mut Exchange<'_>, now_s: u64) -> Flow {
        let Some(state) = random_text() else { return Flow::status(503) };
        let target = String::from_utf8_lossy(exchange.request.target()).into_owned();
        let mut login = Session::new();
        login.insert("state".to_owned(), state.as_str().into());
        login.insert(
            "original_uri".to_owned(),
            if is_local(&target) { target } else { "/".to_owned() }.into(),
        );
        let secure = exchange.client.scheme() == "https";
        if !self.logins.write(&login, now_s, secure, &exchange.request, exchange.reply_headers) {
            log_for!(error, exchange, "authz-casdoor: the request's URI is too long for a session");
            return Flow::status(503);
        }
        let query = encode_args(&[
            ("response_type", "code"),
            ("scope", "read"),
            ("state", &state),
            ("client_id", &self.config.client_id),
            ("redirect_uri", &self.config.callback_url),
        ]);
        let url = format!("{}/login/oauth/authorize?{query}", self.config.endpoint_addr);
        Flow::reply(Reply::status(302).with_header("Location", url))
    }

    /// Exchanges the code with which a client comes back.
    fn callback(&self, exchange: &mut Exchange<'_>, now_s: u64) -> Flow {
        let Some((login, _)) = self.logins.read(&exchange.request, now_s) else {
            log_for!(error, exchange, "authz-casdoor: no session found");
            return Flow::status(503);
        };
        let argument = |name: &[u8]| {
            let value = exchange.request.arg(name).filter(|value| !value.is_empty())?;
            String::from_utf8(decode_arg(value).into_owned()).ok()
        };
        let refuse = |why: &'static str| Flow::reply(Reply::text(400, why));
        let (Some(code), Some(state)) = (argument(b"code"), argument(b"state")) else {
            return refuse("failed when accessing token. Invalid code or state");
        };
        let expected = login.get("state").and_then(Value::as_str).unwrap_or_default();
        if !crate::auth::same_secret(state.as_bytes(), expected.as_bytes()) {
            log_for!(error, exchange, "authz-casdoor: invalid state");
            return refuse("invalid state");
        }
        let original = login.get("original_uri").and_then(Value::as_str).unwrap_or("/").to_owned();
        let Config { endpoint_addr, client_id, client_secret, .. } = &self.config;
        let endpoint = self.servers.find(&token_url(endpoint_addr));
        let call = endpoint.ok().and_then(|endpoint| {
            let pairs = [
                ("code", code.as_str()),
                ("grant_type", "authorization_code"),
                ("client_id", client_id),
                ("client_secret", client_secret.as_str()),
            ];
            let call = post_form(&endpoint, &pairs, CallTimeouts::all(TIMEOUT)).ok()?;
            Some((endpoint, call))
        });
        let Some((endpoint, call)) = call else { return Flow::status(503) };
        // Whatever comes of it, this state has been used.
        let secure = exchange.client.scheme() == "https";
        self.logins.clear(secure, &exchange.request, exchange.reply_headers);
        let services = Rc::clone(exchange.services);
        let (sessions, client_id) = (Arc::clone(&self.sessions), client_id.clone());
        Flow::wait(async move { ask_json(&services, &endpoint, call).await }, move |answer, exchange| {
            let lifetime_s = match lifetime(answer) {
                Ok(lifetime_s) => lifetime_s,
                Err(why) => {
                    log_for!(error, exchange, "authz-casdoor: failed when accessing token: {why}");
                    return Flow::status(503);
                }
            };
            let mut session = Session::new();
            session.insert("client_id".to_owned(), client_id.into());
            session.insert("expires_at".to_owned(), now_s.saturating_add(lifetime_s).into());
            let secure = exchange.client.scheme() == "https";
            if !sessions.write(&session, now_s, secure, &exchange.request, exchange.reply_headers) {
                return Flow::status(503);
            }
            Flow::reply(Reply::status(302).with_header("Location", original))
        })
    }
}

/// The seconds for which the access token in an answer is valid. Casdoor says 0 of one that is not.
fn lifetime(answer: Result<(u16, Option<Value>), CallError>) -> Result<u64, String> {
    let (status, body) = answer.map_err(|error| error.to_string())?;
    let body = body.ok_or_else(|| format!("the answer (status {status}) is not JSON"))?;
    if body.get("access_token").and_then(Value::as_str).is_none_or(str::is_empty) {
        return Err("no access_token contained".to_owned());
    }
    let expires_in = body.get("expires_in").and_then(|value| match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_f64(),
    });
    // A session ends after a day in any case, so nothing is lost above.
    expires_in.filter(|s| *s >= 1.0).map(|s| s as u64).ok_or_else(|| "invalid access_token".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench};
    use plugin::{Chain, Registry};

    fn chain() -> Chain {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        let config = json!({
            "endpoint_addr": "http://casdoor.test:8000", "client_id": "id", "client_secret": "hidden",
            "callback_url": "http://a.test/callback"
        });
        testkit::chain(&registry, &json!({ "authz-casdoor": config })).expect("valid")
    }

    /// What the client keeps of a response's `Set-Cookie` fields, and `Location`.
    fn run(chain: &Chain, bench: &Bench) -> (u16, Vec<String>, String) {
        let mut exchange = bench.exchange();
        let reply = testkit::request(chain, &mut exchange);
        let lines = testkit::lines(exchange.reply_headers);
        let cookies = lines.lines().filter(|line| !line.contains("Max-Age=0"));
        let cookies = cookies.filter_map(|line| line.strip_prefix("Set-Cookie: ")?.split(';').next());
        let location = reply.as_ref().and_then(|reply| reply.header(b"location"));
        let location = String::from_utf8_lossy(location.unwrap_or_default()).into_owned();
        (reply.map_or(0, |reply| reply.status), cookies.map(str::to_owned).collect(), location)
    }

    #[test]
    fn a_client_logs_in_and_comes_back_once() {
        let chain = chain();
        let (status, login, location) = run(&chain, &Bench::new("GET /a?b=c"));
        assert_eq!((status, login.len()), (302, 1));
        let state = location.split("state=").nth(1).and_then(|rest| rest.split('&').next()).expect("a state");
        let start = "http://casdoor.test:8000/login/oauth/authorize?response_type=code&scope=read&state=";
        assert!(location.starts_with(start), "{location}");
        let back = format!("GET /callback?code=c%26d&state={state}\nCookie: {}", login[0]);
        let bench = Bench::new(&back);
        bench.services.answer(200, &[], r#"{"access_token": "t", "expires_in": 60}"#);
        let (status, session, location) = run(&chain, &bench);
        assert_eq!((status, location.as_str(), session.len()), (302, "/a?b=c", 1));
        let call = bench.services.calls().remove(0);
        assert_eq!(call.target, "/api/login/oauth/access_token");
        let form = String::from_utf8(call.body).expect("text");
        assert_eq!(form, "code=c%26d&grant_type=authorization_code&client_id=id&client_secret=hidden");
        assert_eq!(run(&chain, &Bench::new(&format!("GET /a\nCookie: {}", session[0]))).0, 0);
        // The session of the login is no session.
        assert_eq!(run(&chain, &Bench::new(&format!("GET /a\nCookie: {}", login[0]))).0, 302);
    }

    #[test]
    fn codes_without_their_state_and_answers_without_a_token_are_refused() {
        let chain = chain();
        let (_, login, location) = run(&chain, &Bench::new("GET //evil.test/%2e%2e"));
        let state = location.split("state=").nth(1).and_then(|rest| rest.split('&').next()).expect("a state");
        for (target, cookie, status) in [
            (format!("/callback?code=c&state={state}"), "", 503),
            ("/callback?code=c&state=x".to_owned(), login[0].as_str(), 400),
            ("/callback?code=c".to_owned(), login[0].as_str(), 400),
            (format!("/callback?code=&state={state}"), login[0].as_str(), 400),
        ] {
            let bench = Bench::new(&format!("GET {target}\nCookie: {cookie}"));
            assert_eq!(run(&chain, &bench).0, status, "{target}");
            assert!(bench.services.calls().is_empty());
        }
        for answer in [
            "",
            "{}",
            "[]",
            r#"{"access_token": "t"}"#,
            r#"{"access_token": "t", "expires_in": 0}"#,
            r#"{"access_token": "", "expires_in": 9}"#,
            r#"{"access_token": 1, "expires_in": 9}"#,
        ] {
            let bench = Bench::new(&format!("GET /callback?code=c&state={state}\nCookie: {}", login[0]));
            bench.services.answer(200, &[], answer);
            assert_eq!(run(&chain, &bench).0, 503, "{answer}");
        }
        let bench = Bench::new(&format!("GET /callback?code=c&state={state}\nCookie: {}", login[0]));
        bench.services.answer(200, &[], r#"{"access_token": "t", "expires_in": "60"}"#);
        assert_eq!(run(&chain, &bench).2, "/", "never to another site");
    }
}
