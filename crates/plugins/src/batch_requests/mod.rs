//! Executes several requests that a client sends in one, at `/apisix/batch-requests`, and returns a list of the
//! responses.
//!
//! ## When to use
//! Use it for clients on slow networks that call several APIs at once. The gateway processes each request of a batch
//! like a separate one, with the client's header fields, including routing, authentication and limits. The endpoint
//! exists while the plugin is in the `plugins` list; a route with `public-api` exposes it to clients.
//!
//! ## Example
//! ```json
//! {
//!     "batch-requests": {}
//! }
//! ```
//! A client posts
//! `{"headers": {"X-A": "1"}, "timeout": 500, "pipeline": [{"path": "/a"}, {"method": "POST", "path": "/b", "body": "x"}]}`
//! and gets `[{"status": 200, "reason": "OK", "headers": {...}, "body": "..."}, ...]`. Requests are sent one after the other,
//! to the port that the client came by at this machine's loopback address. Once one has timed out, the rest are not sent
//! and get 504. `plugin_attr.batch-requests.uri` names another path; metadata bounds body and number. Configuring the plugin
//! in a resource changes nothing.
//!
//! ## Differences from APISIX
//! - A batch inside a batch is rejected.
//! - Answers of one batch have at most 16 MiB of bodies; what is beyond has `read_body_err` instead.
//! - Bytes of a body that are no UTF-8 become U+FFFD. The client's own `Accept-Encoding` is not passed on, since compressed
//!   bodies would be damaged.
//! - A request with `version` 1.0 is sent as HTTP/1.1.
//! - `X-Forwarded-*` fields are not passed on: the gateway may trust its own address. The client's address is.
//! - Over TLS the requests of a batch are sent over TLS, and `ssl_verify` counts.
//! - The answer is `application/json`.

mod answers;
mod request;

use answers::Answers;
use model::ConfigError;
use model::schema::Validator;
use plugin::{
    ApiContext, Call, CallErrorKind, CallTimeouts, CompileContext, Exchange, Flow, Loopback, Plugin,
    PluginDef, PublicApi, Reply, Services, UpstreamChoice, WholeBody,
};
use request::{Batch, MARK, Shared};
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::rc::Rc;
use std::time::Duration;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<BatchRequests>("batch-requests", 4010).public_apis(public_apis).build()
}

/// The path of the endpoint unless `plugin_attr` names another.
const URI: &str = "/apisix/batch-requests";

/// Bytes of a batch unless the metadata says otherwise: APISIX's default.
const BODY_MAX: u64 = 1 << 20;

/// Requests of a batch unless the metadata says otherwise: APISIX's default.
const ITEMS_MAX: u64 = 1000;

/// The longest that a step of a request may take, whatever the client asks for: the engine lets no plugin wait longer.
const TIMEOUT_MAX: Duration = Duration::from_secs(300);

/// What a user writes: nothing.
#[derive(Debug, Deserialize)]
pub struct Config {}

/// The compiled form.
pub struct BatchRequests;

impl Plugin for BatchRequests {
    type Config = Config;

    fn compile(_: Config, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(Self)
    }

    fn schema() -> Value {
        json!({"type": "object"})
    }

    fn metadata_schema() -> Option<Value> {
        Some(json!({
            "type": "object",
            "properties": {
                "max_body_size": {
                    "description": "Bytes that a batch may have.",
                    "type": "integer",
                    "exclusiveMinimum": 0,
                    "default": BODY_MAX
                },
                "max_pipeline_items": {
                    "description": "Requests that a batch may have.",
                    "type": "integer",
                    "exclusiveMinimum": 0,
                    "default": ITEMS_MAX
                }
            }
        }))
    }
}

/// The endpoint.
struct Endpoint {
    body_max: usize,
    items_max: u64,
    validator: Validator,
    loopback: Loopback,
}

fn public_apis(cx: ApiContext<'_>) -> Vec<PublicApi> {
    let uri = cx.attributes.and_then(|attributes| attributes["uri"].as_str()).unwrap_or(URI);
    let limit = |name: &str, default: u64| {
        cx.metadata.and_then(|metadata| metadata[name].as_u64()).unwrap_or(default)
    };
    let Ok(validator) = Validator::compile(&request::schema()) else { return Vec::new() };
    let endpoint = Endpoint {
        body_max: usize::try_from(limit("max_body_size", BODY_MAX)).unwrap_or(usize::MAX),
        items_max: limit("max_pipeline_items", ITEMS_MAX),
        validator,
        loopback: cx.loopback(),
    };
    vec![PublicApi {
        method: Cow::Borrowed("POST"),
        uri: uri.to_owned(),
        answer: Box::new(move |exchange| endpoint.answer(exchange).unwrap_or_else(refuse)),
    }]
}

