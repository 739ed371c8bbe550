//! Lets in users of Feishu (Lark) by the code that its apps and login page give.
//!
//! ## When to use
//! For pages and apps of an organisation whose members are in Feishu. The plugin exchanges the code for a token, asks
//! Feishu whose it is, and keeps the answer in a session.
//!
//! ## Example
//! ```json
//! {
//!     "feishu-auth": {
//!         "app_id": "cli_a1b2c3",
//!         "app_secret": "the-secret-of-the-app",
//!         "secret": "a-secret-for-sessions",
//!         "auth_redirect_uri": "https://app.example.com/callback",
//!         "redirect_uri": "https://accounts.feishu.cn/open-apis/authen/v1/authorize?app_id=cli_a1b2c3"
//!     }
//! }
//! ```
//! A request without a session shows the code in `X-Feishu-Code` or in the argument `code`; one that shows none is sent to
//! `redirect_uri`.
//!
//! ## Differences from APISIX
//! - Cookies of APISIX's sessions are not taken: users log in again after a move.
//! - A user counts only if Feishu's answer has a `code` of 0 and an object `data`.

use crate::identity::{Step, WorkLogin, WorkLoginConfig, ask_json, post_json};
use model::ConfigError;
use plugin::{
    Call, CallTimeouts, CompileContext, Endpoint, EndpointOptions, Exchange, Flow, OnRewrite, Plugin,
    PluginDef, Reply, Services, log_for,
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
    PluginDef::new::<FeishuAuth>("feishu-auth", 2420)
        .on_rewrite()
        .encrypt_fields(&["app_secret", "secret", "secret_fallbacks"])
        .build()
}

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    app_id: String,
    app_secret: Secret,
    userinfo_url: String,
    access_token_url: String,
    auth_redirect_uri: String,
    timeout: u64,
    ssl_verify: bool,
    #[serde(flatten)]
    login: WorkLoginConfig,
}

/// The compiled form.
pub struct FeishuAuth {
    login: Arc<WorkLogin>,
    platform: Arc<Platform>,
}

/// Feishu.
struct Platform {
    token_endpoint: Endpoint,
    user_endpoint: Endpoint,
    app_id: String,
    app_secret: Secret,
    auth_redirect_uri: String,
    timeouts: CallTimeouts,
}

impl Plugin for FeishuAuth {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let endpoint = |url: &str, path: &str| -> Result<Endpoint, Vec<ConfigError>> {
            let options = EndpointOptions { ssl_verify: config.ssl_verify, ..EndpointOptions::default() };
            cx.endpoint(url, options)
                .map_err(|errors| errors.into_iter().map(|error| error.under(path)).collect())
        };
        let platform = Platform {
            token_endpoint: endpoint(&config.access_token_url, "/access_token_url")?,
            user_endpoint: endpoint(&config.userinfo_url, "/userinfo_url")?,
            app_id: config.app_id,
            app_secret: config.app_secret,
            auth_redirect_uri: config.auth_redirect_uri,
            timeouts: CallTimeouts::all(Duration::from_millis(config.timeout)),
        };
        let login = WorkLogin::new(config.login, "feishu_session", cx.shared.get());
        Ok(Self { login: Arc::new(login), platform: Arc::new(platform) })
    }

    fn schema() -> Value {
        let text = |what: &str| json!({"description": what, "type": "string", "minLength": 1});
        let url =
            |what: &str, default: &str| json!({"description": what, "type": "string", "default": default});
        let mut schema = json!({
            "type": "object",
            "properties": {
                "app_id": text("The app's id."),
                "app_secret": text("The app's secret."),
                "userinfo_url": url(
                    "Where Feishu tells whose a token is.",
                    "https://open.feishu.cn/open-apis/authen/v1/user_info"
                ),
                "access_token_url": url(
                    "Where Feishu exchanges codes for tokens.",
                    "https://open.feishu.cn/open-apis/authen/v2/oauth/token"
                ),
                "auth_redirect_uri": {
                    "description": "The redirect URI with which the code was asked for.", "type": "string"
                }
            },
            "encrypt_fields": ["app_secret", "secret", "secret_fallbacks"],
            "required": ["app_id", "app_secret", "secret", "auth_redirect_uri", "redirect_uri"]
        });
        WorkLogin::extend_schema(&mut schema, "X-Feishu-Code");
        schema
    }
}

impl OnRewrite for FeishuAuth {
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        let code = match self.login.begin(exchange) {
            Step::Done(flow) => return flow,
            Step::Code(code) => code,
        };
        let services = Rc::clone(exchange.services);
        let (platform, login) = (Arc::clone(&self.platform), Arc::clone(&self.login));
        Flow::wait(async move { platform.user(&services, &code).await }, move |user, exchange| match user {
            Ok(user) => login.admit(user, exchange),
            Err(why) => {
                log_for!(warn, exchange, "feishu-auth: {why}");
                Flow::reply(Reply::message(401, "Invalid authorization code"))
            }
        })
    }
}

