//! Answers requests with a function in Azure.
//!
//! ## When to use
//! For Azure Functions with an HTTP trigger. The request goes there as it came, with the function's key.
//!
//! ## Example
//! ```json
//! {
//!     "azure-functions": {
//!         "function_uri": "https://test-apisix.azurewebsites.net/api/HttpTrigger",
//!         "authorization": {"apikey": "generated-api-key"}
//!     }
//! }
//! ```
//! Without `authorization` the keys of the plugin's metadata count: `{"master_apikey": "...", "master_clientid": "..."}`. On a
//! route with the URI `/azure/:ext` the rest of the path is added to the function's.
//!
//! ## Differences from APISIX
//! None.

use crate::cloud_function::{Function, FunctionConfig, member};
use model::ConfigError;
use plugin::{CompileContext, Exchange, Flow, OnAccess, Plugin, PluginDef};
use serde::Deserialize;
use serde_json::{Value, json};
use stdx::Secret;

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<AzureFunctions>("azure-functions", -1900)
        .on_access()
        .encrypt_fields(&["authorization.apikey", "master_apikey"])
        .build()
}

/// What a user writes.
#[derive(Debug, Deserialize)]
pub struct Config {
    authorization: Option<Authorization>,
    #[serde(flatten)]
    function: FunctionConfig,
}

#[derive(Debug, Deserialize)]
struct Authorization {
    apikey: Option<Secret>,
    clientid: Option<String>,
}

/// The compiled form.
pub struct AzureFunctions {
    function: Function,
    authorization: Authorization,
}

impl Plugin for AzureFunctions {
    type Config = Config;

    fn compile(config: Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        let master = |name: &str| {
            cx.metadata.and_then(|metadata| member(metadata, name)).filter(|text| !text.is_empty())
        };
        let authorization = config.authorization.unwrap_or_else(|| Authorization {
            apikey: master("master_apikey").map(Secret::from),
            clientid: master("master_clientid"),
        });
        Ok(Self { function: Function::compile(&config.function, cx)?, authorization })
    }

    fn schema() -> Value {
        let authorization = json!({
            "type": "object",
            "properties": {
                "apikey": {"description": "The function's key.", "type": "string"},
                "clientid": {"description": "The key's name.", "type": "string"}
            }
        });
        Function::schema(&authorization, &["authorization.apikey"])
    }

    fn metadata_schema() -> Option<Value> {
        Some(json!({
            "type": "object",
            "properties": {
                "master_apikey": {"type": "string", "default": ""},
                "master_clientid": {"type": "string", "default": ""}
            },
            "encrypt_fields": ["master_apikey"]
        }))
    }
}

impl OnAccess for AzureFunctions {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        let has = |name: &[u8]| exchange.request.header(name).is_some();
        let is_authorized = has(b"x-functions-key") || has(b"x-functions-clientid");
        self.function.invoke(exchange, "azure-functions", |mut invocation| {
            let headers = &mut invocation.call.headers;
            if let Some(key) = self.authorization.apikey.as_ref().filter(|_| !is_authorized) {
                headers.set("X-Functions-Key", key.as_str());
            }
            if let Some(client) = self.authorization.clientid.as_ref().filter(|_| !is_authorized) {
                headers.set("X-Functions-Clientid", client);
            }
            invocation.call
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench};
    use plugin::{Chain, Ingredients, Parent, Registry};

    #[test]
    fn keys_come_from_the_client_the_configuration_or_the_metadata() {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        let metadata = json!({"master_apikey": "master", "master_clientid": ""});
        for (config, request, expected) in [
            (
                json!({"authorization": {"apikey": "k", "clientid": "c"}}),
                "GET /",
                "X-Functions-Key: k\r\nX-Functions-Clientid: c\r\n",
            ),
            (json!({"authorization": {}}), "GET /", ""),
            (json!({}), "GET /", "X-Functions-Key: master\r\n"),
            (
                json!({"authorization": {"apikey": "k"}}),
                "GET /\nX-Functions-ClientId: own",
                "X-Functions-ClientId: own\r\n",
            ),
        ] {
            let mut config = config.clone();
            config["function_uri"] = json!("http://fn.test/api");
            let parent = Parent { resource_key: "/routes/1", config_version: 1 };
            let ingredients = Ingredients { metadata: Some(&metadata), ..Ingredients::default() };
            let compiled =
                registry.compile_one("azure-functions", &config, ingredients, parent).expect("valid");
            let bench = Bench::new(request);
            bench.services.answer(200, &[], "");
            testkit::request(&Chain::new(vec![compiled]), &mut bench.exchange());
            assert_eq!(bench.services.calls().remove(0).headers, expected, "{config} {request}");
        }
    }
}
