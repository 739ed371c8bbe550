//! Accepts the configuration of APISIX's plugin. Requests are always streamed.
//!
//! ## When to use
//! You do not need it. It exists so that APISIX configurations work unchanged. Tidegate streams every request body
//! and reads the client no faster than the upstream reads, as `request_buffering: false` demands.
//!
//! ## Example
//! ```json
//! {
//!     "proxy-control": {
//!         "request_buffering": false
//!     }
//! }
//! ```
//!
//! ## Differences from APISIX
//! - `request_buffering: true` has no effect: requests are not buffered on disk. If a plugin or condition needs the body, it
//!   is read before the request is forwarded.

use model::ConfigError;
use plugin::{CompileContext, Plugin, PluginDef};
use serde::Deserialize;
use serde_json::{Value, json};

/// The plugin's definition.
#[must_use]
pub fn def() -> PluginDef {
    PluginDef::new::<ProxyControl>("proxy-control", 21990).build()
}

/// What a user writes; it says nothing that isn't so already.
#[derive(Debug, Deserialize)]
pub struct ProxyControl {}

impl Plugin for ProxyControl {
    type Config = Self;

    fn compile(config: Self, _: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        Ok(config)
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": { "request_buffering": { "type": "boolean", "default": true } },
        })
    }
}
