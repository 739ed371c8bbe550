//! What plugins have in common that send requests to functions in a cloud in place of an upstream.

use crate::headers::text;
use crate::request_copy::{fields, is_of_message};
use crate::service_call::ServiceConfig;
use bytes::Bytes;
use model::ConfigError;
use model::var::{Var, VarSource};
use plugin::{
    Call, CallBody, CallTimeouts, CompileContext, Endpoint, Exchange, Flow, Services, WholeBody, log_for,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::rc::Rc;

/// What a user writes, besides the authorization.
#[derive(Debug, Deserialize)]
pub(crate) struct FunctionConfig {
    max_req_body_size: usize,
    function_uri: String,
    #[serde(flatten)]
    service: ServiceConfig,
}

/// A function, compiled.
pub(crate) struct Function {
    endpoint: Endpoint,
    timeouts: CallTimeouts,
    max_req_body_size: usize,
    ext: Var,
}

impl Function {
    pub(crate) fn compile(
        config: &FunctionConfig,
        cx: &CompileContext<'_>,
    ) -> Result<Self, Vec<ConfigError>> {
        Ok(Self {
            endpoint: config.service.endpoint(&config.function_uri, "/function_uri", cx)?,
            timeouts: config.service.timeouts(),
            max_req_body_size: config.max_req_body_size,
            ext: Var::parse("uri_param_ext"),
        })
    }

    /// The schema, with that of `authorization`.
    pub(crate) fn schema(authorization: &Value, encrypted: &[&str]) -> Value {
        let mut schema = json!({
            "type": "object",
            "properties": {
                "max_req_body_size": {
                    "description": "Bytes of a request's body that are held; a longer one gets 413.",
                    "type": "integer", "minimum": 1, "default": 67_108_864
                },
                "function_uri": {"description": "The function's URL.", "type": "string"},
                "authorization": authorization
            },
            "encrypt_fields": encrypted,
            "required": ["function_uri"]
        });
        ServiceConfig::extend_schema(&mut schema);
        schema["properties"]["timeout"] = json!({
            "description": "Milliseconds that each step of the call may take.",
            "type": "integer", "minimum": 100, "default": 3000
        });
        schema
    }

    /// Sends the request to the function, whose answer is the client's. `authorize` may add to the request.
    pub(crate) fn invoke(
        &self,
        exchange: &Exchange<'_>,
        name: &'static str,
        authorize: impl FnOnce(Invocation<'_>) -> Call,
    ) -> Flow {
        let request = &exchange.request;
        let body = match request.whole_body(self.max_req_body_size) {
            WholeBody::Unread => return Flow::Body(self.max_req_body_size),
            WholeBody::TooLong => return Flow::status(413),
            WholeBody::Whole(body) => body,
        };
        let mut path = self.endpoint.target.split('?').next().unwrap_or("/").to_owned();
        if let Some(ext) = exchange.var(&self.ext) {
            let ext = String::from_utf8_lossy(&ext).into_owned();
            if !path.ends_with('/') && !ext.starts_with('/') {
                path.push('/');
            }
            path.push_str(&ext);
        }
        let query = String::from_utf8_lossy(request.query()).into_owned();
        let target = if query.is_empty() { path.clone() } else { format!("{path}?{query}") };
        let edits = request.edits.as_deref();
        let method = edits.and_then(|edits| edits.method.as_deref());
        let own = String::from_utf8_lossy(request.method());
        let call = Call::new(method.unwrap_or(&own), self.endpoint.authority.as_str(), target, self.timeouts);
        let Ok(mut call) = call else { return Flow::status(400) };
        for (name, value) in fields(exchange) {
            if !is_of_message(name) {
                call.headers.append(name, value);
            }
        }
        call.body = CallBody::Bytes(Bytes::copy_from_slice(body));
        let call = authorize(Invocation {
            call,
            path,
            query,
            body,
            endpoint: &self.endpoint,
            timeouts: self.timeouts,
        });
        send(Rc::clone(exchange.services), self.endpoint.clone(), call, name)
    }
}

/// A request to a function.
pub(crate) struct Invocation<'i> {
    pub(crate) call: Call,
    /// Its path and its query, as sent.
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: &'i [u8],
    pub(crate) endpoint: &'i Endpoint,
    pub(crate) timeouts: CallTimeouts,
}

/// Sends `call`; its answer is the client's, and 503 where there is none.
pub(crate) fn send(services: Rc<dyn Services>, endpoint: Endpoint, call: Call, name: &'static str) -> Flow {
    Flow::wait(async move { services.call(&endpoint.upstream, call).await }, move |answer, exchange| {
        match answer {
            Ok(answer) => Flow::Answer(Box::new(answer)),
            Err(error) => {
                log_for!(error, exchange, %error, "{name}: failed to process the request");
                Flow::status(503)
            }
        }
    })
}

/// The text of a member, where it has one.
pub(crate) fn member(object: &Value, name: &str) -> Option<String> {
    object.get(name).and_then(text)
}
