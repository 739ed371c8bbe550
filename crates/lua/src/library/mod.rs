//! What `require` finds besides the plugins' own modules.

use mlua::Lua;

/// Opens every library in `lua`.
///
/// # Errors
///
/// The VM is out of memory.
pub fn open(lua: &Lua) -> mlua::Result<()> {
    lua.globals().raw_set("_TIDEGATE", true)
}
