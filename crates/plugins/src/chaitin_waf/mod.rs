//! Asks Chaitin's SafeLine, a web application firewall, about requests.
//!
//! ## When to use
//! Where SafeLine's detection service runs: it gets each request before the upstream does, and says whether it is an attack.
//!
//! ## Example
//! ```json
//! {
//!     "chaitin-waf": {
//!         "mode": "block",
//!         "match": [{"vars": [["http_waf", "==", "true"]]}]
//!     }
//! }
//! ```
//! The service's nodes stand in the plugin's metadata: `{"nodes": [{"host": "127.0.0.1", "port": 8000}]}`; a host may be
//! `unix:/path`. With `mode: monitor`, the default, attacks are logged and pass.
//!
//! ## Differences from APISIX
//! - An answer that is neither a pass nor a rejection is an error, and so is one without an end. In APISIX it is a pass.
//! - A rejection without a status or event id refuses as well.
//! - In `block` mode a request with a body of more than 64 MiB gets 413.

mod service;
mod t1k;

use crate::headers::{is_of_connection, is_token};
use crate::identity::random_text;
use model::ConfigError;
use model::var::BodyNeed;
use plugin::{CompileContext, Exchange, Flow, OnAccess, Plugin, PluginDef, Reply, WholeBody, log_for};
use router::Expr;
use serde::Deserialize;
use serde_json::{Value, json};
use service::{Node, Service};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use stdx::{Clock, Moment, PerWorker};
use t1k::{Answer, Extra, Verdict};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<ChaitinWaf>("chaitin-waf", 2700).on_access().build()
}

/// Bytes of a body that are held for the service, of which it gets the first `req_body_size`.
const BODY_MAX: usize = 64 << 20;

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    mode: Option<Mode>,
    #[serde(default, rename = "match")]
    matches: Vec<Match>,
    append_waf_resp_header: bool,
    append_waf_debug_header: bool,
    #[serde(default)]
    config: Settings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Off,
    Monitor,
    Block,
}

#[derive(Debug, Deserialize)]
struct Match {
    vars: Option<Value>,
}

/// Times are in milliseconds, `req_body_size` in KiB.
#[derive(Debug, Default, Clone, Deserialize)]
struct Settings {
    connect_timeout: Option<u64>,
    send_timeout: Option<u64>,
    read_timeout: Option<u64>,
    req_body_size: Option<usize>,
    keepalive_size: Option<usize>,
    keepalive_timeout: Option<u64>,
    real_client_ip: Option<bool>,
}

/// What stands in the plugin's metadata.
#[derive(Debug, Deserialize)]
struct Metadata {
    mode: Option<Mode>,
    nodes: Vec<Node>,
    #[serde(default)]
    config: Settings,
}

/// The compiled form.
pub struct ChaitinWaf {
    mode: Mode,
    matches: Vec<Expr>,
    /// Whether responses say what the service said, and why it said nothing.
    tells: (bool, bool),
    /// `None` where there is no metadata.
    service: Option<Arc<Service>>,
    real_client_ip: bool,
    body_bytes: usize,
    clock: Arc<Clock>,
}

