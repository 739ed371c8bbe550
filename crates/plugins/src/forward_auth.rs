//! Delegates authentication and authorization to an external service.
//!
//! ## When to use
//! Use it when a service of your own decides which requests pass. The plugin sends it the request's method, host, URI
//! and client address in `X-Forwarded-*` fields. If the service responds with a status below 300, the request passes;
//! otherwise the client gets the service's response.
//!
//! ## Example
//! ```json
//! {
//!     "forward-auth": {
//!         "uri": "http://127.0.0.1:9180/auth",
//!         "request_headers": ["Authorization"],
//!         "upstream_headers": ["X-User-ID"],
//!         "client_headers": ["Location"]
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - A response of the service of more than 1 MiB is an error.
//! - Fields that frame a message are left alone in `upstream_headers` and `client_headers`; `Host` is the one that the
//!   request is sent for.
//! - Fields that the plugin or `extra_headers` set can't be replaced by `request_headers`, whatever their case.

use crate::headers::{is_of_connection, set_for_upstream};
use crate::service_call::{self, ServiceConfig};
use bytes::Bytes;
use model::ConfigError;
use model::var::{Template, VarSource};
use plugin::{
    Call, CallBody, CallError, CallTimeouts, CompileContext, Endpoint, Exchange, Fields, Flow, OnAccess,
    Plugin, PluginDef, Reply, WholeBody, log_for,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<ForwardAuth>("forward-auth", 2002).on_access().build()
}

/// Bytes of the service's answer that are read. It is an error page or a token, not a document.
const ANSWER_MAX: usize = 1024 * 1024;

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    uri: String,
    allow_degradation: bool,
    status_on_error: u16,
    request_method: String,
    max_req_body_size: usize,
    request_headers: Vec<String>,
    #[serde(default)]
    extra_headers: BTreeMap<String, String>,
    upstream_headers: Vec<String>,
    client_headers: Vec<String>,
    #[serde(flatten)]
    service: ServiceConfig,
}

/// The compiled form.
pub struct ForwardAuth {
    endpoint: Endpoint,
    timeouts: CallTimeouts,
    sends_body: bool,
    max_req_body_size: usize,
    request_headers: Vec<String>,
    extra_headers: Vec<(String, Template)>,
    verdict: Arc<Verdict>,
}

/// What becomes of a request by the service's answer.
struct Verdict {
    allow_degradation: bool,
    status_on_error: u16,
    upstream_headers: Vec<String>,
    client_headers: Vec<String>,
}

impl Plugin for ForwardAuth {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let extra = config.extra_headers.iter().map(|(name, value)| (name.clone(), Template::parse(value)));
        Ok(Self {
            endpoint: config.service.endpoint(&config.uri, "/uri", cx)?,
            timeouts: config.service.timeouts(),
            sends_body: config.request_method == "POST",
            max_req_body_size: config.max_req_body_size,
            request_headers: config.request_headers,
            extra_headers: extra.collect(),
            verdict: Arc::new(Verdict {
                allow_degradation: config.allow_degradation,
                status_on_error: config.status_on_error,
                upstream_headers: config.upstream_headers,
                client_headers: config.client_headers,
            }),
        })
    }

    fn schema() -> Value {
        let names = |what: &str| json!({"description": what, "type": "array", "default": [], "items": {"type": "string"}});
        let mut schema = json!({
            "type": "object",
            "properties": {
                "uri": {"description": "The URL of the authorization service.", "type": "string"},
                "allow_degradation": {
                    "description": "Whether requests pass while the service can't be asked.",
                    "type": "boolean",
                    "default": false
                },
                "status_on_error": {
                    "description": "The status that clients get while the service can't be asked.",
                    "type": "integer",
                    "minimum": 200,
                    "maximum": 599,
                    "default": 403
                },
                "request_method": {
                    "description": "The method of the call; POST sends the request's body along.",
                    "type": "string",
                    "default": "GET",
                    "enum": ["GET", "POST"]
                },
                "max_req_body_size": {
                    "description": "Bytes of a request's body that are held for POST; a longer one gets 413.",
                    "type": "integer",
                    "minimum": 1,
                    "default": 67_108_864
                },
                "request_headers": names("The client's fields that the service gets."),
                "extra_headers": {
                    "description": "Further fields for the service; values may hold variables.",
                    "type": "object",
                    "minProperties": 1,
                    "patternProperties": {"^[^:]+$": {"type": "string"}}
                },
                "upstream_headers": names("Fields of an allowing answer that the upstream gets."),
                "client_headers": names("Fields of a refusing answer that the client gets.")
            },
            "required": ["uri"]
        });
        ServiceConfig::extend_schema(&mut schema);
        schema
    }
}

