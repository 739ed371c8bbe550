//! Asks an Open Policy Agent (OPA) server whether a request may pass.
//!
//! ## When to use
//! Use it to express authorization as policies (Rego). OPA gets the request's method, host, path, query and header
//! fields, and, if configured, the route, service and consumer. The policy's result decides.
//!
//! ## Example
//! ```json
//! {
//!     "opa": {
//!         "host": "http://127.0.0.1:8181",
//!         "policy": "example",
//!         "with_route": true,
//!         "send_headers_upstream": ["X-User-ID"]
//!     }
//! }
//! ```
//! The plugin posts `{"input": ...}` to `/v1/data/example`. The policy's result must be an object: `allow` is needed;
//! `reason`, `headers` and `status_code` shape the answer to a client that is refused.
//!
//! ## Differences from APISIX
//! - Only `allow: true` lets a request pass; in APISIX every value but `false` does, `null` included.
//! - If the result is not an object, as with a policy that returns a boolean, the response is 503; in APISIX it is 500.
//! - `route`, `service` and `consumer` are sent as stored: the route without its service's plugins, encrypted fields
//!   encrypted, references to secrets unresolved.
//! - A `status_code` outside 200 to 599 is replaced by 403.
//! - A response of OPA of more than 1 MiB is an error.

use crate::headers::{is_of_connection, set_for_upstream};
use crate::logging::request_fields;
use crate::service_call::{self, ServiceConfig};
use model::ConfigError;
use model::var::{Var, VarSource};
use plugin::{
    CallBody, CallError, CallTimeouts, CompileContext, Endpoint, Exchange, Fields, Flow, OnAccess, Plugin,
    PluginDef, Reply, Stored, query_args,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Opa>("opa", 2001).on_access().build()
}

/// Bytes of OPA's answer that are read. It is a decision with a few header fields, not a document.
const ANSWER_MAX: usize = 1024 * 1024;

/// Characters of an answer that the log shows.
const SHOWN_MAX: usize = 200;

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    host: String,
    policy: String,
    #[serde(default)]
    send_headers_upstream: Vec<String>,
    with_route: bool,
    with_service: bool,
    with_consumer: bool,
    #[serde(flatten)]
    service: ServiceConfig,
}

/// The compiled form.
pub struct Opa {
    endpoint: Endpoint,
    timeouts: CallTimeouts,
    with_route: bool,
    with_service: bool,
    with_consumer: bool,
    verdict: Arc<Verdict>,
}

/// What becomes of a request by OPA's answer.
struct Verdict {
    send_headers_upstream: Vec<String>,
}

impl Plugin for Opa {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let url = format!("{}/v1/data/{}", config.host, config.policy);
        Ok(Self {
            endpoint: config.service.endpoint(&url, "/host", cx)?,
            timeouts: config.service.timeouts(),
            with_route: config.with_route,
            with_service: config.with_service,
            with_consumer: config.with_consumer,
            verdict: Arc::new(Verdict { send_headers_upstream: config.send_headers_upstream }),
        })
    }

    fn schema() -> Value {
        let with = |what: &str| {
            let description = format!("Whether OPA gets the request's {what}.");
            json!({"description": description, "type": "boolean", "default": false})
        };
        let mut schema = json!({
            "type": "object",
            "properties": {
                "host": {"description": "The address of the OPA server: `http://host:port`.", "type": "string"},
                "policy": {"description": "The policy's path below `/v1/data/`.", "type": "string"},
                "send_headers_upstream": {
                    "description": "Fields of an allowing result's `headers` that the upstream gets.",
                    "type": "array",
                    "minItems": 1,
                    "items": {"type": "string"}
                },
                "with_route": with("route"),
                "with_service": with("service"),
                "with_consumer": with("consumer")
            },
            "required": ["host", "policy"]
        });
        ServiceConfig::extend_schema(&mut schema);
        schema
    }
}

impl OnAccess for Opa {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let Ok(mut call) = service_call::call(&self.endpoint, "POST", self.timeouts) else {
            return Flow::status(403);
        };
        call.headers.set("Content-Type", "application/json");
        call.body = CallBody::Bytes(json!({ "input": self.input(exchange) }).to_string().into());
        // Asking for a decision changes nothing.
        call.repeatable = true;
        let services = exchange.services.clone();
        let (to, verdict) = (self.endpoint.upstream.clone(), Arc::clone(&self.verdict));
        Flow::wait(
            async move { services.call(&to, call).await?.collect(ANSWER_MAX).await },
            move |answer, exchange| verdict.decide(answer, exchange),
        )
    }
}

