//! Sends log entries to SkyWalking's log receiver in batches.
//!
//! ## When to use
//! Use it when traces are kept in SkyWalking: entries of requests with an `sw8` header field are linked to that
//! trace.
//!
//! ## Example
//! ```json
//! {
//!     "skywalking-logger": {
//!         "endpoint_addr": "http://127.0.0.1:12800",
//!         "service_name": "gateway"
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! Those of `http-logger`.

use crate::logging::{Collector, Entry, Logger};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use delivery::{Destination, Framing, HttpCollector};
use model::ConfigError;
use model::var::{Var, VarSource};
use plugin::{CompileContext, PluginDef};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Logger<SkywalkingLogger>>("skywalking-logger", 408)
        .on_access()
        .on_response()
        .on_log()
        .build()
}

/// Renders entries in SkyWalking's form.
pub struct SkywalkingLogger {
    service: String,
    instance: String,
    sw8: Var,
}

/// What a user writes besides what all loggers have.
#[derive(Debug, Deserialize)]
pub struct Config {
    endpoint_addr: String,
    service_name: String,
    service_instance_name: String,
    timeout: u64,
}

impl Collector for SkywalkingLogger {
    type Config = Config;
    const NAME: &'static str = "skywalking logger";

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "endpoint_addr": {
                    "description": "The receiver's address, without the path.",
                    "type": "string", "pattern": crate::logging::URI
                },
                "service_name": {"description": "The service's name.", "type": "string", "default": "APISIX"},
                "service_instance_name": {
                    "description": "The instance's name; `$hostname` is this machine's.",
                    "type": "string", "default": "APISIX Instance Name"
                },
                "timeout": {"description": "Seconds for a batch.", "type": "integer", "minimum": 1, "default": 3}
            },
            "required": ["endpoint_addr"]
        })
    }

    fn compile(
        config: Config,
        _: bool,
        _: &CompileContext<'_>,
    ) -> Result<(Self, Option<impl Destination>), Vec<ConfigError>> {
        let uri = format!("{}/v3/logs", origin(&config.endpoint_addr));
        let server = HttpCollector::new(vec![uri], Duration::from_secs(config.timeout), false)
            .framing(Framing::Array)
            .header("Content-Type", "application/json");
        let this = Self {
            service: config.service_name,
            instance: config.service_instance_name,
            sw8: Var::Http("sw8".to_owned()),
        };
        Ok((this, Some(server)))
    }

    fn render(&self, entry: Entry, source: &dyn VarSource) -> Vec<u8> {
        let text = |var: &Var| source.var(var).map(|value| String::from_utf8_lossy(&value).into_owned());
        let instance = match self.instance.as_str() {
            "$hostname" => text(&Var::Hostname).unwrap_or_default(),
            other => other.to_owned(),
        };
        let mut log = json!({
            "body": {"json": {"json": Value::Object(entry.fields).to_string()}},
            "service": self.service,
            "serviceInstance": instance,
            "endpoint": text(&Var::Uri).unwrap_or_default(),
        });
        if let Some(context) = text(&self.sw8).and_then(|sw8| trace_context(&sw8)) {
            log["traceContext"] = context;
        }
        log.to_string().into_bytes()
    }
}

/// Scheme and authority of an address: the path is SkyWalking's.
fn origin(address: &str) -> &str {
    let start = address.find("://").map_or(0, |at| at + 3);
    let end = address[start..].find('/').map_or(address.len(), |at| start + at);
    &address[..end]
}

/// The trace that a `sw8` header names: `1-TRACE-SEGMENT-SPAN-SERVICE-INSTANCE-ENDPOINT-PEER`, texts in base64
/// (SkyWalking's Cross Process Propagation Headers Protocol, v3).
fn trace_context(sw8: &str) -> Option<Value> {
    let parts: Vec<&str> = sw8.split('-').collect();
    let [_, trace, segment, span, _, _, _, _] = parts[..] else { return None };
    let decode = |text: &str| {
        let text = text.trim_end_matches('=').replace('+', "-").replace('/', "_");
        String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()
    };
    let span: i64 = span.parse().ok()?;
    Some(json!({ "traceId": decode(trace)?, "traceSegmentId": decode(segment)?, "spanId": span }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_from_its_header() {
        let context = trace_context("1-YWJj-ZGVm-5-eA==-eA==-eA==-eA==").unwrap();
        assert_eq!(context, json!({"traceId": "abc", "traceSegmentId": "def", "spanId": 5}));
        for bad in ["", "1-YWJj", "1-?-ZGVm-5-a-b-c-d", "1-YWJj-ZGVm-x-a-b-c-d", "1-YWJj-ZGVm-5-a-b-c-d-e"] {
            assert_eq!(trace_context(bad), None, "{bad}");
        }
        assert_eq!(origin("http://a:1/x/y"), "http://a:1");
        assert_eq!(origin("http://a"), "http://a");
    }
}
