//! Answers requests with a function of OpenFunction.
//!
//! ## When to use
//! For functions that OpenFunction runs in Kubernetes. The request goes there as it came.
//!
//! ## Example
//! ```json
//! {
//!     "openfunction": {
//!         "function_uri": "http://localhost:3233/default/function-sample/test",
//!         "authorization": {"service_token": "name:password"}
//!     }
//! }
//! ```
//! On a route with the URI `/hello/:ext` the rest of the path is added to the function's.
//!
//! ## Differences from APISIX
//! None.

use crate::cloud_function::{Function, FunctionConfig};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::ConfigError;
use plugin::{CompileContext, Exchange, Flow, OnAccess, Plugin, PluginDef};
use serde::Deserialize;
use serde_json::{Value, json};
use stdx::Secret;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<OpenFunction>("openfunction", -1902)
        .on_access()
        .encrypt_fields(&["authorization.service_token"])
        .build()
}

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    #[serde(default)]
    authorization: Authorization,
    #[serde(flatten)]
    function: FunctionConfig,
}

#[derive(Debug, Default, Deserialize)]
struct Authorization {
    service_token: Option<Secret>,
}

/// The compiled form.
pub struct OpenFunction {
    function: Function,
    /// The value of `Authorization`.
    authorization: Option<Secret>,
}

impl Plugin for OpenFunction {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let token = config.authorization.service_token;
        let authorization =
            token.map(|token| Secret::from(format!("Basic {}", STANDARD.encode(token.as_str()))));
        Ok(Self { function: Function::compile(&config.function, cx)?, authorization })
    }

    fn schema() -> Value {
        let authorization = json!({
            "type": "object",
            "properties": {"service_token": {"description": "`name:password` of the function's entry.", "type": "string"}}
        });
        Function::schema(&authorization, &["authorization.service_token"])
    }
}

impl OnAccess for OpenFunction {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        self.function.invoke(exchange, "openfunction", |mut invocation| {
            if let Some(authorization) = &self.authorization {
                invocation.call.headers.set("Authorization", authorization.as_str());
            }
            invocation.call
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit::{self, Bench};

    #[test]
    fn the_token_is_added() {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        let config = json!({"function_uri": "http://fn.test/f", "authorization": {"service_token": "a:b"}});
        let chain = testkit::chain(&registry, &json!({ "openfunction": config })).expect("valid");
        let bench = Bench::new("GET /\nAuthorization: own");
        bench.services.answer(200, &[], "");
        testkit::request(&chain, &mut bench.exchange());
        assert_eq!(bench.services.calls().remove(0).headers, "Authorization: Basic YTpi\r\n");
    }
}
