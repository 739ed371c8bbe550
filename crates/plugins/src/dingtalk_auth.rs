//! Lets in users of DingTalk by the code that its apps and login page give.
//!
//! ## When to use
//! For pages and apps of an organisation whose members are in DingTalk. The plugin asks DingTalk who the code belongs to,
//! and keeps the answer in a session.
//!
//! ## Example
//! ```json
//! {
//!     "dingtalk-auth": {
//!         "app_key": "dingrtwcyzk1vcyr",
//!         "app_secret": "the-secret-of-the-app",
//!         "secret": "a-secret-for-sessions",
//!         "redirect_uri": "https://login.dingtalk.com/oauth2/auth?client_id=dingrtwcyzk1vcyr"
//!     }
//! }
//! ```
//! A request without a session shows the code in `X-DingTalk-Code` or in the argument `code`; one that shows none is sent to
//! `redirect_uri`.
//!
//! ## Differences from APISIX
//! - Cookies of APISIX's sessions are not taken: users log in again after a move.
//! - A code counts only if DingTalk's answer has an `errcode` of 0 and an object `result`.

use crate::identity::{Cached, Step, WorkLogin, WorkLoginConfig, ask_json, encode_args, post_json};
use model::ConfigError;
use plugin::{
    CallTimeouts, CompileContext, Endpoint, EndpointOptions, Exchange, Flow, OnRewrite, Plugin, PluginDef,
    Reply, Services, log_for,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::Secret;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<DingtalkAuth>("dingtalk-auth", 2430)
        .on_rewrite()
        .encrypt_fields(&["app_secret", "secret", "secret_fallbacks"])
        .build()
}

/// Seconds for which the app's token is used. DingTalk's are valid for 7200.
const TOKEN_S: u64 = 7000;

/// The `errcode`s of a token that is not valid any more.
const TOKEN_INVALID: [i64; 3] = [40001, 40014, 42001];

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    app_key: String,
    app_secret: Secret,
    userinfo_url: String,
    access_token_url: String,
    timeout: u64,
    ssl_verify: bool,
    #[serde(flatten)]
    login: WorkLoginConfig,
}

/// The compiled form.
pub struct DingtalkAuth {
    login: Arc<WorkLogin>,
    platform: Arc<Platform>,
}

/// DingTalk.
struct Platform {
    token_endpoint: Endpoint,
    user_endpoint: Endpoint,
    app: Value,
    timeouts: CallTimeouts,
    token: Cached<Secret>,
}

/// Why nobody knows who it is.
#[derive(Debug)]
enum Failure {
    /// DingTalk gave no token for the app.
    Token(String),
    /// DingTalk doesn't know the code.
    Code(String),
    /// DingTalk gave no answer.
    User(String),
}

impl Plugin for DingtalkAuth {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let endpoint = |url: &str, path: &str| {
            let options = EndpointOptions { ssl_verify: config.ssl_verify, ..EndpointOptions::default() };
            let under =
                |errors: Vec<ConfigError>| errors.into_iter().map(|error| error.under(path)).collect();
            cx.endpoint(url, options).map_err(|errors| -> Vec<ConfigError> { under(errors) })
        };
        let platform = Platform {
            token_endpoint: endpoint(&config.access_token_url, "/access_token_url")?,
            user_endpoint: endpoint(&config.userinfo_url, "/userinfo_url")?,
            app: json!({"appKey": config.app_key, "appSecret": config.app_secret.as_str()}),
            timeouts: CallTimeouts::all(Duration::from_millis(config.timeout)),
            token: Cached::default(),
        };
        let login = WorkLogin::new(config.login, "dingtalk_session", cx.shared.get());
        Ok(Self { login: Arc::new(login), platform: Arc::new(platform) })
    }

    fn schema() -> Value {
        let text = |what: &str| json!({"description": what, "type": "string", "minLength": 1});
        let url = |what: &str, default: &str| json!({"description": what, "type": "string", "minLength": 1, "default": default});
        let mut schema = json!({
            "type": "object",
            "properties": {
                "app_key": text("The app's key."),
                "app_secret": text("The app's secret."),
                "userinfo_url": url(
                    "Where DingTalk tells whose a code is.",
                    "https://oapi.dingtalk.com/topapi/v2/user/getuserinfo"
                ),
                "access_token_url": url(
                    "Where DingTalk gives the app's token.",
                    "https://api.dingtalk.com/v1.0/oauth2/accessToken"
                )
            },
            "encrypt_fields": ["app_secret", "secret", "secret_fallbacks"],
            "required": ["app_key", "app_secret", "secret", "redirect_uri"]
        });
        WorkLogin::extend_schema(&mut schema, "X-DingTalk-Code");
        schema
    }
}