impl OnAccess for ForwardAuth {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let Ok(mut call) =
            service_call::call(&self.endpoint, if self.sends_body { "POST" } else { "GET" }, self.timeouts)
        else {
            return Flow::status(self.verdict.status_on_error);
        };
        if self.sends_body {
            match exchange.request.whole_body(self.max_req_body_size) {
                WholeBody::Unread => return Flow::Body(self.max_req_body_size),
                WholeBody::TooLong => return Flow::status(413),
                WholeBody::Whole(body) => call.body = CallBody::Bytes(Bytes::copy_from_slice(body)),
            }
            if let Some(coding) = exchange.request.header(b"content-encoding") {
                call.headers.set("Content-Encoding", coding);
            }
        }
        self.describe(exchange, &mut call);
        let services = exchange.services.clone();
        let (to, verdict) = (self.endpoint.upstream.clone(), Arc::clone(&self.verdict));
        Flow::wait(
            async move { services.call(&to, call).await?.collect(ANSWER_MAX).await },
            move |answer, exchange| verdict.decide(answer, exchange),
        )
    }
}

impl ForwardAuth {
    /// Tells the service about the request.
    fn describe(&self, exchange: &Exchange<'_>, call: &mut Call) {
        let request = &exchange.request;
        let headers = &mut call.headers;
        headers.set("X-Forwarded-Proto", exchange.client.scheme());
        headers.set("X-Forwarded-Method", request.method());
        headers.set("X-Forwarded-Host", &request.host);
        headers.set("X-Forwarded-Uri", request.target());
        headers.set("X-Forwarded-For", exchange.client.ip_text.as_bytes());
        for (name, template) in &self.extra_headers {
            let mut value = Vec::new();
            template.render(exchange as &dyn VarSource, &mut value);
            headers.set(name, value);
        }
        for name in &self.request_headers {
            if headers.get(name.as_bytes()).is_none()
                && let Some(value) = request.header(name.as_bytes())
            {
                headers.set(name, value);
            }
        }
    }
}

impl Verdict {
    fn decide(&self, answer: Result<(u16, Fields, Vec<u8>), CallError>, exchange: &mut Exchange<'_>) -> Flow {
        let (status, fields, body) = match answer {
            Ok(answer) => answer,
            Err(_) if self.allow_degradation => return Flow::Next,
            Err(error) => {
                log_for!(warn, exchange, %error, "forward-auth: failed to ask the authorization service");
                return Flow::status(self.status_on_error);
            }
        };
        if status >= 300 {
            let mut reply = Reply::text(status, body);
            for name in self.client_headers.iter().filter(|name| !is_of_connection(name)) {
                for value in fields.all(name) {
                    reply = reply.with_header(name.clone(), value);
                }
            }
            return Flow::reply(reply);
        }
        let edits = exchange.request.edit();
        for name in &self.upstream_headers {
            // What the client sent under this name never passes for the service's word.
            set_for_upstream(edits, name, fields.get(name).as_slice());
        }
        Flow::Next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench};
    use plugin::{CallErrorKind, Registry};

    fn chain(config: &Value) -> plugin::Chain {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        testkit::chain(&registry, &json!({"forward-auth": config})).expect("a valid configuration")
    }

    #[test]
    fn the_service_is_told_of_the_request_and_its_fields_reach_the_upstream() {
        let chain = chain(&json!({
            "uri": "http://auth.test:8080/check?x=1",
            "request_headers": ["Authorization", "X-Forwarded-Uri"],
            "extra_headers": {"X-Route": "$request_method-$arg_a"},
            "upstream_headers": ["X-User", "X-Role"]
        }));
        let bench = Bench::new(
            "GET /a?a=b\nHost: shop.test\nAuthorization: secret\nX-Role: admin\nX-Forwarded-Uri: /forged",
        );
        bench.services.answer(200, &[("x-user", "jack")], "");
        let mut exchange = bench.exchange();
        assert_eq!(testkit::access(&chain, &mut exchange), 0);
        let calls = bench.services.calls();
        let [call] = calls.as_slice() else { panic!("{calls:?}") };
        assert_eq!(
            (call.method.as_str(), call.authority.as_str(), call.target.as_str()),
            ("GET", "auth.test:8080", "/check?x=1")
        );
        for line in [
            "X-Forwarded-Proto: http\r\n",
            "X-Forwarded-Method: GET\r\n",
            "X-Forwarded-Host: shop.test\r\n",
            "X-Forwarded-Uri: /a?a=b\r\n",
            "X-Forwarded-For: 127.0.0.1\r\n",
            "X-Route: GET-b\r\n",
            "Authorization: secret\r\n",
        ] {
            assert!(call.headers.contains(line), "{line:?} in {}", call.headers);
        }
        assert!(!call.headers.contains("/forged"), "{}", call.headers);
        assert_eq!(exchange.request.header(b"x-user"), Some(&b"jack"[..]));
        assert_eq!(exchange.request.header(b"x-role"), None, "the client's word does not pass");
    }

