//! Asks a wolf-server whether the user of a token may call the API.
//!
//! ## When to use
//! With [wolf](https://github.com/iGeeky/wolf), which keeps users, roles and permissions. A user logs in by an endpoint of
//! this plugin and shows the token that it got; wolf-server decides about each request.
//!
//! ## Example
//! On the route:
//! ```json
//! {
//!     "wolf-rbac": {}
//! }
//! ```
//! In the consumer: `{"wolf-rbac": {"server": "http://127.0.0.1:12180", "appid": "restful"}}`. Requests show the token as the
//! argument `rbac_token`, in `Authorization`, in `X-Rbac-Token` or in the cookie `x-rbac-token`. The endpoints
//! `/apisix/plugin/wolf-rbac/login`, `.../change_pwd` and `.../user_info` need a route with `public-api`.
//!
//! ## Differences from APISIX
//! - An answer of wolf-server with status 200 lets a request pass only if it is JSON with `"ok": true`; in APISIX any answer
//!   with status 200 does.
//! - `ssl_verify` is true where the consumer doesn't say.
//! - An answer of wolf-server with more than 1 MiB counts as an error.

use crate::headers::{set_for_upstream, text};
use crate::identity::{ANSWER_MAX, Servers, ask_json, encode_args, escape, post_json};
use crate::text::decode_arg;
use model::ConfigError;
use plugin::{
    ApiContext, Authenticator, Call, CallTimeouts, CompileContext, Endpoint, EndpointOptions, Exchange, Flow,
    OnRewrite, Plugin, PluginDef, PublicApi, Reply, Services, WholeBody, form_fields, log_for,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<WolfRbac>("wolf-rbac", 2555)
        .authenticates()
        .on_rewrite()
        .public_apis(public_apis)
        .build()
}

/// How long each step of a permission check may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// How long each step of a call behind the endpoints may take.
const ACCOUNT_TIMEOUT: Duration = Duration::from_secs(5);

/// How often wolf-server is asked while it answers with a server error, and the pause between.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(100);

/// What a user writes on a route: nothing that matters there.
#[derive(Debug, Deserialize)]
pub struct Config {}

/// The compiled form.
pub struct WolfRbac {
    servers: Servers,
}

/// What a consumer has.
#[derive(Debug, Deserialize)]
pub struct CredentialConfig {
    appid: String,
    server: String,
    header_prefix: String,
    #[serde(default = "yes")]
    ssl_verify: bool,
}

fn yes() -> bool {
    true
}

/// A wolf application.
pub struct Application {
    server: String,
    header_prefix: String,
    ssl_verify: bool,
}

impl Plugin for WolfRbac {
    type Config = Config;

    fn compile(_: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(Self { servers: Servers::new(cx.upstreams(), EndpointOptions::default()) })
    }

    fn schema() -> Value {
        Self::credential_schema()
    }
}

impl Authenticator for WolfRbac {
    type CredentialConfig = CredentialConfig;
    type Credential = Application;

    fn credential_schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "appid": {"description": "The application's id in wolf.", "type": "string", "default": "unset"},
                "server": {
                    "description": "The address of wolf-server.",
                    "type": "string",
                    "default": "http://127.0.0.1:12180"
                },
                "header_prefix": {
                    "description": "What the fields `UserId`, `Username` and `Nickname` begin with.",
                    "type": "string",
                    "default": "X-"
                },
                "ssl_verify": {
                    "description": "Whether the server's certificate must be valid for its name.",
                    "type": "boolean"
                }
            }
        })
    }

    fn credential(config: CredentialConfig) -> Result<(Vec<u8>, Application), Vec<ConfigError>> {
        let CredentialConfig { appid, server, header_prefix, ssl_verify } = config;
        Ok((appid.into_bytes(), Application { server, header_prefix, ssl_verify }))
    }
}

impl Application {
    /// The server, which the consumer names.
    fn endpoint(&self, servers: &Servers) -> Option<Endpoint> {
        let base = self.server.trim_end_matches('/');
        let found = servers.find_verified(base, self.ssl_verify);
        found
            .inspect_err(|errors| {
                let why = errors.first().map(|error| error.message.as_str()).unwrap_or_default();
                tracing::error!("wolf-rbac: the consumer's server is no URL: {why}");
            })
            .ok()
    }
}

