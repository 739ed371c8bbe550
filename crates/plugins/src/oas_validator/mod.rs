//! Refuses requests that aren't what an OpenAPI document says.
//!
//! ## When to use
//! Where an API is described by an OpenAPI 3 document: paths, parameters and bodies are checked before the upstream is asked.
//!
//! ## Example
//! ```json
//! {
//!     "oas-validator": {
//!         "spec": "{\"openapi\":\"3.0.2\",\"info\":{\"title\":\"Pets\",\"version\":\"1\"},\"paths\":{\"/pet\":{\"post\":{\"requestBody\":{\"content\":{\"application/json\":{\"schema\":{\"type\":\"object\",\"required\":[\"name\"]}}}},\"responses\":{}}}}}",
//!         "verbose_errors": true
//!     }
//! }
//! ```
//! The document may also be behind `spec_url`; it is fetched anew after `spec_url_ttl` seconds, which stands in the plugin's
//! metadata.
//!
//! ## Differences from APISIX
//! - References are followed within the document, 16 levels deep; what is deeper, as in recursive schemas, isn't checked.
//! - Of JSON Schema 2020-12, `unevaluatedProperties`, `dependentSchemas` and `$dynamicRef` aren't checked. Bodies are checked
//!   as JSON and as forms; of other types only that there is one.
//! - A document behind `spec_url` that can't be fetched anew stays in use.

mod operation;
mod parameter;
mod schema;
mod spec;

use crate::identity::Cached;
use crate::status;
use model::ConfigError;
use operation::Checks;
use plugin::{
    Call, CallTimeouts, CompileContext, Endpoint, EndpointOptions, Exchange, Flow, OnAccess, Plugin,
    PluginDef, Reply, Services, WholeBody, log_for,
};
use serde::Deserialize;
use serde_json::{Value, json};
use spec::Spec;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::Clock;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<OasValidator>("oas-validator", 512).on_access().build()
}

/// Bytes of a document that is fetched.
const DOCUMENT_MAX: usize = 8 << 20;

/// Seconds for which a fetched document is used, where the metadata doesn't say.
const TTL_S: u64 = 3600;

/// Seconds between two attempts to fetch a document that can't be had.
const AGAIN_S: u64 = 5;

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    max_req_body_size: usize,
    spec: Option<String>,
    spec_url: Option<String>,
    #[serde(default)]
    spec_url_request_headers: BTreeMap<String, String>,
    ssl_verify: bool,
    timeout: u64,
    verbose_errors: bool,
    skip_request_body_validation: bool,
    skip_request_header_validation: bool,
    skip_query_param_validation: bool,
    skip_path_params_validation: bool,
    reject_if_not_match: bool,
    rejection_status_code: u64,
}

/// The compiled form.
pub struct OasValidator {
    source: Source,
    checks: Checks,
    max_req_body_size: usize,
    verbose_errors: bool,
    reject_if_not_match: bool,
    rejection_status_code: u16,
    clock: Arc<Clock>,
}

/// Where the document is.
enum Source {
    /// In the configuration, or why it is none.
    Here(Result<Arc<Spec>, String>),
    There(Arc<Remote>),
}

/// A document behind a URL.
struct Remote {
    endpoint: Endpoint,
    headers: BTreeMap<String, String>,
    timeouts: CallTimeouts,
    ttl_s: u64,
    fresh: Cached<Spec>,
    last: Cached<Arc<Spec>>,
    failed: Cached<()>,
}

