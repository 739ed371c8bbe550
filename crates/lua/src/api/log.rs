//! Lines of the error log.

use super::host::Api;
use crate::lent;
use crate::vm::Vm;
use mlua::{LuaString, Value};
use tracing::Level;

/// Bytes of one line: nginx's (`NGX_MAX_ERROR_STR`).
const LINE_BYTES_MAX: usize = 4096;

pub(super) fn open(api: &Api<'_>) -> mlua::Result<()> {
    api.put("logs", |_, level: i64| Ok(is_enabled(level)))?;
    api.put("log", |lua, (level, text): (i64, LuaString)| {
        if !is_enabled(level) {
            return Ok(());
        }
        let text = text.to_string_lossy();
        let text = text.get(..text.floor_char_boundary(LINE_BYTES_MAX)).unwrap_or(&text);
        let name = Vm::of(lua)?.current.borrow().name.clone();
        let plugin = name.as_deref().unwrap_or_default();
        let write = || match level_of(level) {
            Level::ERROR => tracing::error!(plugin, "{text}"),
            Level::WARN => tracing::warn!(plugin, "{text}"),
            Level::INFO => tracing::info!(plugin, "{text}"),
            _ => tracing::debug!(plugin, "{text}"),
        };
        if lent::read(|exchange| exchange.log_span().in_scope(write)).is_err() {
            write();
        }
        Ok(())
    })?;
    api.host.raw_set("NULL", Value::NULL)
}

/// nginx's levels, 1 (alert) to 8 (debug), as those of the error log.
fn level_of(level: i64) -> Level {
    match level {
        ..=4 => Level::ERROR,
        5 => Level::WARN,
        6 | 7 => Level::INFO,
        _ => Level::DEBUG,
    }
}

fn is_enabled(level: i64) -> bool {
    match level_of(level) {
        Level::ERROR => tracing::enabled!(Level::ERROR),
        Level::WARN => tracing::enabled!(Level::WARN),
        Level::INFO => tracing::enabled!(Level::INFO),
        _ => tracing::enabled!(Level::DEBUG),
    }
}