impl Plugin for ChaitinWaf {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let (mut matches, mut errors) = (Vec::new(), Vec::new());
        for (at, wanted) in config.matches.iter().enumerate() {
            match Expr::compile(wanted.vars.as_ref().unwrap_or(&Value::Array(Vec::new()))) {
                Ok(expression) => matches.push(expression),
                Err(found) => errors.extend(found.into_iter().map(|error| {
                    let message = format!("failed to validate the 'vars' expression: {}", error.message);
                    ConfigError::new(format!("/match/{at}/vars"), message)
                })),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let metadata = cx.metadata.and_then(|metadata| Metadata::deserialize(metadata).ok());
        let shared = metadata.as_ref().map(|metadata| metadata.config.clone()).unwrap_or_default();
        let own = config.config;
        let ms = |own: Option<u64>, shared: Option<u64>, default: u64| {
            Duration::from_millis(own.or(shared).unwrap_or(default))
        };
        let connect_timeout = ms(own.connect_timeout, shared.connect_timeout, 1000);
        let send = ms(own.send_timeout, shared.send_timeout, 1000);
        let read = ms(own.read_timeout, shared.read_timeout, 1000);
        let mode = config.mode.or(metadata.as_ref().and_then(|metadata| metadata.mode));
        let service = match metadata {
            None => None,
            Some(metadata) => {
                let nodes =
                    metadata.nodes.iter().map(|node| node.compile(cx)).collect::<Result<Vec<_>, _>>()?;
                Some(Arc::new(Service {
                    nodes,
                    turn: AtomicUsize::new(0),
                    connect_timeout,
                    answer_timeout: send.saturating_add(read),
                    keep: own.keepalive_size.or(shared.keepalive_size).unwrap_or(256),
                    idle: ms(own.keepalive_timeout, shared.keepalive_timeout, 60_000),
                    workers: PerWorker::default(),
                }))
            }
        };
        Ok(Self {
            mode: mode.unwrap_or(Mode::Monitor),
            matches,
            tells: (config.append_waf_resp_header, config.append_waf_debug_header),
            service,
            real_client_ip: own.real_client_ip.or(shared.real_client_ip).unwrap_or(true),
            body_bytes: own.req_body_size.or(shared.req_body_size).unwrap_or(1024).saturating_mul(1024),
            clock: cx.shared.get(),
        })
    }

    fn body_need(&self) -> BodyNeed {
        self.matches.iter().map(Expr::body_need).collect()
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "mode": mode_schema(),
                "match": {
                    "description": "The requests that the service is asked about: those for which one expression holds.",
                    "type": "array",
                    "items": {"type": "object", "properties": {"vars": {"type": "array"}}}
                },
                "append_waf_resp_header": {
                    "description": "Whether responses say what the service said.", "type": "boolean", "default": true
                },
                "append_waf_debug_header": {
                    "description": "Whether they also name its node and errors.", "type": "boolean", "default": false
                },
                "config": settings_schema(false)
            }
        })
    }

    fn metadata_schema() -> Option<Value> {
        Some(json!({
            "type": "object",
            "properties": {
                "mode": mode_schema(),
                "nodes": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "properties": {
                            "host": {"type": "string", "pattern": "^\\*?[0-9a-zA-Z-._\\[\\]:/]+$"},
                            "port": {"type": "integer", "minimum": 1, "default": 80}
                        },
                        "required": ["host"]
                    }
                },
                "config": settings_schema(true)
            },
            "required": ["nodes"]
        }))
    }
}

fn mode_schema() -> Value {
    json!({"type": "string", "enum": ["off", "monitor", "block"]})
}

fn settings_schema(defaults: bool) -> Value {
    let number = |default: u64| match defaults {
        true => json!({"type": "integer", "default": default}),
        false => json!({"type": "integer"}),
    };
    let mut schema = json!({
        "type": "object",
        "properties": {
            "connect_timeout": number(1000),
            "send_timeout": number(1000),
            "read_timeout": number(1000),
            "req_body_size": number(1024),
            "keepalive_size": number(256),
            "keepalive_timeout": number(60_000),
            "real_client_ip": {"type": "boolean"}
        }
    });
    if defaults {
        schema["properties"]["real_client_ip"]["default"] = json!(true);
        schema["default"] = json!({});
    }
    schema
}

