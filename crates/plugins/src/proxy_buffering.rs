//! Accepts the configuration of APISIX's plugin of this name. Responses are always streamed.
//!
//! ## When to use
//! Not needed: it is here so that configurations for APISIX need no change. A response is passed on as it comes, piece by
//! piece, and its upstream is read no faster than the client reads: what `disable_proxy_buffering: true` asks for.
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
//! - `disable_proxy_buffering: false` makes no difference: no response is gathered in memory or on disk. Plugins that need
//!   a whole response hold it themselves.

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
