//! Accepts APISIX's configuration and does nothing. In APISIX, this plugin enables optimisations of request
//! processing.
//!
//! ## When to use
//! Do not add it to new configurations. It exists so that configurations that name it are accepted. The optimisations
//! (faster route lookup, skipped phases, connection reuse) are always enabled in Tidegate.
//!
//! ## Example
//! ```json
//! {
//!     "ai": {}
//! }
//! ```
//!
//! ## Differences from APISIX
//! - It changes nothing.

use model::ConfigError;
use plugin::{CompileContext, Plugin, PluginDef};
use serde::Deserialize;
use serde_json::{Value, json};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<Ai>("ai", 22900).build()
}

/// What a user writes: nothing.
#[derive(Debug, Deserialize)]
pub struct Config {}

/// The compiled form.
pub struct Ai;

impl Plugin for Ai {
    type Config = Config;

    fn compile(_: Config, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(Self)
    }

    fn schema() -> Value {
        json!({"type": "object"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::Registry;
    use plugin::testkit;

    #[test]
    fn it_is_accepted_and_costs_nothing() {
        let registry = Registry::new([def()], serde_json::Map::new()).expect("a valid schema");
        let chain = testkit::chain(&registry, &json!({"ai": {}})).expect("valid");
        assert!(chain.rewrite.is_empty() && chain.access.is_empty() && chain.before_proxy.is_empty());
        assert!(chain.response.is_empty() && chain.log.is_empty());
    }
}