    #[test]
    fn a_refusal_is_the_clients_answer_with_the_fields_asked_for() {
        let chain = chain(&json!({"uri": "http://a.test", "client_headers": ["Location", "X-None"]}));
        let bench = Bench::new("GET /");
        bench.services.answer(302, &[("Location", "/login"), ("X-Other", "1")], "go there");
        let reply = testkit::request(&chain, &mut bench.exchange()).expect("an answer");
        assert_eq!((reply.status, reply.body.as_deref()), (302, Some(&b"go there"[..])));
        assert_eq!(reply.header(b"location"), Some(&b"/login"[..]));
        assert_eq!(reply.header(b"x-other"), None);
    }

    #[test]
    fn a_service_that_fails_refuses_unless_degradation_is_allowed() {
        for (config, kind, status) in [
            (json!({"uri": "http://a.test"}), CallErrorKind::Timeout, 403),
            (json!({"uri": "http://a.test", "status_on_error": 503}), CallErrorKind::Connection, 503),
            (json!({"uri": "http://a.test", "status_on_error": 503}), CallErrorKind::Protocol, 503),
            (json!({"uri": "http://a.test", "allow_degradation": true}), CallErrorKind::Connection, 0),
        ] {
            let bench = Bench::new("GET /");
            bench.services.fail(kind);
            assert_eq!(testkit::access(&chain(&config), &mut bench.exchange()), status, "{config} {kind:?}");
        }
        let bench = Bench::new("GET /");
        bench.services.answer(200, &[], &"x".repeat(ANSWER_MAX + 1));
        let chain = chain(&json!({"uri": "http://a.test"}));
        assert_eq!(testkit::access(&chain, &mut bench.exchange()), 403, "an answer without end");
    }

    #[test]
    fn fields_that_frame_a_message_are_left_alone() {
        let names = json!(["Content-Length", "Transfer-Encoding", "Connection", "Host", "X-A"]);
        let chain =
            chain(&json!({"uri": "http://a.test", "upstream_headers": names, "client_headers": names}));
        let fields =
            [("Content-Length", "9"), ("Transfer-Encoding", "chunked"), ("Host", "b.com"), ("X-A", "1")];
        let bench = Bench::new("GET /");
        bench.services.answer(200, &fields, "");
        let mut exchange = bench.exchange();
        assert_eq!(testkit::access(&chain, &mut exchange), 0);
        let edits = exchange.request.edit();
        assert_eq!(testkit::lines(&edits.headers), "X-A: 1\r\n");
        assert_eq!(edits.host.as_deref(), Some(&b"b.com"[..]));
        bench.services.answer(401, &fields, "");
        let reply = testkit::request(&chain, &mut bench.exchange()).expect("refused");
        let names: Vec<_> = reply.headers.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["Host", "X-A"]);
    }

    #[test]
    fn a_post_carries_the_body() {
        let chain = chain(&json!({"uri": "http://a.test", "request_method": "POST", "max_req_body_size": 5}));
        let bench = Bench::new("POST /\nContent-Length: 5\nContent-Encoding: gzip").with_body("hello");
        bench.services.answer(200, &[], "");
        assert_eq!(testkit::access(&chain, &mut bench.exchange()), 0);
        let call = bench.services.calls().remove(0);
        assert_eq!((call.method.as_str(), call.body.as_slice()), ("POST", &b"hello"[..]));
        assert!(call.headers.contains("Content-Encoding: gzip\r\n"), "{}", call.headers);
        let bench = Bench::new("POST /\nContent-Length: 6").with_body("longer");
        assert_eq!(testkit::access(&chain, &mut bench.exchange()), 413);
    }

    #[test]
    fn what_is_no_url_is_refused() {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        for uri in
            ["", "auth.test", "ftp://a.test/", "http://", "http://a:0/", "http://u:p@a/", "http://a/b c"]
        {
            let found = testkit::chain(&registry, &json!({"forward-auth": {"uri": uri}})).expect_err(uri);
            assert_eq!(found[0].path, "/forward-auth/uri", "{uri}");
        }
    }
}