impl Platform {
    /// What Feishu says of the user with this code.
    async fn user(&self, services: &Rc<dyn Services>, code: &str) -> Result<Value, String> {
        let token = self.token(services, code).await;
        let token = token.map_err(|why| format!("failed to get feishu access token: {why}"))?;
        let failed = |why: String| format!("failed to get feishu userinfo: {why}");
        let endpoint = &self.user_endpoint;
        let call = Call::new("GET", endpoint.authority.as_str(), endpoint.target.as_str(), self.timeouts);
        let mut call = call.map_err(|error| failed(error.to_string()))?;
        call.headers.set("Content-Type", "application/json");
        call.headers.set("Authorization", format!("Bearer {token}"));
        let (status, body) =
            ask_json(services, endpoint, call).await.map_err(|error| failed(error.to_string()))?;
        let mut body = match body {
            Some(Value::Object(body)) if status == 200 => body,
            _ => return Err(failed(format!("not an answer of Feishu, status {status}"))),
        };
        if body.get("code").and_then(Value::as_i64) != Some(0) {
            return Err(failed(format!("code {}", body.get("code").unwrap_or(&Value::Null))));
        }
        body.remove("data")
            .filter(Value::is_object)
            .ok_or_else(|| failed("the answer has no data".to_owned()))
    }

    /// The token that a code is worth.
    async fn token(&self, services: &Rc<dyn Services>, code: &str) -> Result<String, String> {
        let body = json!({
            "grant_type": "authorization_code",
            "client_id": self.app_id,
            "client_secret": self.app_secret.as_str(),
            "redirect_uri": self.auth_redirect_uri,
            "code": code,
        });
        let endpoint = &self.token_endpoint;
        let call = post_json(endpoint, &endpoint.target, &body, self.timeouts);
        let call = call.map_err(|error| error.to_string())?;
        let (status, body) = ask_json(services, endpoint, call).await.map_err(|error| error.to_string())?;
        let body =
            body.filter(|_| status == 200).ok_or_else(|| format!("unexpected answer, status {status}"))?;
        let token = body.get("access_token").and_then(Value::as_str).filter(|token| !token.is_empty());
        match token.filter(|_| body.get("expires_in").is_some_and(Value::is_number)) {
            Some(token) => Ok(token.to_owned()),
            None => Err("missing access_token or expires_in in response".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    fn status(answers: &[(u16, &str)], request: &str) -> (u16, Bench) {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        let config = json!({
            "app_id": "k", "app_secret": "hidden", "secret": "12345678", "redirect_uri": "https://login.test/",
            "auth_redirect_uri": "https://a.test/back",
            "userinfo_url": "http://feishu.test/user", "access_token_url": "http://feishu.test/token"
        });
        let chain = testkit::chain(&registry, &json!({ "feishu-auth": config })).expect("valid");
        let bench = Bench::new(request);
        answers.iter().for_each(|(status, body)| bench.services.answer(*status, &[], body));
        let status = testkit::access(&chain, &mut bench.exchange());
        (status, bench)
    }

    #[test]
    fn a_code_is_exchanged_for_a_user() {
        let token = r#"{"access_token": "t", "expires_in": 7200}"#;
        let user = r#"{"code": 0, "data": {"name": "u"}}"#;
        let (code, bench) = status(&[(200, token), (200, user)], "GET /\nX-Feishu-Code: c");
        assert_eq!(code, 0);
        let calls = bench.services.calls();
        let sent: Value = serde_json::from_slice(&calls[0].body).expect("JSON");
        assert_eq!((&sent["code"], &sent["redirect_uri"]), (&json!("c"), &json!("https://a.test/back")));
        assert!(calls[1].headers.contains("Authorization: Bearer t\r\n"), "{}", calls[1].headers);
        assert_eq!(status(&[], "GET /").0, 302);
        for (token_answer, user_answer) in [
            ((200, token), (200, r#"{"code": 20005, "msg": "no"}"#)),
            ((200, token), (200, r#"{"code": 0}"#)),
            ((200, token), (200, r#"{"data": {}}"#)),
            ((200, token), (500, user)),
            ((200, token), (200, "")),
            ((400, token), (200, user)),
            ((200, r#"{"access_token": "t"}"#), (200, user)),
            ((200, r#"{"access_token": "", "expires_in": 1}"#), (200, user)),
        ] {
            assert_eq!(
                status(&[token_answer, user_answer], "GET /?code=c").0,
                401,
                "{token_answer:?} {user_answer:?}"
            );
        }
    }
}
