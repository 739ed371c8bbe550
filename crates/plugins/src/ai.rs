//! Does nothing. APISIX's plugin of this name switches shortcuts of its own request processing on and off.
//!
//! ## When to use
//! Never; it is here so that configurations that name it are accepted. What it makes faster in APISIX (looking up routes,
//! passing over phases without plugins, reusing connections) is always so here.
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
