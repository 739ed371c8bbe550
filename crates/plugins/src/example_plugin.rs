//! Demonstrates what a plugin can do: it logs each phase and can send requests to a node of its own. At level `info`
//! it also logs when it starts and stops, in the process and on each worker, with the `val` of its `plugin_attr`, and
//! how long each of its configurations was in use.
//!
//! ## When to use
//! Use it to try out the gateway, and read its source before you write a plugin.
//!
//! ## Example
//! ```json
//! {
//!     "example-plugin": {
//!         "i": 0,
//!         "ip": "127.0.0.1",
//!         "port": 1980
//!     }
//! }
//! ```
//! `GET /v1/plugin/example-plugin/hello` of the control API answers `world`, and with `?json` an object.
//!
//! ## Differences from APISIX
//! - Body phases are not logged: a plugin that changes no body is not called for them.
//! - An invalid node is rejected when it is configured, not with each request.

use model::ConfigError;
use plugin::{
    Background, CompileContext, ControlAnswer, ControlApi, ControlRequest, Exchange, Flow, Lifecycle,
    OnAccess, OnLog, OnResponse, OnRewrite, Place, Plugin, PluginDef, UpstreamChoice, UpstreamResponse,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::future::pending;
use std::sync::Arc;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<ExamplePlugin>("example-plugin", 0)
        .on_rewrite()
        .on_access()
        .on_response()
        .on_log()
        .lifecycle(lifecycle())
        .control_apis([ControlApi::new("GET", "hello", hello)])
        .build()
}

/// What a user writes.
#[derive(Debug, Deserialize, Serialize)]
pub struct Config {
    i: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    t: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<i64>,
}

/// The compiled form.
pub struct ExamplePlugin {
    /// The configuration, for the log.
    shown: Arc<str>,
    upstream: Option<UpstreamChoice>,
}

impl Plugin for ExamplePlugin {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let upstream = config.ip.as_ref().map(|ip| {
            let node = json!({ "host": ip, "port": config.port, "weight": 1 });
            let found = cx.upstream(&json!({ "type": "roundrobin", "nodes": [node] }));
            found.map_err(|errors| {
                errors
                    .into_iter()
                    .map(|error| ConfigError { path: "/ip".to_owned(), ..error })
                    .collect::<Vec<_>>()
            })
        });
        let shown = serde_json::to_string(&config).unwrap_or_default();
        Ok(Self { shown: shown.into(), upstream: upstream.transpose()? })
    }

    fn background(self: &Arc<Self>) -> Vec<Background> {
        let shown = Arc::clone(&self.shown);
        vec![Background::new("example-plugin", Place::Process, move |_| {
            let shown = Arc::clone(&shown);
            Box::pin(async move {
                tracing::info!("example-plugin: configuration in use, conf: {shown}");
                let _end = InUse(shown);
                pending::<()>().await;
            })
        })]
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "i": {"type": "number", "minimum": 0},
                "s": {"type": "string"},
                "t": {"type": "array", "minItems": 1},
                "ip": {"type": "string"},
                "port": {"type": "integer"}
            },
            "required": ["i"]
        })
    }

    fn metadata_schema() -> Option<Value> {
        Some(json!({
            "type": "object",
            "properties": {"ikey": {"type": "number", "minimum": 0}, "skey": {"type": "string"}},
            "required": ["ikey", "skey"]
        }))
    }
}

/// A configuration that is in use; dropped with the task that holds it.
struct InUse(Arc<str>);

impl Drop for InUse {
    fn drop(&mut self) {
        tracing::info!("example-plugin: configuration no longer in use, conf: {}", self.0);
    }
}

fn lifecycle() -> Lifecycle {
    Lifecycle {
        process_start: Some(Box::new(|cx| {
            if let Some(attributes) = cx.attributes {
                tracing::info!("example-plugin get plugin attr val: {}", attributes["val"]);
            }
            Ok(())
        })),
        process_stop: Some(Box::new(|_| tracing::info!("example-plugin stopped in the process"))),
        worker_start: Some(Box::new(|cx| {
            tracing::info!("example-plugin started on worker {}", cx.worker.index());
        })),
        worker_stop: Some(Box::new(|cx| {
            tracing::info!("example-plugin stopped on worker {}", cx.worker.index());
        })),
    }
}

impl ExamplePlugin {
    fn tell(&self, phase: &str) {
        tracing::warn!("plugin {phase} phase, conf: {}", self.shown);
    }
}

impl OnRewrite for ExamplePlugin {
    fn rewrite(&self, _: &mut Exchange<'_>) -> Flow {
        self.tell("rewrite");
        Flow::Next
    }
}

impl OnAccess for ExamplePlugin {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        self.tell("access");
        if let Some(upstream) = &self.upstream {
            exchange.extras().upstream = Some(upstream.clone());
        }
        Flow::Next
    }
}

impl OnResponse for ExamplePlugin {
    fn response(&self, _: &mut Exchange<'_>, _: &UpstreamResponse<'_>) {
        self.tell("header_filter");
    }
}

impl OnLog for ExamplePlugin {
    fn log(&self, _: &Exchange<'_>) {
        self.tell("log");
    }
}

/// `GET /v1/plugin/example-plugin/hello`
fn hello(request: &ControlRequest<'_>) -> ControlAnswer {
    if request.query.split('&').any(|arg| arg.split('=').next() == Some("json")) {
        ControlAnswer::json(200, json!({ "msg": "world" }))
    } else {
        ControlAnswer::text("world\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    #[test]
    fn requests_go_to_the_node_that_is_named() {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("valid schemas");
        for (config, chosen) in
            [(json!({"i": 1}), false), (json!({"i": 1, "ip": "127.0.0.1", "port": 1980}), true)]
        {
            let chain = testkit::chain(&registry, &json!({"example-plugin": config})).expect("valid");
            let bench = Bench::new("GET /");
            let mut exchange = bench.exchange();
            assert_eq!(testkit::access(&chain, &mut exchange), 0);
            assert_eq!(exchange.extras().upstream.is_some(), chosen);
        }
        let wrong = json!({"example-plugin": {"i": 1, "ip": "127.0.0.1", "port": 99_999}});
        assert!(testkit::chain(&registry, &wrong).is_err());
    }

    #[test]
    fn each_configuration_has_a_task_that_lasts() {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("valid schemas");
        let chain = testkit::chain(&registry, &json!({"example-plugin": {"i": 1}})).expect("valid");
        let tasks = chain.plugins().next().and_then(|plugin| plugin.background()).expect("it has one");
        let bench = Bench::new("GET /");
        assert_eq!(tasks.start(Place::EachWorker, bench.exchange().services).len(), 0);
        assert_eq!(tasks.start(Place::Process, bench.exchange().services).len(), 1);
    }

    #[test]
    fn the_control_api_says_hello() {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("valid schemas");
        let hello = |query: &str| registry.control("example-plugin", "GET", "hello", query, b"");
        let object = Some(ControlAnswer::json(200, json!({"msg": "world"})));
        assert_eq!((hello("json"), hello("a&json=1")), (object.clone(), object));
        assert_eq!(hello("jsons"), Some(ControlAnswer::text("world\n")));
    }
}