/// A status and a message for the client, in place of answers.
type Refusal = (u16, String);

fn refuse((status, message): Refusal) -> Flow {
    Flow::reply(Reply::error(status, &message).with_header("Content-Type", "application/json"))
}

impl Endpoint {
    fn answer(&self, exchange: &Exchange<'_>) -> Result<Flow, Refusal> {
        let body = match exchange.request.whole_body(self.body_max) {
            WholeBody::Unread => return Ok(Flow::Body(self.body_max)),
            WholeBody::TooLong => return Err((413, self.too_long(exchange))),
            WholeBody::Whole(body) => body,
        };
        if exchange.request.header(MARK.as_bytes()).is_some() {
            return Err((400, "a batch must not hold another batch".to_owned()));
        }
        let batch = self.read(body)?;
        let timeouts = CallTimeouts::all(Duration::from_millis(batch.timeout).min(TIMEOUT_MAX));
        let shared = Shared::new(&batch, exchange, timeouts);
        // All of them first: of a batch with a mistake nothing is sent.
        let calls = batch.pipeline.into_iter().enumerate().map(|(at, item)| {
            let ssl_verify = item.ssl_verify;
            let wrong = |error: plugin::BadCall| (400, format!("bad request body: item {}: {error}", at + 1));
            Ok((ssl_verify, shared.target(&item).map_err(wrong)?, item))
        });
        let checked = calls.collect::<Result<Vec<_>, Refusal>>()?;
        let listener = |ssl_verify| {
            let found = self.loopback.listener(exchange, ssl_verify);
            found.ok_or_else(|| (500, "connect to apisix failed: no listener".to_owned()))
        };
        let (plain, verified) = (listener(false)?, listener(true)?);
        let services = Rc::clone(exchange.services);
        let work = async move {
            let calls = checked.into_iter().map(|(ssl_verify, target, item)| {
                let to = if ssl_verify { verified.clone() } else { plain.clone() };
                (to, shared.call(target, item))
            });
            run(services, calls).await
        };
        Ok(Flow::wait(work, |answers, _| answers.map_or_else(refuse, Answers::into_flow)))
    }

    fn too_long(&self, exchange: &Exchange<'_>) -> String {
        let most = self.body_max;
        match exchange.request.header(b"content-length").map(String::from_utf8_lossy) {
            Some(length) => format!("request size {length} is greater than the maximum size {most} allowed"),
            None => format!("request size is greater than the maximum size {most} allowed"),
        }
    }

    fn read(&self, body: &[u8]) -> Result<Batch, Refusal> {
        if body.is_empty() {
            let message = "no request body, you should give at least one pipeline setting";
            return Err((400, message.to_owned()));
        }
        let mut written: Value = serde_json::from_slice(body).map_err(|error| {
            let text = String::from_utf8_lossy(body);
            (400, format!("invalid request body: {text}, err: {}", request::explain(&error, body)))
        })?;
        let bad = |why: String| (400, format!("bad request body: {why}"));
        if let Some(why) = self.validator.check(&written).first {
            return Err(bad(why));
        }
        self.validator.apply_defaults(&mut written);
        let batch: Batch = serde_json::from_value(written).map_err(|error| bad(error.to_string()))?;
        let (count, most) = (batch.pipeline.len(), self.items_max);
        if count as u64 > most {
            let message = format!("too many pipeline requests, {count} exceeds the maximum of {most}");
            return Err((400, message));
        }
        Ok(batch)
    }
}

/// Sends the requests one after the other.
async fn run(
    services: Rc<dyn Services>,
    calls: impl Iterator<Item = (UpstreamChoice, Result<Call, plugin::BadCall>)>,
) -> Result<Answers, Refusal> {
    let mut answers = Answers::default();
    let mut timed_out = false;
    for (to, call) in calls {
        let Ok(call) = call else {
            answers.add_timeout();
            continue;
        };
        if timed_out {
            answers.add_timeout();
            continue;
        }
        let bodiless = call.method() == "HEAD";
        match services.call(&to, call).await {
            Ok(answer) => timed_out = answers.add(answer, bodiless).await,
            Err(error) if answers.is_empty() && error.kind == CallErrorKind::Connection => {
                return Err((500, format!("connect to apisix failed: {error}")));
            }
            Err(error) => {
                tracing::error!(%error, "batch-requests: a request of a batch failed");
                timed_out = error.kind == CallErrorKind::Timeout;
                answers.add_timeout();
            }
        }
    }
    Ok(answers)
}

#[cfg(test)]
mod tests;