impl OnRewrite for DingtalkAuth {
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        let code = match self.login.begin(exchange) {
            Step::Done(flow) => return flow,
            Step::Code(code) => code,
        };
        let (services, now_s) = (Rc::clone(exchange.services), self.login.now_s(exchange));
        let (platform, login) = (Arc::clone(&self.platform), Arc::clone(&self.login));
        Flow::wait(async move { platform.user(&services, &code, now_s).await }, move |user, exchange| {
            let (status, message, why) = match user {
                Ok(user) => return login.admit(user, exchange),
                Err(Failure::Token(why)) => (500, "Failed to obtain access token", why),
                Err(Failure::Code(why)) => (401, "Invalid authorization code", why),
                Err(Failure::User(why)) => (503, "Failed to obtain user info from DingTalk", why),
            };
            log_for!(warn, exchange, "dingtalk-auth: {message}: {why}");
            Flow::reply(Reply::message(status, message))
        })
    }
}

impl Platform {
    /// What DingTalk says of the user with this code.
    async fn user(&self, services: &Rc<dyn Services>, code: &str, now_s: u64) -> Result<Value, Failure> {
        let token = self.token(services, now_s).await.map_err(Failure::Token)?;
        let endpoint = &self.user_endpoint;
        let separator = if endpoint.target.contains('?') { '&' } else { '?' };
        let query = encode_args(&[("access_token", token.as_str())]);
        let target = format!("{}{separator}{query}", endpoint.target);
        let call = post_json(endpoint, &target, &json!({ "code": code }), self.timeouts);
        let call = call.map_err(|error| Failure::User(error.to_string()))?;
        let (status, body) =
            ask_json(services, endpoint, call).await.map_err(|error| Failure::User(error.to_string()))?;
        let mut body = match body {
            Some(Value::Object(body)) if status == 200 => body,
            _ => return Err(Failure::User(format!("not an answer of DingTalk, status {status}"))),
        };
        match body.get("errcode").and_then(Value::as_i64) {
            Some(0) => {}
            Some(code) => {
                if TOKEN_INVALID.contains(&code) {
                    self.token.clear();
                }
                return Err(Failure::Code(format!("error code {code}")));
            }
            None => return Err(Failure::User("the answer has no errcode".to_owned())),
        }
        let user = body.remove("result").filter(Value::is_object);
        user.ok_or_else(|| Failure::User("the answer has no result".to_owned()))
    }

