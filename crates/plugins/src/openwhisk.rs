//! Answers requests with an action of OpenWhisk.
//!
//! ## When to use
//! For actions of Apache OpenWhisk or IBM Cloud Functions: the request's body is the action's argument, and its result the
//! response.
//!
//! ## Example
//! ```json
//! {
//!     "openwhisk": {
//!         "api_host": "http://localhost:3233",
//!         "service_token": "23bc46b1-71f6-4ed5-8c54-816aa4f8c502:123zO3xZCLrMN6v2BKK1dXYFpXlPkccOFqm12CdAsMgRU4VrNZ9lyGVCGuMDGIwP",
//!         "namespace": "guest",
//!         "action": "test-params"
//!     }
//! }
//! ```
//! A result with `statusCode`, `headers` and `body` is the response; any other is the body of one with status 200.
//!
//! ## Differences from APISIX
//! - A `statusCode` that is no status from 200 to 599, and an answer that is no JSON object, are answered with 503.
//! - Fields that frame a message are left out of `headers`.
//! - An answer of more than 16 MiB counts as an error.

use crate::headers::{is_of_connection, text};
use crate::identity::encode_args;
use crate::service_call::ServiceConfig;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use model::ConfigError;
use plugin::{
    Call, CallBody, CallError, CallTimeouts, CompileContext, Endpoint, Exchange, Fields, Flow, OnAccess,
    Plugin, PluginDef, Reply, WholeBody, log_for,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::rc::Rc;
use stdx::Secret;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<OpenWhisk>("openwhisk", -1901).on_access().encrypt_fields(&["service_token"]).build()
}

/// Bytes of an answer. OpenWhisk's own limit of a result is 1 MiB; its operators may raise it.
const ANSWER_MAX: usize = 16 << 20;

/// A name in OpenWhisk.
const NAME: &str = "\\A([\\w]|[\\w][\\w@ .-]*[\\w@.-]+)\\z";

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    max_req_body_size: usize,
    api_host: String,
    service_token: Secret,
    namespace: String,
    package: Option<String>,
    action: String,
    result: bool,
    #[serde(flatten)]
    service: ServiceConfig,
}

/// The compiled form.
pub struct OpenWhisk {
    endpoint: Endpoint,
    target: String,
    authorization: Secret,
    timeouts: CallTimeouts,
    max_req_body_size: usize,
}

impl Plugin for OpenWhisk {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let part = |name: &str| name.replace(' ', "%20");
        let package = config.package.as_deref().map(|name| format!("{}/", part(name))).unwrap_or_default();
        let (host, namespace, action) = (&config.api_host, part(&config.namespace), part(&config.action));
        let url = format!("{host}/api/v1/namespaces/{namespace}/actions/{package}{action}");
        let endpoint = config.service.endpoint(&url, "/api_host", cx)?;
        let query = encode_args(&[
            ("blocking", "true"),
            ("result", if config.result { "true" } else { "false" }),
            ("timeout", &config.service.timeouts().read.as_millis().to_string()),
        ]);
        Ok(Self {
            target: format!("{}?{query}", endpoint.target),
            endpoint,
            authorization: Secret::from(format!("Basic {}", STANDARD.encode(config.service_token.as_str()))),
            timeouts: config.service.timeouts(),
            max_req_body_size: config.max_req_body_size,
        })
    }

    fn schema() -> Value {
        let name =
            |what: &str| json!({"description": what, "type": "string", "maxLength": 256, "pattern": NAME});
        let mut schema = json!({
            "type": "object",
            "properties": {
                "max_req_body_size": {
                    "description": "Bytes of a request's body that are held; a longer one gets 413.",
                    "type": "integer", "minimum": 1, "default": 67_108_864
                },
                "api_host": {"description": "The address of OpenWhisk.", "type": "string"},
                "service_token": {"description": "`name:password` of the account.", "type": "string"},
                "namespace": name("The namespace."),
                "package": name("The package."),
                "action": name("The action."),
                "result": {
                    "description": "Whether the answer is the action's result alone.", "type": "boolean", "default": true
                }
            },
            "required": ["api_host", "service_token", "namespace", "action"],
            "encrypt_fields": ["service_token"]
        });
        ServiceConfig::extend_schema(&mut schema);
        schema
    }
}

