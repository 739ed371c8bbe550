//! Exposes an endpoint of another plugin on a route.
//!
//! ## When to use
//! Use it to give clients access to endpoints such as `/apisix/status` or the metrics. The route's conditions and
//! other plugins control who can use them.
//!
//! ## Example
//! ```json
//! {
//!     "public-api": {
//!         "uri": "/apisix/status"
//!     },
//!     "ip-restriction": {
//!         "whitelist": ["10.0.0.0/8"]
//!     }
//! }
//! ```
//! Without `uri`, the request's path selects the endpoint.
//!
//! ## Differences from APISIX
//! None.

use model::ConfigError;
use plugin::{CompileContext, Exchange, Flow, OnAccess, Plugin, PluginDef, PublicApi, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<OpenedApi>("public-api", 501).on_access().serves_apis().build()
}

/// What a user writes.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// The path of the endpoint; where there is none, the request's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    uri: Option<String>,
}

/// The compiled form.
pub struct OpenedApi {
    uri: Option<String>,
    /// All that there are: few.
    apis: Vec<PublicApi>,
}

impl Plugin for OpenedApi {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(Self { uri: config.uri, apis: cx.public_apis() })
    }

    fn schema() -> Value {
        schema_of::<Config>()
    }
}

impl OnAccess for OpenedApi {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let (method, path) = (exchange.request.method(), &*exchange.request.path);
        let uri = self.uri.as_ref().map_or(path, |uri| uri.as_bytes());
        let found = self.apis.iter().find(|api| api.uri.as_bytes() == uri && api.method.as_bytes() == method);
        found.map_or_else(|| Flow::status(404), |api| (api.answer)(exchange))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};
    use serde_json::json;

    #[test]
    fn endpoints_are_found_by_path_and_method() {
        let registry = Registry::new(crate::all(), serde_json::Map::new()).expect("valid schemas");
        for (config, request, status) in [
            (json!({}), "GET /apisix/status", 200),
            (json!({}), "PATCH /apisix/status", 404),
            (json!({}), "GET /apisix/status/", 404),
            (json!({"uri": "/apisix/status"}), "GET /mine", 200),
            (json!({"uri": "/apisix/nothing"}), "GET /apisix/status", 404),
            // They have a server of their own unless that is switched off.
            (json!({}), "GET /apisix/prometheus/metrics", 404),
        ] {
            let chain = testkit::chain(&registry, &json!({ "public-api": config })).expect("valid");
            let bench = Bench::new(request);
            assert_eq!(testkit::access(&chain, &mut bench.exchange()), status, "{config} {request}");
        }
        assert!(testkit::chain(&registry, &json!({"public-api": {"uri": 3233}})).is_err());
    }

    #[test]
    fn what_it_serves_follows_the_other_plugins() {
        let attributes = json!({"prometheus": {"enable_export_server": false, "export_uri": "/m"}});
        let attributes = attributes.as_object().expect("an object").clone();
        let before = Registry::new(crate::all(), serde_json::Map::new()).expect("valid schemas");
        let after = Registry::new(crate::all(), attributes).expect("valid schemas").succeeding(&before);
        assert!(!after.treats_alike(&before, &def().name) && after.treats_alike(&before, "echo"));
        let chain = testkit::chain(&after, &json!({"public-api": {}})).expect("valid");
        let bench = Bench::new("GET /m");
        let flow = chain.access[0].hook.access(&mut bench.exchange());
        assert!(matches!(flow, Flow::Wait(_)), "made elsewhere: {flow:?}");
    }
}
