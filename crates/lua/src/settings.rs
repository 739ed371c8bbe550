//! What the host of Lua plugins is told by the configuration file.

use serde_json::{Map, Value};
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of memory that one VM may have by default: the plugins of one worker and what they keep. LuaJIT's own limit is
/// far above.
pub const MEMORY_BYTES_DEFAULT: usize = 128 << 20;

/// How long Lua code may run by default before it waits or returns. A worker serves nobody else meanwhile: as long as
/// the stalls that clients don't notice, and thousands of times what a plugin needs.
pub const TIME_SLICE_DEFAULT: Duration = Duration::from_millis(50);

/// The settings of the host.
#[derive(Debug, Clone, PartialEq)]
pub struct LuaSettings {
    /// Patterns of `package.path`, a question mark for the module's name: `apisix.extra_lua_path`.
    pub path: Vec<String>,
    /// The folder whose files are plugins, each called as the file without `.lua`.
    pub folder: Option<PathBuf>,
    /// Whether code in resources is run: `apisix.allow_code_in_config`.
    pub allow_code: bool,
    /// The memory of one VM in bytes.
    pub memory_bytes_max: usize,
    /// How long code may run without waiting.
    pub time_slice: Duration,
    /// `plugin_attr`, for all plugins.
    pub attributes: Map<String, Value>,
    /// The configuration file as plugins see it (`core.config.local_conf`), without secrets.
    pub local_conf: Value,
    /// `nginx_config.http.lua_shared_dict` and `custom_lua_shared_dict`: names and sizes in bytes.
    pub shared_dicts: Vec<(String, usize)>,
}

impl Default for LuaSettings {
    fn default() -> Self {
        Self {
            path: Vec::new(),
            folder: None,
            allow_code: false,
            memory_bytes_max: MEMORY_BYTES_DEFAULT,
            time_slice: TIME_SLICE_DEFAULT,
            attributes: Map::new(),
            local_conf: Value::Object(Map::new()),
            shared_dicts: Vec::new(),
        }
    }
}