/// What a response says of the firewall.
#[derive(Default)]
struct Told {
    state: &'static str,
    error: Option<String>,
    server: Option<String>,
    time_ms: Option<u64>,
    verdict: Option<(u16, &'static str)>,
}

impl OnAccess for ChaitinWaf {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let Some(service) = &self.service else {
            let error = Some("missing metadata".to_owned());
            self.tell(Told { state: "err", error, ..Told::default() }, exchange);
            return Flow::status(500);
        };
        if self.mode == Mode::Off {
            self.tell(Told { state: "off", ..Told::default() }, exchange);
            return Flow::Next;
        }
        let is_meant = self.matches.is_empty() || self.matches.iter().any(|wanted| wanted.eval(&*exchange));
        if !is_meant {
            self.tell(Told { state: "no", ..Told::default() }, exchange);
            return Flow::Next;
        }
        let body = match exchange.request.whole_body(BODY_MAX) {
            WholeBody::Unread => return Flow::Body(BODY_MAX),
            WholeBody::TooLong if self.mode == Mode::Block => return Flow::status(413),
            WholeBody::TooLong => &[],
            WholeBody::Whole(body) => &body[..body.len().min(self.body_bytes)],
        };
        let question = self.question(body, exchange);
        let (node, idle) = service.next(exchange);
        let (services, asking, server) =
            (Rc::clone(exchange.services), Arc::clone(service), service.nodes[node].0.clone());
        let (mode, tells) = (self.mode, self.tells);
        let began = Moment::now();
        Flow::wait(
            async move { asking.ask(&services, &idle, node, &question).await },
            move |answer, exchange| {
                let time_ms = Some(Moment::now().millis_since(began));
                let told = Told { server: Some(server), time_ms, ..Told::default() };
                conclude(answer, told, mode, tells, exchange)
            },
        )
    }
}

/// What becomes of a request by the service's answer.
fn conclude(
    answer: Result<Answer, String>,
    mut told: Told,
    mode: Mode,
    tells: (bool, bool),
    exchange: &mut Exchange<'_>,
) -> Flow {
    let verdict = answer.and_then(|answer| {
        let verdict = answer.verdict().map_err(str::to_owned)?;
        Ok((verdict, answer))
    });
    match verdict {
        Err(why) => {
            told.state = if why.contains("timed out") { "timeout" } else { "waf-err" };
            log_for!(warn, exchange, "chaitin-waf: the service gave no verdict: {why}");
            told.error = Some(why);
            tell(told, tells, exchange);
            if mode == Mode::Monitor { Flow::Next } else { Flow::status(500) }
        }
        Ok((Verdict::Pass, answer)) => {
            told.state = "yes";
            told.verdict = Some((200, "pass"));
            tell(told, tells, exchange);
            if mode == Mode::Block {
                add_fields(&answer.fields, exchange);
            }
            Flow::Next
        }
        Ok((Verdict::Reject { status, event_id }, answer)) => {
            told.state = "yes";
            told.verdict = Some((status, "reject"));
            tell(told, tells, exchange);
            if mode == Mode::Monitor {
                log_for!(
                    warn,
                    exchange,
                    "chaitin-waf monitor mode: request would have been rejected, event_id: {event_id}"
                );
                return Flow::Next;
            }
            log_for!(error, exchange, "chaitin-waf: request rejected, event_id: {event_id}");
            add_fields(&answer.fields, exchange);
            let message = "blocked by Chaitin SafeLine Web Application Firewall";
            let body = format!(
                "{{\"code\": {status}, \"success\":false, \"message\": \"{message}\", \"event_id\": \"{event_id}\"}}\n"
            );
            Flow::reply(Reply::text(status, body))
        }
    }
}

/// Adds the fields that the service has for the client.
fn add_fields(lines: &[u8], exchange: &mut Exchange<'_>) {
    for line in String::from_utf8_lossy(lines).lines() {
        if let Some((name, value)) = line.split_once(':')
            && is_token(name)
            && !is_of_connection(name)
        {
            exchange.reply_headers.append(name, value.trim());
        }
    }
}

impl ChaitinWaf {
    fn tell(&self, told: Told, exchange: &mut Exchange<'_>) {
        tell(told, self.tells, exchange);
    }