/// The path `path` below the server's own.
fn below(endpoint: &Endpoint, path: &str) -> String {
    format!("{}{path}", endpoint.target.trim_end_matches('/'))
}

/// A token that a login gave: `V1#appid#token of wolf`.
struct Token {
    appid: String,
    wolf: String,
}

impl Token {
    /// The request's token.
    fn of(exchange: &Exchange<'_>) -> Result<Self, &'static str> {
        let request = &exchange.request;
        let shown = match request.arg(b"rbac_token") {
            Some(value) => Some(decode_arg(value)),
            None => ["authorization", "x-rbac-token"]
                .iter()
                .find_map(|name| request.header(name.as_bytes()))
                .or_else(|| request.cookie(b"x-rbac-token"))
                .map(Cow::Borrowed),
        };
        let shown = shown.ok_or("Missing rbac token in request")?;
        let mut parts = std::str::from_utf8(&shown).unwrap_or_default().splitn(3, '#');
        match (parts.next(), parts.next(), parts.next()) {
            (Some("V1"), Some(appid), Some(wolf)) => {
                Ok(Self { appid: appid.to_owned(), wolf: wolf.to_owned() })
            }
            _ => Err("invalid rbac token: parse failed"),
        }
    }
}

fn refuse(status: u16, why: &str) -> Flow {
    Flow::reply(Reply::message(status, why))
}

/// Answers with a JSON object and a newline.
fn answer(status: u16, body: &Value) -> Flow {
    Flow::reply(Reply::text(status, format!("{body}\n")))
}

impl OnRewrite for WolfRbac {
    fn rewrite(&self, exchange: &mut Exchange<'_>) -> Flow {
        let token = match Token::of(exchange) {
            Ok(token) => token,
            Err(why) => return refuse(401, why),
        };
        let consumers = exchange.consumers;
        if !consumers.any::<Self>() {
            return refuse(401, "Missing related consumer");
        }
        let Some((_, application)) = consumers.find::<Self>(token.appid.as_bytes()) else {
            log_for!(error, exchange, "wolf-rbac: consumer [{}] not found", token.appid.escape_debug());
            return refuse(401, "Invalid appid in rbac token");
        };
        let Some(endpoint) = application.endpoint(&self.servers) else { return refuse(500, UNREACHABLE) };
        let request = &exchange.request;
        let query = encode_args(&[
            ("appID", token.appid.as_bytes()),
            ("resName", &request.path),
            ("action", request.method()),
            ("clientIP", exchange.client.ip_text.as_bytes()),
        ]);
        let target = format!("{}?{query}", below(&endpoint, "/wolf/rbac/access_check"));
        let services = Rc::clone(exchange.services);
        let Token { appid, wolf } = token;
        Flow::wait(
            async move { check(&services, &endpoint, &target, &wolf).await },
            move |verdict, exchange| admit(&appid, verdict, exchange),
        )
    }
}

const UNREACHABLE: &str = "request to wolf-server failed!";

/// What wolf-server says about a request: the status and, if it is allowed, no reason.
struct Verdict {
    status: u16,
    why: Option<String>,
    user: Option<Map<String, Value>>,
}

/// Asks whether the user may do it.
async fn check(services: &Rc<dyn Services>, endpoint: &Endpoint, target: &str, token: &str) -> Verdict {
    let failed = |why: String| Verdict { status: 500, why: Some(why), user: None };
    for left in (0..TRIES).rev() {
        let Ok(mut call) =
            Call::new("GET", endpoint.authority.as_str(), target, CallTimeouts::all(CHECK_TIMEOUT))
        else {
            break;
        };
        call.headers.set("x-rbac-token", token);
        call.headers.set("Content-Type", "application/json; charset=utf-8");
        match ask_json(services, endpoint, call).await {
            Err(error) => return failed(format!("request to wolf-server failed, err:{error}")),
            Ok((status, _)) if status >= 500 => {
                if left == 0 {
                    return failed(format!("request to wolf-server failed, status:{status}"));
                }
                services.sleep(PAUSE).await;
            }
            Ok((status, body)) => return Verdict::read(status, body),
        }
    }
    failed(UNREACHABLE.to_owned())
}

impl Verdict {
    fn read(status: u16, body: Option<Value>) -> Self {
        let Some(Value::Object(mut body)) = body else {
            let status = if status == 200 { 500 } else { status };
            let why = "check permission failed! parse response json failed!".to_owned();
            return Self { status, why: Some(why), user: None };
        };
        let user = match body.get_mut("data").and_then(|data| data.get_mut("userInfo")).map(Value::take) {
            Some(Value::Object(user)) => Some(user),
            _ => None,
        };
        let why = body.get("reason").and_then(Value::as_str).map(str::to_owned);
        // A refusal that comes with status 200 is one all the same.
        let allowed = body.get("ok") == Some(&Value::Bool(true));
        Self { status: if status == 200 && !allowed { 401 } else { status }, why, user }
    }
}

/// Lets the request pass as the application's consumer if wolf-server allows it.
fn admit(appid: &str, verdict: Verdict, exchange: &mut Exchange<'_>) -> Flow {
    let consumers = exchange.consumers;
    let Some((identity, application)) = consumers.find::<WolfRbac>(appid.as_bytes()) else {
        return refuse(401, "Invalid appid in rbac token");
    };
    let user = verdict.user.as_ref();
    let member = |name: &str| user.and_then(|user| user.get(name)).and_then(text);
    let username = member("username");
    let nickname = member("nickname").or_else(|| username.clone());
    for (name, value) in [
        ("UserId", member("id")),
        ("Username", username.clone()),
        ("Nickname", nickname.as_deref().map(escape)),
    ] {
        // What the client sent under this name never passes for wolf-server's word.
        let name = format!("{}{name}", application.header_prefix);
        set_for_upstream(exchange.request.edit(), &name, value.as_slice());
        if let Some(value) = value {
            exchange.reply_headers.set(&name, value);
        }
    }
    if verdict.status != 200 {
        let why = verdict.why.as_deref().unwrap_or_default();
        log_for!(
            error,
            exchange,
            status = verdict.status,
            "wolf-rbac: check permission failed: {}",
            why.escape_debug()
        );
        let mut body = Map::new();
        for (name, value) in [("message", verdict.why), ("username", username), ("nickname", nickname)] {
            body.extend(value.map(|value| (name.to_owned(), value.into())));
        }
        let status = if (400..600).contains(&verdict.status) { verdict.status } else { 403 };
        return answer(status, &Value::Object(body));
    }
    exchange.attach(identity);
    Flow::Next
}

/// The endpoints by which users log in, change their password and see what wolf knows of them.
fn public_apis(cx: ApiContext<'_>) -> Vec<PublicApi> {
    let servers = Arc::new(Servers::new(cx.upstreams(), EndpointOptions::default()));
    let api = |method: &'static str, uri: &str, answer: fn(&Servers, &Exchange<'_>) -> Flow| {
        let servers = Arc::clone(&servers);
        PublicApi {
            method: method.into(),
            uri: format!("/apisix/plugin/wolf-rbac/{uri}"),
            answer: Box::new(move |exchange| answer(&servers, exchange)),
        }
    };
    vec![
        api("POST", "login", login),
        api("PUT", "change_pwd", change_password),
        api("GET", "user_info", user_info),
    ]
}

