//! What Lua code can reach: no file, no process, no C, no other module's search path, no bytecode.

use mlua::{Function, Lua, LuaOptions, StdLib, Table, Value};

/// The functions of `os` that only tell the time.
const OS: &[&str] = &["time", "date", "clock", "difftime"];

/// The members of `jit` that name the VM or switch its compiler.
const JIT: &[&str] = &["version", "version_num", "os", "arch", "on", "off", "flush", "status"];

/// Globals that read files or see into other code.
const REMOVED: &[&str] = &["dofile", "loadfile", "io", "debug", "newproxy", "module"];

/// A VM with the standard libraries that can do no harm, and the function that sets what `require` finds modules by.
///
/// # Errors
/// Out of memory.
pub(crate) fn new_vm() -> mlua::Result<(Lua, Function)> {
    let libraries = StdLib::TABLE
        | StdLib::STRING
        | StdLib::MATH
        | StdLib::OS
        | StdLib::PACKAGE
        | StdLib::BIT
        | StdLib::JIT;
    let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(true))?;
    let globals = lua.globals();
    for name in REMOVED {
        globals.raw_set(*name, Value::Nil)?;
    }
    for (library, kept) in [("os", OS), ("jit", JIT)] {
        let table: Table = globals.raw_get(library)?;
        let names =
            table.pairs::<Value, Value>().map(|pair| Ok(pair?.0)).collect::<mlua::Result<Vec<_>>>()?;
        for name in names {
            let is_kept =
                name.as_string().is_some_and(|name| kept.iter().any(|kept| *name == *kept.as_bytes()));
            if !is_kept {
                table.raw_set(name, Value::Nil)?;
            }
        }
    }
    let string: Table = globals.raw_get("string")?;
    string.raw_set("dump", Value::Nil)?;
    packages(&lua, &globals)?;
    let set_searcher = lua.load(include_str!("prelude/sandbox.lua")).set_name("=[sandbox]").eval()?;
    traceback(&lua, &globals)?;
    Ok((lua, set_searcher))
}

/// Leaves of `package` what modules share with each other; the searchers are the host's.
fn packages(lua: &Lua, globals: &Table) -> mlua::Result<()> {
    let package: Table = globals.raw_get("package")?;
    let (loaded, preload): (Table, Table) = (package.raw_get("loaded")?, package.raw_get("preload")?);
    for name in ["io", "debug", "ffi", "package", "jit.util", "jit.opt", "jit.profile"] {
        loaded.raw_set(name, Value::Nil)?;
        preload.raw_set(name, Value::Nil)?;
    }
    let own = lua.create_table()?;
    own.raw_set("loaded", loaded)?;
    own.raw_set("preload", preload)?;
    own.raw_set("path", "")?;
    own.raw_set("cpath", "")?;
    own.raw_set("config", "/\n;\n?\n!\n-\n")?;
    globals.raw_set("package", own)
}

/// `debug.traceback` is what error handlers are made of; nothing else of `debug` is there.
fn traceback(lua: &Lua, globals: &Table) -> mlua::Result<()> {
    let debug = lua.create_table()?;
    let traceback = lua.create_function(|lua, (message, _): (Option<String>, Option<usize>)| {
        lua.traceback(message.as_deref(), 1)
    })?;
    debug.raw_set("traceback", traceback)?;
    globals.raw_set("debug", debug)
}
