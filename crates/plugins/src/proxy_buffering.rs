//! Accepts the configuration of APISIX's plugin. Responses are always streamed.
//!
//! ## When to use
//! You do not need it. It exists so that APISIX configurations work unchanged. Tidegate streams every response and
//! reads the upstream no faster than the client reads, as `disable_proxy_buffering: true` demands.
//!
//! ## Example
//! ```json
//! {
//!     "proxy-buffering": {
//!         "disable_proxy_buffering": true
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - `disable_proxy_buffering: false` has no effect: responses are not buffered in memory or on disk. Plugins that need a
//!   complete response buffer it themselves.

use model::ConfigError;
use plugin::{CompileContext, Plugin, PluginDef};
use serde::Deserialize;
use serde_json::{Value, json};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<ProxyBuffering>("proxy-buffering", 21991).build()
}

/// What a user writes; it says nothing that isn't so already.
#[derive(Debug, Deserialize)]
pub struct ProxyBuffering {}

impl Plugin for ProxyBuffering {
    type Config = Self;

    fn compile(config: Self, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(config)
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": { "disable_proxy_buffering": { "type": "boolean", "default": false } },
        })
    }
}
