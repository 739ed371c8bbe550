//! `apisix.lua`, `apisix.extra_lua_path`, `apisix.allow_code_in_config` and the dictionaries that Lua plugins share.

use crate::reader::Section;
use crate::settings::Lua;
use serde_json::Value;
use std::path::PathBuf;
use stdx::units;

/// The settings of Lua plugins.
pub(super) fn lua(apisix: &Section<'_>, nginx: &Section<'_>) -> Lua {
    let default = Lua::default();
    let own = apisix.section("lua");
    let path = apisix.text("extra_lua_path").unwrap_or_default();
    let memory_max = own.size("memory_max", default.memory_max as u64);
    Lua {
        path: path.split(';').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect(),
        plugins_dir: own.text("plugins_dir").filter(|path| !path.is_empty()).map(PathBuf::from),
        allow_code: apisix.bool("allow_code_in_config", default.allow_code),
        memory_max: usize::try_from(memory_max).unwrap_or(usize::MAX),
        time_slice: own.duration("time_slice", default.time_slice),
        shared_dicts: shared_dicts(&nginx.section("http")),
    }
}

/// Names and sizes of `custom_lua_shared_dict`.
fn shared_dicts(http: &Section<'_>) -> Vec<(String, usize)> {
    let Some(field) = http.field("custom_lua_shared_dict") else { return Vec::new() };
    let Value::Object(members) = field.json() else { return Vec::new() };
    let size = |value: &Value| match value {
        Value::Number(bytes) => bytes.as_u64(),
        Value::String(text) => units::size(text).ok(),
        _ => None,
    };
    let mut all = Vec::new();
    for (name, value) in members {
        match size(&value).and_then(|bytes| usize::try_from(bytes).ok()) {
            Some(bytes) => all.push((name, bytes)),
            None => {
                field.fail::<()>(format!("{name}: {value} is no size"), "write it like 10m");
            }
        }
    }
    all
}
