//! The settings that plugins share which ask a service over HTTP: timeout, keep-alive, verification.

use model::ConfigError;
use plugin::{Call, CallTimeouts, CompileContext, Endpoint, EndpointOptions};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// How a service is asked, as a user writes it. Times are in milliseconds.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct ServiceConfig {
    #[serde(default = "yes")]
    pub(crate) ssl_verify: bool,
    timeout: u64,
    keepalive: bool,
    keepalive_timeout: u64,
    keepalive_pool: u32,
}

fn yes() -> bool {
    true
}

impl ServiceConfig {
    /// Compiles the service behind `url`.
    ///
    /// # Errors
    /// A URL that is none; the path is `path`.
    pub(crate) fn endpoint(
        &self,
        url: &str,
        path: &str,
        cx: &CompileContext<'_>,
    ) -> Result<Endpoint, Vec<ConfigError>> {
        let options = EndpointOptions {
            ssl_verify: self.ssl_verify,
            keepalive_pool: if self.keepalive { self.keepalive_pool } else { 0 },
            keepalive_timeout: Duration::from_millis(self.keepalive_timeout),
        };
        cx.endpoint(url, options).map_err(|found| found.into_iter().map(|error| error.under(path)).collect())
    }

    /// The timeouts of each call.
    pub(crate) fn timeouts(&self) -> CallTimeouts {
        CallTimeouts::all(Duration::from_millis(self.timeout))
    }

    /// Adds the settings to a schema's properties, with APISIX's bounds and defaults.
    pub(crate) fn extend_schema(schema: &mut Value) {
        let own = json!({
            "ssl_verify": {
                "description": "Whether the service's certificate must be valid for its name.",
                "type": "boolean",
                "default": true
            },
            "timeout": {
                "description": "Milliseconds that each step of a call may take: connecting, sending, reading.",
                "type": "integer",
                "minimum": 1,
                "maximum": 60000,
                "default": 3000
            },
            "keepalive": {
                "description": "Whether connections to the service are reused.",
                "type": "boolean",
                "default": true
            },
            "keepalive_timeout": {
                "description": "Milliseconds after which an idle connection is closed.",
                "type": "integer",
                "minimum": 1000,
                "default": 60000
            },
            "keepalive_pool": {
                "description": "Idle connections that each worker keeps.",
                "type": "integer",
                "minimum": 1,
                "default": 5
            }
        });
        if let (Some(properties), Value::Object(own)) =
            (schema.get_mut("properties").and_then(Value::as_object_mut), own)
        {
            properties.extend(own);
        }
    }
}

/// A request to `endpoint`'s own path.
pub(crate) fn call(
    endpoint: &Endpoint,
    method: &str,
    timeouts: CallTimeouts,
) -> Result<Call, plugin::BadCall> {
    Call::new(method, endpoint.authority.as_str(), endpoint.target.as_str(), timeouts)
}
