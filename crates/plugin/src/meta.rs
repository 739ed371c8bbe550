//! `_meta`: what an operator may say about any plugin's configuration.

use model::ConfigError;
use router::Expr;
use serde_json::{Value, json};

/// A plugin's `_meta` object, compiled. `None` in a chain where it says nothing.
#[derive(Debug, Default)]
pub struct Meta {
    /// The plugin is configured and does not run.
    pub disable: bool,
    /// Stands above the plugin's own priority, on this route.
    pub priority: Option<i32>,
    /// The plugin runs only for requests that match.
    pub filter: Option<Expr>,
    /// The body of every answer of this plugin with a status of 400 or more.
    pub error_response: Option<Vec<u8>>,
    /// The plugin decides, and what it decides is counted and logged, not done.
    pub observe: bool,
}

impl Meta {
    /// The schema of `_meta`, injected into every plugin's (APISIX: `plugin_injected_schema`).
    #[must_use]
    pub fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "disable": {"type": "boolean"},
                "error_response": {"oneOf": [{"type": "string"}, {"type": "object"}]},
                "priority": {"description": "priority of plugins by customized order", "type": "integer"},
                "filter": {
                    "description": "filter determines whether the plugin needs to be executed at runtime",
                    "type": "array"
                },
                "pre_function": {"description": "not run: refused", "type": "string"},
                "mode": {
                    "description": "observe: verdicts are counted and logged, and not enforced",
                    "type": "string",
                    "enum": ["enforce", "observe"]
                }
            }
        })
    }

    /// Compiles the `_meta` member of a plugin's configuration, if it has one that says anything.
    ///
    /// # Errors
    /// When the filter is no valid expression, or code is to be run; paths start at the plugin's configuration.
    pub fn compile(config: &Value) -> Result<Option<Self>, Vec<ConfigError>> {
        let Some(meta) = config.get("_meta").and_then(Value::as_object) else { return Ok(None) };
        if meta.contains_key("pre_function") {
            let message = "functions in configurations are not run: take `_meta.pre_function` out";
            return Err(vec![ConfigError::new("/_meta/pre_function", message)]);
        }
        let filter = match meta.get("filter") {
            Some(filter) if filter.as_array().is_some_and(|terms| !terms.is_empty()) => {
                let in_place =
                    |errors: Vec<ConfigError>| errors.into_iter().map(|e| e.under("/_meta/filter")).collect();
                Some(Expr::compile(filter).map_err::<Vec<_>, _>(in_place)?)
            }
            _ => None,
        };
        Ok(Some(Self {
            disable: meta.get("disable").and_then(Value::as_bool).unwrap_or_default(),
            priority: meta.get("priority").and_then(Value::as_i64).and_then(|p| i32::try_from(p).ok()),
            filter,
            error_response: meta.get("error_response").map(|body| match body {
                Value::String(text) => text.clone().into_bytes(),
                object => format!("{object}\n").into_bytes(),
            }),
            observe: meta.get("mode").and_then(Value::as_str) == Some("observe"),
        }))
    }
}