/// The members of the request's body: JSON or a form.
fn arguments(exchange: &Exchange<'_>) -> Result<Value, Flow> {
    let body = match exchange.request.whole_body(ANSWER_MAX) {
        WholeBody::Unread => return Err(Flow::Body(ANSWER_MAX)),
        WholeBody::TooLong => return Err(Flow::status(413)),
        WholeBody::Whole(body) => body,
    };
    let kind = exchange.request.header(b"content-type").unwrap_or_default();
    let is_json = String::from_utf8_lossy(kind).contains("application/json");
    let arguments = if is_json { serde_json::from_slice(body).ok() } else { Some(form_fields(body)) };
    arguments.filter(Value::is_object).ok_or_else(|| refuse(400, "invalid request"))
}

/// Sends `body` to the application `appid`'s server; `done` makes the answer of wolf-server's.
fn account(
    servers: &Servers,
    exchange: &Exchange<'_>,
    appid: &str,
    (method, path, token): (&'static str, &str, Option<&str>),
    body: &Value,
    done: impl FnOnce(&Value) -> Value + 'static,
) -> Flow {
    let Some((_, application)) = exchange.consumers.find::<WolfRbac>(appid.as_bytes()) else {
        return refuse(400, "appid not found");
    };
    let Some(endpoint) = application.endpoint(servers) else { return refuse(500, UNREACHABLE) };
    let timeouts = CallTimeouts::all(ACCOUNT_TIMEOUT);
    let target = below(&endpoint, path);
    let call = match method {
        "POST" => post_json(&endpoint, &target, body, timeouts),
        _ => Call::new(method, endpoint.authority.as_str(), target.as_str(), timeouts),
    };
    let Ok(mut call) = call else { return refuse(500, UNREACHABLE) };
    call.headers.set("Content-Type", "application/json; charset=utf-8");
    if let Some(token) = token {
        call.headers.set("x-rbac-token", token);
    }
    let services = Rc::clone(exchange.services);
    let path = path.to_owned();
    Flow::wait(
        async move { ask_json(&services, &endpoint, call).await },
        move |result, exchange| match result {
            Ok((200, Some(body))) if body.get("ok") == Some(&Value::Bool(true)) => answer(200, &done(&body)),
            Ok((200, Some(body))) if body.is_object() => {
                let reason = body.get("reason").and_then(Value::as_str).unwrap_or_default();
                log_for!(error, exchange, "wolf-rbac: request to {path} failed: {}", reason.escape_debug());
                refuse(200, UNREACHABLE)
            }
            Ok((status, _)) => {
                log_for!(
                    error,
                    exchange,
                    status,
                    "wolf-rbac: request to {path} failed: not an answer of wolf-server"
                );
                refuse(500, UNREACHABLE)
            }
            Err(error) => {
                log_for!(error, exchange, %error, "wolf-rbac: request to {path} failed");
                refuse(500, UNREACHABLE)
            }
        },
    )
}

fn login(servers: &Servers, exchange: &Exchange<'_>) -> Flow {
    let arguments = match arguments(exchange) {
        Ok(arguments) => arguments,
        Err(flow) => return flow,
    };
    let Some(appid) = arguments.get("appid").and_then(text) else { return refuse(400, "appid is missing") };
    let for_token = appid.clone();
    let request = ("POST", "/wolf/rbac/login.rest", None);
    account(servers, exchange, &appid, request, &arguments, move |body| {
        let token = body["data"].get("token").and_then(text).unwrap_or_default();
        json!({"rbac_token": format!("V1#{for_token}#{token}"), "user_info": body["data"]["userInfo"]})
    })
}

fn change_password(servers: &Servers, exchange: &Exchange<'_>) -> Flow {
    let arguments = match arguments(exchange) {
        Ok(arguments) => arguments,
        Err(flow) => return flow,
    };
    let token = match Token::of(exchange) {
        Ok(token) => token,
        Err(why) => return refuse(401, why),
    };
    let request = ("POST", "/wolf/rbac/change_pwd", Some(token.wolf.as_str()));
    account(
        servers,
        exchange,
        &token.appid,
        request,
        &arguments,
        |_| json!({"message": "success to change password"}),
    )
}

fn user_info(servers: &Servers, exchange: &Exchange<'_>) -> Flow {
    let token = match Token::of(exchange) {
        Ok(token) => token,
        Err(why) => return refuse(401, why),
    };
    let request = ("GET", "/wolf/rbac/user_info", Some(token.wolf.as_str()));
    account(
        servers,
        exchange,
        &token.appid,
        request,
        &Value::Null,
        |body| json!({"user_info": body["data"]["userInfo"]}),
    )
}

#[cfg(test)]
mod tests;