impl Plugin for OasValidator {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let source = match (&config.spec, &config.spec_url) {
            (Some(text), _) => {
                let document: Value = serde_json::from_str(text).map_err(|error| {
                    vec![ConfigError::new("", format!("invalid JSON string provided, err: {error}"))]
                })?;
                Source::Here(Spec::compile(&document).map(Arc::new))
            }
            (None, url) => {
                let options = EndpointOptions { ssl_verify: config.ssl_verify, ..EndpointOptions::default() };
                let endpoint = cx.endpoint(url.as_deref().unwrap_or_default(), options);
                let under = |errors: Vec<ConfigError>| {
                    errors.into_iter().map(|error| error.under("/spec_url")).collect::<Vec<_>>()
                };
                let ttl_s =
                    cx.metadata.and_then(|metadata| metadata.get("spec_url_ttl")).and_then(Value::as_u64);
                Source::There(Arc::new(Remote {
                    endpoint: endpoint.map_err(under)?,
                    headers: config.spec_url_request_headers,
                    timeouts: CallTimeouts::all(Duration::from_millis(config.timeout)),
                    ttl_s: ttl_s.unwrap_or(TTL_S),
                    fresh: Cached::default(),
                    last: Cached::default(),
                    failed: Cached::default(),
                }))
            }
        };
        Ok(Self {
            source,
            checks: Checks {
                path: !config.skip_path_params_validation,
                query: !config.skip_query_param_validation,
                header: !config.skip_request_header_validation,
                body: !config.skip_request_body_validation,
            },
            max_req_body_size: config.max_req_body_size,
            verbose_errors: config.verbose_errors,
            reject_if_not_match: config.reject_if_not_match,
            rejection_status_code: status::status(config.rejection_status_code, "/rejection_status_code")?,
            clock: cx.shared.get(),
        })
    }

    fn schema() -> Value {
        let flag =
            |what: &str, default: bool| json!({"description": what, "type": "boolean", "default": default});
        json!({
            "type": "object",
            "properties": {
                "max_req_body_size": {
                    "description": "Bytes of a request's body that are held; a longer one gets 413.",
                    "type": "integer", "minimum": 1, "default": 67_108_864
                },
                "spec": {"description": "The document, in JSON.", "type": "string", "minLength": 1},
                "spec_url": {"description": "Where the document is.", "type": "string", "pattern": "^https?://"},
                "spec_url_request_headers": {
                    "description": "Fields of the request for it.",
                    "type": "object", "additionalProperties": {"type": "string"}
                },
                "ssl_verify": flag("Whether its server's certificate must be valid for its name.", false),
                "timeout": {
                    "description": "Milliseconds that each step of the request for it may take.",
                    "type": "integer", "minimum": 1000, "maximum": 60000, "default": 10000
                },
                "verbose_errors": flag("Whether clients are told what is wrong.", false),
                "skip_request_body_validation": flag("Whether bodies are not checked.", false),
                "skip_request_header_validation": flag("Whether header fields are not checked.", false),
                "skip_query_param_validation": flag("Whether query parameters are not checked.", false),
                "skip_path_params_validation": flag("Whether path parameters are not checked.", false),
                "reject_if_not_match": flag("Whether requests that are wrong are refused, not only logged.", true),
                "rejection_status_code": {
                    "description": "The status of a refusal.",
                    "type": "integer", "minimum": 400, "maximum": 599, "default": 400
                }
            },
            "oneOf": [{"required": ["spec"]}, {"required": ["spec_url"]}]
        })
    }

    fn metadata_schema() -> Option<Value> {
        Some(json!({
            "type": "object",
            "properties": {"spec_url_ttl": {
                "description": "Seconds for which a fetched document is used.",
                "type": "integer", "minimum": 1, "default": 3600
            }}
        }))
    }
}

impl OnAccess for OasValidator {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let remote = match &self.source {
            Source::Here(Ok(spec)) => return self.check(spec, exchange),
            Source::Here(Err(why)) => {
                log_for!(error, exchange, "oas-validator: failed to compile openapi spec, err: {why}");
                return unusable();
            }
            Source::There(remote) => remote,
        };
        let now_s = self.clock.unix_ms(exchange.timing.started) / 1000;
        if let Some(spec) = remote.known(now_s) {
            return self.check(&spec, exchange);
        }
        let (services, fetching, waiting) =
            (Rc::clone(exchange.services), Arc::clone(remote), Arc::clone(remote));
        // The hook can't be kept by the future: what it needs to know is whether there is a document now.
        let this = self.shared(waiting);
        Flow::wait(async move { fetching.fetch(&services, now_s).await }, move |fetched, exchange| {
            let spec = match fetched {
                Ok(spec) => spec,
                Err(why) => {
                    log_for!(error, exchange, "oas-validator: {why}");
                    match this.last(now_s) {
                        Some(spec) => spec,
                        None => return unusable(),
                    }
                }
            };
            this.check(&spec, exchange)
        })
    }
}

