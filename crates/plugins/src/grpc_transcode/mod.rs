//! Translates HTTP requests with JSON into calls of unary gRPC methods, and the responses back.
//!
//! ## When to use
//! Use it when a service only has a gRPC interface and some clients are browsers or scripts. A `protos` resource
//! defines the service, and the upstream's scheme must be `grpc` or `grpcs`.
//!
//! The message is built from a JSON body (POST, PUT, PATCH), from a form (POST), or otherwise from the query. Fields
//! that the definition does not name are ignored. 64-bit integers can be written as `"#123"` or `"#0x7B"`.
//!
//! ## Example
//! ```json
//! {
//!     "grpc-transcode": {
//!         "proto_id": "1",
//!         "service": "helloworld.Greeter",
//!         "method": "SayHello",
//!         "deadline": 2000
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - While the definitions are missing, requests get 503; APISIX forwards them unchanged.
//! - Numbers keep all their digits, where APISIX rounds to 14. JSON that can't be read is refused with 400. A single value
//!   passes for a list of one.
//! - Strings that are not valid UTF-8 are returned with replacement characters; APISIX then returns invalid JSON.
//! - `enable_hooks` has no effect.

mod answer;
#[doc(hidden)]
pub mod fuzzing;
mod question;
mod schema;
mod status;

#[cfg(test)]
mod tests;

use answer::Style;
use model::ConfigError;
use plugin::{
    CompileContext, Exchange, Flow, Held, MethodName, OnAccess, OnResponse, Plugin, PluginDef, Reply, Target,
    UpstreamResponse, WholeBody, log_for,
};
use prost_reflect::{MessageDescriptor, MethodDescriptor};
use serde::Deserialize;
use serde_json::Value;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<GrpcTranscode>("grpc-transcode", 506)
        .proto_field("proto_id")
        .on_access()
        .on_response()
        .build()
}

/// Bytes of a request's body that are held; a longer one is refused.
const BODY_BYTES_MAX: usize = 64 << 20;

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    service: String,
    method: String,
    deadline: f64,
    pb_option: Vec<String>,
    show_status_in_body: bool,
    status_detail_type: Option<String>,
    max_resp_body_size: usize,
}

/// The compiled form.
pub struct GrpcTranscode {
    /// `None` while there are no definitions, or where these have no such method.
    method: Option<MethodDescriptor>,
    /// `/SERVICE/METHOD`.
    target: Target,
    /// `grpc-timeout`.
    timeout: Option<String>,
    style: Style,
    shows_status: bool,
    details: status::Details,
    answer_bytes_max: usize,
}

impl Plugin for GrpcTranscode {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let definitions = cx.definitions;
        Ok(Self {
            method: definitions.and_then(|known| known.method(&config.service, &config.method)),
            target: Target::of_path(format!("/{}/{}", config.service, config.method).as_bytes()),
            timeout: timeout(config.deadline),
            style: Style::of(&config.pb_option),
            shows_status: config.show_status_in_body,
            details: status::Details::of(
                config.status_detail_type.as_deref(),
                definitions.map(|known| &**known),
            ),
            answer_bytes_max: config.max_resp_body_size,
        })
    }

    fn schema() -> Value {
        schema::schema()
    }
}

/// The header of a deadline in milliseconds: at most eight digits; none for no deadline.
fn timeout(milliseconds: f64) -> Option<String> {
    (milliseconds > 0.0).then(|| format!("{}m", milliseconds.ceil().min(99_999_999.0)))
}

impl OnAccess for GrpcTranscode {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let Some(method) = &self.method else {
            let target = String::from_utf8_lossy(&self.target);
            log_for!(error, exchange, "the definitions have no method {target}");
            return Flow::status(503);
        };
        let body = match exchange.request.whole_body(BODY_BYTES_MAX) {
            WholeBody::Unread => return Flow::Body(BODY_BYTES_MAX),
            WholeBody::TooLong => return Flow::status(413),
            WholeBody::Whole(body) => body,
        };
        let arguments = question::arguments(&exchange.request, body);
        let message = match arguments.and_then(|fields| question::message(&method.input(), &fields)) {
            Ok(message) => message,
            Err(why) => return Flow::reply(Reply::message(400, &why)),
        };
        let edits = exchange.request.edit();
        edits.method = Some(MethodName::POST);
        edits.target = Some(self.target.clone());
        edits.body = Some(question::framed(&message).into());
        edits.headers.set("Content-Type", "application/grpc");
        if let Some(timeout) = &self.timeout {
            edits.headers.set("grpc-timeout", timeout);
        }
        Flow::Next
    }
}

impl OnResponse for GrpcTranscode {
    fn response(&self, exchange: &mut Exchange<'_>, response: &UpstreamResponse<'_>) {
        let Some(method) = &self.method else { return };
        if response.head.is_none() || exchange.status >= 300 {
            return;
        }
        let field = |name: &[u8]| response.header(name, exchange.reply_headers).map(<[u8]>::to_vec);
        let failed = field(b"grpc-status").filter(|status| status != b"0");
        let details = field(b"grpc-status-details-bin").filter(|_| self.shows_status);
        exchange.reply_headers.set("Content-Type", "application/json");
        let limit = self.answer_bytes_max;
        if let Some(status) = failed {
            exchange.status = status::to_http(&status);
            if let Some(details) = details {
                let text = self.details.shown(&details, self.style);
                exchange.extras().body_filters.push(Held::new(limit, move |_| Ok(text)));
            }
            return;
        }
        exchange.reply_headers.set("Trailer", "grpc-status, grpc-message");
        let (output, style) = (method.output(), self.style);
        exchange
            .extras()
            .body_filters
            .push(Held::new(limit, move |body: Vec<u8>| Ok(json_of(&output, style, &body))));
    }
}

/// The answer's JSON; a line of text where the answer can't be read.
fn json_of(output: &MessageDescriptor, style: Style, framed: &[u8]) -> Vec<u8> {
    match answer::read(output, style, framed) {
        Some(value) => value.to_string().into_bytes(),
        None => b"failed to decode response data by protobuf".to_vec(),
    }
}