impl Opa {
    /// What the policy sees as `input`.
    fn input(&self, exchange: &Exchange<'_>) -> Map<String, Value> {
        let (request, client) = (&exchange.request, &exchange.client);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let var = |var: &Var| exchange.var(var).map(|value| text(&value)).unwrap_or_default();
        let seconds: u64 = var(&Var::Msec).split('.').next().unwrap_or_default().parse().unwrap_or_default();
        let mut input = Map::new();
        input.insert("type".to_owned(), "http".into());
        input.insert(
            "request".to_owned(),
            json!({
                "scheme": client.scheme(),
                "method": text(request.method()),
                "host": text(&request.host),
                "port": client.local.port(),
                "path": text(&request.path),
                "headers": request_fields(exchange),
                "query": query_args(request.query()),
            }),
        );
        input.insert(
            "var".to_owned(),
            json!({
                "server_addr": var(&Var::ServerAddr),
                "server_port": var(&Var::ServerPort),
                "remote_addr": var(&Var::RemoteAddr),
                "remote_port": var(&Var::RemotePort),
                "timestamp": seconds,
            }),
        );
        let route = exchange.route.filter(|_| self.with_route).and_then(|route| described(&route.stored));
        let service =
            exchange.route.filter(|_| self.with_service).and_then(|route| described(&route.service_stored));
        let consumer = exchange.consumer.filter(|_| self.with_consumer).and_then(|consumer| {
            let mut members = consumer.stored.members()?;
            members.insert("consumer_name".to_owned(), consumer.name.clone().into());
            Some(members)
        });
        for (name, members) in [("route", route), ("service", service), ("consumer", consumer)] {
            if let Some(members) = members {
                input.insert(name.to_owned(), Value::Object(members));
            }
        }
        input
    }
}

/// A resource without its upstream, which is of no use to policies.
fn described(stored: &Stored) -> Option<Map<String, Value>> {
    let mut members = stored.members()?;
    members.remove("upstream");
    Some(members)
}

impl Verdict {
    fn decide(&self, answer: Result<(u16, Fields, Vec<u8>), CallError>, exchange: &mut Exchange<'_>) -> Flow {
        let route = exchange.route.map_or("", |route| &route.id);
        let body = match answer {
            Ok((_, _, body)) => body,
            Err(error) => {
                tracing::error!(route, %error, "opa: failed to get a decision, the request is refused");
                return Flow::status(403);
            }
        };
        let result = match serde_json::from_slice::<Value>(&body) {
            Ok(Value::Object(mut data)) => data.remove("result"),
            _ => None,
        };
        let Some(Value::Object(result)) = result else {
            let shown: String = String::from_utf8_lossy(&body).chars().take(SHOWN_MAX).collect();
            tracing::error!(
                route,
                answer = shown,
                "opa: invalid decision: not a JSON object with an object `result`, the request is refused"
            );
            return Flow::status(503);
        };
        if result.get("allow") != Some(&Value::Bool(true)) {
            return refusal(&result, route);
        }
        if !self.send_headers_upstream.is_empty() {
            let headers = result.get("headers").and_then(Value::as_object);
            let edits = exchange.request.edit();
            for name in &self.send_headers_upstream {
                // What the client sent under this name never passes for the policy's word.
                set_for_upstream(
                    edits,
                    name,
                    &headers.map(|headers| named(headers, name)).unwrap_or_default(),
                );
            }
        }
        Flow::Next
    }
}

/// The answer to a client that the policy refuses.
fn refusal(result: &Map<String, Value>, route: &str) -> Flow {
    let status = result.get("status_code").map_or(Some(403), |code| {
        let code = code.as_u64().or_else(|| code.as_str()?.parse().ok());
        code.and_then(|code| u16::try_from(code).ok()).filter(|code| (200..600).contains(code))
    });
    if status.is_none() {
        let code = &result["status_code"];
        tracing::error!(route, %code, "opa: invalid status_code, the request is refused with 403");
    }
    let mut reply = Reply::status(status.unwrap_or(403));
    reply.body = match result.get("reason") {
        None | Some(Value::Null | Value::Bool(false)) => None,
        Some(Value::String(reason)) => Some(reason.clone().into_bytes()),
        Some(reason) => Some(reason.to_string().into_bytes()),
    };
    for (name, value) in result.get("headers").and_then(Value::as_object).into_iter().flatten() {
        let is_own = ["server", "date"].iter().any(|own| name.eq_ignore_ascii_case(own));
        if !is_own && !is_of_connection(name) {
            for value in texts(value) {
                reply = reply.with_header(name.clone(), value);
            }
        }
    }
    Flow::reply(reply)
}