    /// The message about a request.
    fn question(&self, body: &[u8], exchange: &Exchange<'_>) -> Vec<u8> {
        let request = &exchange.request;
        let mut head = [request.method(), b" ", request.target(), b" HTTP/1.1\r\n"].concat();
        let view = request.view;
        for field in &view.head.fields {
            for part in [field.name.get(view.bytes), b": ", field.value.get(view.bytes), b"\r\n"] {
                head.extend_from_slice(part);
            }
        }
        head.extend_from_slice(b"\r\n");
        let client = &exchange.client;
        let peer = client.peer.to_string();
        let extra = Extra {
            uuid: random_text().unwrap_or_default(),
            remote: (
                if self.real_client_ip { &client.ip_text } else { &peer },
                client.addr.port().to_string(),
            ),
            local: (client.local.ip().to_string(), client.local.port().to_string()),
            scheme: client.scheme(),
            server_name: &String::from_utf8_lossy(&request.host),
            proxy_name: &exchange.gateway.hostname,
            began_us: self.clock.unix_ms(exchange.timing.started) * 1000,
        };
        t1k::question(&head, body, &extra)
    }
}

fn tell(told: Told, (all, debug): (bool, bool), exchange: &mut Exchange<'_>) {
    if !all {
        return;
    }
    let fields = &mut *exchange.reply_headers;
    fields.set("X-APISIX-CHAITIN-WAF", told.state);
    if let Some(time_ms) = told.time_ms {
        fields.set_number("X-APISIX-CHAITIN-WAF-TIME", time_ms);
    }
    if let Some((status, action)) = told.verdict {
        fields.set("X-APISIX-CHAITIN-WAF-ACTION", action);
        fields.set_number("X-APISIX-CHAITIN-WAF-STATUS", status.into());
    }
    for (name, value) in
        [("X-APISIX-CHAITIN-WAF-ERROR", told.error), ("X-APISIX-CHAITIN-WAF-SERVER", told.server)]
    {
        if let Some(value) = value.filter(|_| debug) {
            fields.set(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench};
    use plugin::{Chain, Ingredients, Parent, Registry};

    fn chain(config: &Value, metadata: Option<&Value>) -> Chain {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("valid schemas");
        let parent = Parent { resource_key: "/routes/1", config_version: 1 };
        let ingredients = Ingredients { metadata, ..Ingredients::default() };
        Chain::new(vec![registry.compile_one("chaitin-waf", config, ingredients, parent).expect("valid")])
    }

    #[test]
    fn requests_that_are_not_meant_pass_unasked() {
        let metadata = json!({"nodes": [{"host": "waf.test", "port": 8000}]});
        for (config, metadata, request, status, state) in [
            (json!({}), None, "GET /", 500, "err"),
            (json!({"mode": "off"}), Some(&metadata), "GET /", 0, "off"),
            (json!({"match": [{"vars": [["http_waf", "==", "true"]]}]}), Some(&metadata), "GET /", 0, "no"),
        ] {
            let bench = Bench::new(request);
            let mut exchange = bench.exchange();
            assert_eq!(testkit::access(&chain(&config, metadata), &mut exchange), status);
            let lines = testkit::lines(exchange.reply_headers);
            assert_eq!(lines, format!("X-APISIX-CHAITIN-WAF: {state}\r\n"));
        }
        let silent = chain(&json!({"append_waf_resp_header": false}), None);
        let bench = Bench::new("GET /");
        let mut exchange = bench.exchange();
        assert_eq!(testkit::access(&silent, &mut exchange), 500);
        assert!(exchange.reply_headers.is_empty());
        let registry = Registry::new([def()], serde_json::Map::new()).expect("valid schemas");
        let config = json!({"chaitin-waf": {"match": [{"vars": [["a", "~~~", 1]]}]}});
        assert!(testkit::chain(&registry, &config).is_err());
        assert!(
            registry
                .check_metadata("chaitin-waf", &json!({"nodes": []}))
                .is_some_and(|report| !report.is_ok())
        );
    }
}
