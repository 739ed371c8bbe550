//! Accepts the configuration of APISIX's plugin of this name. Requests are always streamed.
//!
//! ## When to use
//! Not needed: it is here so that configurations for APISIX need no change. A request's body is passed on as it comes, and
//! its client is read no faster than the upstream reads: what `request_buffering: false` asks for.
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
//! - `request_buffering: true` makes no difference: no request is gathered on disk before its upstream is asked. Plugins
//!   and conditions that look at the body have it read first.

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