fn unusable() -> Flow {
    Flow::reply(Reply::message(500, "failed to parse openapi spec"))
}

impl OasValidator {
    /// What a future keeps of the plugin.
    fn shared(&self, remote: Arc<Remote>) -> Self {
        Self {
            source: Source::There(remote),
            clock: Arc::clone(&self.clock),
            checks: self.checks,
            max_req_body_size: self.max_req_body_size,
            verbose_errors: self.verbose_errors,
            reject_if_not_match: self.reject_if_not_match,
            rejection_status_code: self.rejection_status_code,
        }
    }

    fn last(&self, now_s: u64) -> Option<Arc<Spec>> {
        let Source::There(remote) = &self.source else { return None };
        remote.last.find(now_s).map(|spec| (*spec).clone())
    }

    /// Checks a request.
    fn check(&self, spec: &Spec, exchange: &mut Exchange<'_>) -> Flow {
        let body = if self.checks.body {
            match exchange.request.whole_body(self.max_req_body_size) {
                WholeBody::Unread => return Flow::Body(self.max_req_body_size),
                WholeBody::TooLong => return Flow::status(413),
                WholeBody::Whole(body) => body,
            }
        } else {
            &[]
        };
        let Err(why) = spec.check(&exchange.request, body, self.checks) else { return Flow::Next };
        let path = String::from_utf8_lossy(&exchange.request.path).escape_debug().to_string();
        let method = String::from_utf8_lossy(exchange.request.method()).into_owned();
        log_for!(
            error,
            exchange,
            "error occurred while validating request [{method} {path}], err: {}",
            why.escape_debug()
        );
        if !self.reject_if_not_match {
            return Flow::Next;
        }
        let shown = if self.verbose_errors { why.as_str() } else { "" };
        Flow::reply(Reply::message(
            self.rejection_status_code,
            &format!("failed to validate request. {shown}"),
        ))
    }
}

impl Remote {
    /// The document, where it needn't be fetched.
    fn known(&self, now_s: u64) -> Option<Arc<Spec>> {
        let fresh = self.fresh.find(now_s);
        fresh.or_else(|| {
            self.failed.find(now_s).and_then(|_| self.last.find(now_s)).map(|spec| (*spec).clone())
        })
    }

    async fn fetch(&self, services: &Rc<dyn Services>, now_s: u64) -> Result<Arc<Spec>, String> {
        let fetched = self.document(services).await;
        match fetched.and_then(|document| {
            Spec::compile(&document)
                .map_err(|why| format!("failed to compile openapi spec fetched from URL: {why}"))
        }) {
            Ok(spec) => {
                let spec = self.fresh.keep(spec, now_s.saturating_add(self.ttl_s));
                self.last.keep(Arc::clone(&spec), u64::MAX);
                Ok(spec)
            }
            Err(why) => {
                self.failed.keep((), now_s + AGAIN_S);
                Err(why)
            }
        }
    }

    async fn document(&self, services: &Rc<dyn Services>) -> Result<Value, String> {
        let failed = |why: String| format!("failed to fetch spec from URL: {why}");
        let Endpoint { upstream, authority, target } = &self.endpoint;
        let call = Call::new("GET", authority.as_str(), target.as_str(), self.timeouts);
        let mut call = call.map_err(|error| failed(error.to_string()))?;
        for (name, value) in &self.headers {
            call.headers.set(name, value);
        }
        let answer = services.call(upstream, call).await.map_err(|error| failed(error.to_string()))?;
        let (status, _, body) =
            answer.collect(DOCUMENT_MAX).await.map_err(|error| failed(error.to_string()))?;
        if status != 200 {
            return Err(format!("spec URL returned status {status}"));
        }
        serde_json::from_slice(&body).map_err(|error| failed(format!("not JSON: {error}")))
    }
}

#[cfg(test)]
mod tests;