impl OnAccess for OpenWhisk {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let body = match exchange.request.whole_body(self.max_req_body_size) {
            WholeBody::Unread => return Flow::Body(self.max_req_body_size),
            WholeBody::TooLong => return Flow::status(413),
            WholeBody::Whole(body) => Bytes::copy_from_slice(body),
        };
        let call = Call::new("POST", self.endpoint.authority.as_str(), self.target.as_str(), self.timeouts);
        let Ok(mut call) = call else { return Flow::status(503) };
        call.headers.set("Authorization", self.authorization.as_str());
        call.headers.set("Content-Type", "application/json");
        call.body = CallBody::Bytes(body);
        let (services, to) = (Rc::clone(exchange.services), self.endpoint.upstream.clone());
        Flow::wait(async move { services.call(&to, call).await?.collect(ANSWER_MAX).await }, respond)
    }
}

/// Makes the response of an action's result.
fn respond(answer: Result<(u16, Fields, Vec<u8>), CallError>, exchange: &mut Exchange<'_>) -> Flow {
    let (status, _, body) = match answer {
        Ok(answer) => answer,
        Err(error) => {
            log_for!(error, exchange, %error, "openwhisk: failed to process the action");
            return Flow::status(503);
        }
    };
    let Ok(Value::Object(result)) = serde_json::from_slice::<Value>(&body) else {
        log_for!(error, exchange, status, "openwhisk: failed to parse the response: not a JSON object");
        return Flow::status(503);
    };
    let code = match result.get("statusCode") {
        None | Some(Value::Null) => Some(status),
        Some(code) => {
            let code = code.as_u64().or_else(|| code.as_str()?.parse().ok());
            code.and_then(|code| u16::try_from(code).ok()).filter(|code| (200..600).contains(code))
        }
    };
    let Some(code) = code else {
        log_for!(error, exchange, "openwhisk: the result's statusCode is no status");
        return Flow::status(503);
    };
    let body = match result.get("body") {
        None | Some(Value::Null) => body,
        Some(Value::String(text)) => text.clone().into_bytes(),
        Some(other) => other.to_string().into_bytes(),
    };
    let mut reply = Reply::text(code, body);
    for (name, value) in result.get("headers").and_then(Value::as_object).into_iter().flatten() {
        if let Some(value) = text(value).filter(|_| !is_of_connection(name)) {
            reply = reply.with_header(name.clone(), value);
        }
    }
    Flow::reply(reply)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    fn answered(status: u16, body: &str) -> (Reply, Bench) {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        let config = json!({
            "api_host": "http://ow.test:3233", "service_token": "a:b", "namespace": "guest", "package": "my pack",
            "action": "act", "result": false
        });
        let chain = testkit::chain(&registry, &json!({ "openwhisk": config })).expect("valid");
        let bench = Bench::new("PUT /x?y\nContent-Length: 2").with_body("{}");
        bench.services.answer(status, &[("X-Own", "1")], body);
        let reply = testkit::request(&chain, &mut bench.exchange()).expect("an answer");
        (reply, bench)
    }

    #[test]
    fn an_action_makes_the_response() {
        let (reply, bench) = answered(
            200,
            r#"{"statusCode": 403, "headers": {"X-A": 1, "Content-Length": "9"}, "body": "no"}"#,
        );
        assert_eq!(
            (reply.status, reply.body.as_deref(), reply.header(b"x-a")),
            (403, Some(&b"no"[..]), Some(&b"1"[..]))
        );
        assert_eq!(reply.headers.len(), 1);
        let call = bench.services.calls().remove(0);
        let target = "/api/v1/namespaces/guest/actions/my%20pack/act?blocking=true&result=false&timeout=3000";
        assert_eq!((call.method.as_str(), call.target.as_str(), &*call.body), ("POST", target, &b"{}"[..]));
        assert_eq!(call.headers, "Authorization: Basic YTpi\r\nContent-Type: application/json\r\n");
        for (status, body, expected, text) in [
            (200, r#"{"hello":"x"}"#, 200, r#"{"hello":"x"}"#),
            (502, r#"{"error":"x"}"#, 502, r#"{"error":"x"}"#),
            (200, r#"{"body":{"a":1},"statusCode":"201"}"#, 201, r#"{"a":1}"#),
            (200, r#"{"statusCode":100}"#, 503, ""),
            (200, r#"{"statusCode":"x"}"#, 503, ""),
            (200, "[]", 503, ""),
            (200, "<html>", 503, ""),
        ] {
            let (reply, _) = answered(status, body);
            assert_eq!(
                (reply.status, reply.body.as_deref().unwrap_or_default()),
                (expected, text.as_bytes()),
                "{body}"
            );
        }
    }

    #[test]
    fn names_are_names() {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        for name in ["", " a", "a/../b", "a?b", "a\nb"] {
            let config =
                json!({"api_host": "http://a", "service_token": "a", "namespace": name, "action": "b"});
            assert!(testkit::chain(&registry, &json!({ "openwhisk": config })).is_err(), "{name}");
        }
    }
}
