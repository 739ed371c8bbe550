//! The table of native functions that the libraries' Lua code is written on.

use mlua::{FromLuaMulti, IntoLuaMulti, Lua, Table};

/// The table while it is filled. Plugins never see it: it is an argument of each library's chunk.
pub(super) struct Natives<'v> {
    pub(super) lua: &'v Lua,
    pub(super) table: Table,
}

impl Natives<'_> {
    /// Adds the function `name`. A native function returns `nil` and a message rather than an error: an error of native
    /// code is a userdata in Lua, and plugins expect strings. What plugins have to see as an error is raised by the
    /// library's Lua code.
    pub(super) fn function<A, R>(
        &self,
        name: &str,
        function: impl Fn(&Lua, A) -> mlua::Result<R> + 'static,
    ) -> mlua::Result<()>
    where
        A: FromLuaMulti,
        R: IntoLuaMulti,
    {
        self.table.raw_set(name, self.lua.create_function(function)?)
    }
}