    /// The app's token.
    async fn token(&self, services: &Rc<dyn Services>, now_s: u64) -> Result<Arc<Secret>, String> {
        if let Some(token) = self.token.find(now_s) {
            return Ok(token);
        }
        let endpoint = &self.token_endpoint;
        let call = post_json(endpoint, &endpoint.target, &self.app, self.timeouts);
        let call = call.map_err(|error| error.to_string())?;
        let (status, body) = ask_json(services, endpoint, call).await.map_err(|error| error.to_string())?;
        let token = body.as_ref().and_then(|body| body.get("accessToken")?.as_str());
        match token.filter(|token| status == 200 && !token.is_empty()) {
            Some(token) => Ok(self.token.keep(Secret::from(token), now_s + TOKEN_S)),
            None => Err(format!("no accessToken in the answer, status {status}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench};
    use plugin::{Chain, ExternalUser, Registry};

    const TOKEN: &str = r#"{"accessToken": "t&1"}"#;

    fn chain() -> Chain {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        let config = json!({
            "app_key": "k", "app_secret": "hidden", "secret": "12345678", "redirect_uri": "https://login.test/",
            "userinfo_url": "http://ding.test/user", "access_token_url": "http://ding.test/token"
        });
        testkit::chain(&registry, &json!({ "dingtalk-auth": config })).expect("valid")
    }

    #[test]
    fn a_code_becomes_a_session_that_needs_no_code() {
        let chain = chain();
        let bench = Bench::new("GET /?code=c%26\nX-Userinfo: forged");
        bench.services.answer(200, &[], TOKEN);
        bench.services.answer(200, &[], r#"{"errcode": 0, "result": {"userid": "u"}}"#);
        let mut exchange = bench.exchange();
        assert_eq!(testkit::access(&chain, &mut exchange), 0);
        assert_eq!(exchange.request.header(b"x-userinfo"), Some(&b"eyJ1c2VyaWQiOiJ1In0="[..]));
        assert_eq!(exchange.extension(), Some(&ExternalUser(json!({"userid": "u"}))));
        let calls = bench.services.calls();
        assert_eq!(calls[0].body, br#"{"appKey":"k","appSecret":"hidden"}"#);
        assert_eq!(
            (calls[1].target.as_str(), &*calls[1].body),
            ("/user?access_token=t%261", &br#"{"code":"c&"}"#[..])
        );
        let lines = testkit::lines(exchange.reply_headers);
        let cookie =
            lines.strip_prefix("Set-Cookie: ").and_then(|line| line.split(';').next()).expect("a cookie");
        assert!(
            cookie.starts_with("dingtalk_session=") && lines.contains("Max-Age=86400; HttpOnly"),
            "{lines}"
        );
        let again = Bench::new(&format!("GET /\nCookie: {cookie}"));
        let mut exchange = again.exchange();
        assert_eq!(testkit::access(&chain, &mut exchange), 0);
        assert_eq!(exchange.request.header(b"x-userinfo"), Some(&b"eyJ1c2VyaWQiOiJ1In0="[..]));
        assert!(again.services.calls().is_empty());
        // The token is kept.
        let other = Bench::new("GET /\nX-DingTalk-Code: d");
        other.services.answer(200, &[], r#"{"errcode": 0, "result": {"userid": "v"}}"#);
        assert_eq!(testkit::access(&chain, &mut other.exchange()), 0);
    }

    #[test]
    fn who_shows_nothing_is_redirected_and_lies_of_the_platform_let_nobody_in() {
        let reply = testkit::request(&chain(), &mut Bench::new("GET /\nX-Userinfo: forged").exchange());
        let reply = reply.expect("an answer");
        assert_eq!((reply.status, reply.header(b"location")), (302, Some(&b"https://login.test/"[..])));
        for (token, user, status) in [
            ((200, TOKEN), (200, r#"{"errcode": 40078, "errmsg": "no"}"#), 401),
            ((200, TOKEN), (200, r#"{"errcode": 0}"#), 503),
            ((200, TOKEN), (200, r#"{"errcode": 0, "result": null}"#), 503),
            ((200, TOKEN), (200, r#"{"errcode": "0", "result": {}}"#), 503),
            ((200, TOKEN), (200, r#"{"result": {}}"#), 503),
            ((200, TOKEN), (500, r#"{"errcode": 0, "result": {}}"#), 503),
            ((200, TOKEN), (200, "nonsense"), 503),
            ((403, TOKEN), (200, ""), 500),
            ((200, "{}"), (200, ""), 500),
            ((200, r#"{"accessToken": 1}"#), (200, ""), 500),
        ] {
            let bench = Bench::new("GET /?code=c");
            bench.services.answer(token.0, &[], token.1);
            bench.services.answer(user.0, &[], user.1);
            assert_eq!(testkit::access(&chain(), &mut bench.exchange()), status, "{token:?} {user:?}");
        }
    }
}