/// The values of the field called `name` (any case) among a result's `headers`.
fn named(headers: &Map<String, Value>, name: &str) -> Vec<String> {
    let found = headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
    found.map(|(_, value)| texts(value)).unwrap_or_default()
}

/// The values of a field: one, or a list of them.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Number(number) => vec![number.to_string()],
        Value::Bool(truth) => vec![truth.to_string()],
        Value::Array(values) => values.iter().flat_map(texts).collect(),
        Value::Null | Value::Object(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench};
    use plugin::{CallErrorKind, Registry, RouteInfo};

    fn chain(more: &Value) -> plugin::Chain {
        let registry = Registry::new([def()], Map::new()).expect("a valid schema");
        let mut config = json!({"host": "http://opa.test:8181", "policy": "a/b"});
        for (key, value) in more.as_object().into_iter().flatten() {
            config[key] = value.clone();
        }
        testkit::chain(&registry, &json!({ "opa": config })).expect("a valid configuration")
    }

    fn stored(value: &Value) -> Stored {
        Stored::new(value.to_string().into_bytes().into())
    }

    #[test]
    fn the_policy_is_told_of_the_request_and_of_what_is_configured() {
        let bench = Bench::new("GET /hello%20x?user=none&a=1&a=2&b\nHost: a.com\nX-A: 1\nX-A: 2").on_route(
            RouteInfo {
                id: "r1".to_owned(),
                stored: stored(&json!({"id": "r1", "name": "n", "upstream": {"nodes": {}}})),
                service_stored: stored(&json!({"id": "s1"})),
                ..RouteInfo::default()
            },
        );
        bench.services.answer(200, &[], r#"{"result": {"allow": true}}"#);
        let mut exchange = bench.exchange();
        assert_eq!(testkit::access(&chain(&json!({})), &mut exchange), 0);
        let call = bench.services.calls().remove(0);
        assert_eq!((call.method.as_str(), call.target.as_str()), ("POST", "/v1/data/a/b"));
        assert_eq!(
            (call.authority.as_str(), call.headers.as_str()),
            ("opa.test:8181", "Content-Type: application/json\r\n")
        );
        let mut body: Value = serde_json::from_slice(&call.body).expect("JSON");
        let vars = body["input"].as_object_mut().and_then(|input| input.remove("var")).expect("variables");
        assert!(vars["timestamp"].as_u64().is_some_and(|seconds| seconds > 1_700_000_000), "{vars}");
        assert_eq!((&vars["server_port"], &vars["remote_addr"]), (&json!("9080"), &json!("127.0.0.1")));
        let request = json!({
            "scheme": "http", "method": "GET", "host": "a.com", "port": 9080, "path": "/hello x",
            "headers": {"host": "a.com", "x-a": ["1", "2"]},
            "query": {"user": "none", "a": ["1", "2"], "b": true},
        });
        assert_eq!(body, json!({"input": {"type": "http", "request": request}}));
        bench.services.answer(200, &[], r#"{"result": {"allow": true}}"#);
        let all = json!({"with_route": true, "with_service": true, "with_consumer": true});
        assert_eq!(testkit::access(&chain(&all), &mut exchange), 0);
        let body: Value = serde_json::from_slice(&bench.services.calls().remove(0).body).expect("JSON");
        assert_eq!(body["input"]["route"], json!({"id": "r1", "name": "n"}));
        assert_eq!(body["input"]["service"], json!({"id": "s1"}));
        assert!(body["input"].get("consumer").is_none(), "there is none");
    }

    #[test]
    fn only_a_clear_yes_lets_a_request_pass() {
        for (answer, status) in [
            (r#"{"result": {"allow": true}}"#, 0),
            (r#"{"result": {"allow": false}}"#, 403),
            (r#"{"result": {}}"#, 403),
            (r#"{"result": {"allow": null}}"#, 403),
            (r#"{"result": {"allow": "true"}}"#, 403),
            (r#"{"result": {"allow": []}}"#, 403),
            (r#"{"result": {"allow": false, "status_code": 302}}"#, 302),
            (r#"{"result": {"allow": false, "status_code": "401"}}"#, 401),
            (r#"{"result": {"allow": false, "status_code": 99}}"#, 403),
            (r#"{"result": {"allow": false, "status_code": 70000}}"#, 403),
            (r#"{"result": true}"#, 503),
            (r#"{"result": null}"#, 503),
            ("{}", 503),
            ("[]", 503),
            ("\"allow\"", 503),
            ("<html>", 503),
            ("", 503),
        ] {
            let bench = Bench::new("GET /");
            bench.services.answer(200, &[], answer);
            assert_eq!(testkit::access(&chain(&json!({})), &mut bench.exchange()), status, "{answer}");
        }
        for kind in [CallErrorKind::Timeout, CallErrorKind::Connection, CallErrorKind::Protocol] {
            let bench = Bench::new("GET /");
            bench.services.fail(kind);
            assert_eq!(testkit::access(&chain(&json!({})), &mut bench.exchange()), 403, "{kind:?}");
        }
        let bench = Bench::new("GET /");
        bench.services.answer(
            200,
            &[],
            &format!("{{\"result\":{{\"allow\":true}}{}}}", " ".repeat(ANSWER_MAX)),
        );
        assert_eq!(testkit::access(&chain(&json!({})), &mut bench.exchange()), 403, "an answer without end");
    }

    #[test]
    fn a_refused_client_gets_what_the_policy_says() {
        for (result, body) in [
            (json!({"reason": "no"}), Some("no")),
            (json!({"reason": {"info": []}}), Some("{\"info\":[]}")),
            (json!({"reason": 7}), Some("7")),
            (json!({}), None),
        ] {
            let bench = Bench::new("GET /");
            bench.services.answer(200, &[], &json!({ "result": result }).to_string());
            let reply = testkit::request(&chain(&json!({})), &mut bench.exchange()).expect("a refusal");
            assert_eq!(reply.body.as_deref(), body.map(str::as_bytes), "{result}");
        }
        let bench = Bench::new("GET /");
        let headers = json!({
            "X-A": "a", "X-N": 1, "X-L": ["1", "2"], "X-O": {}, "Content-Type": "application/json",
            "Content-Length": "1", "Transfer-Encoding": "chunked", "Connection": "x", "Server": "s"
        });
        bench.services.answer(200, &[], &json!({"result": {"allow": false, "headers": headers}}).to_string());
        let reply = testkit::request(&chain(&json!({})), &mut bench.exchange()).expect("a refusal");
        let mut fields: Vec<_> = reply
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value)))
            .collect();
        fields.sort();
        assert_eq!(fields, ["Content-Type: application/json", "X-A: a", "X-L: 1", "X-L: 2", "X-N: 1"]);
    }

    #[test]
    fn the_upstream_gets_the_policys_fields_and_never_the_clients() {
        let chain = chain(
            &json!({"send_headers_upstream": ["X-User", "x-role", "X-None", "Host", "Content-Length"]}),
        );
        let bench = Bench::new("GET /\nX-User: forged\nX-None: forged");
        let headers = json!({"x-user": "u", "X-Role": ["a", "b"], "host": "b.com", "content-length": "9"});
        bench.services.answer(200, &[], &json!({"result": {"allow": true, "headers": headers}}).to_string());
        let mut exchange = bench.exchange();
        assert_eq!(testkit::access(&chain, &mut exchange), 0);
        let edits = exchange.request.edit();
        assert_eq!(testkit::lines(&edits.headers), "X-User: u\r\nx-role: a\r\nx-role: b\r\n");
        assert_eq!(edits.headers.get(b"x-none"), Some(None));
        assert_eq!(edits.host.as_deref(), Some(&b"b.com"[..]));
    }

    #[test]
    fn an_address_that_is_no_url_is_refused() {
        let registry = Registry::new([def()], Map::new()).expect("a valid schema");
        for (host, policy) in [("opa.test", "a"), ("http://", "a"), ("http://a", "b c")] {
            let config = json!({"opa": {"host": host, "policy": policy}});
            let found = testkit::chain(&registry, &config).expect_err(host);
            assert_eq!(found[0].path, "/opa/host", "{host} {policy}");
        }
    }
}
