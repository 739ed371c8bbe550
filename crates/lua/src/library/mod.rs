//! What `require` finds besides the plugins' own modules: the libraries of OpenResty and APISIX that need neither a request
//! nor waiting.
//!
//! A library is a file of `lua/`, compiled when it is first required, over a table of native functions that plugins don't
//! see. [`open`] puts them into `package.preload` and fills the global table `ngx`.

mod addresses;
mod ciphers;
mod clock;
mod digest;
mod encoding;
mod json;
mod modules;
mod natives;
mod patterns;
mod pem;
mod randomness;
mod regex;
mod replacement;
mod signatures;
#[cfg(test)]
mod tests;

use mlua::{Function, Lua, Table, Value};

use natives::Natives;

pub use encoding::{decode_args, unescape};

/// What the libraries say about the gateway that runs them.
#[derive(Debug, Clone, Default)]
pub struct Values {
    /// `ngx.worker.id()`, from 0.
    pub worker_id: u32,
    /// `ngx.worker.count()`.
    pub worker_count: u32,
    /// `apisix.core.id.get()`.
    pub instance_id: String,
    /// `apisix.core.version.VERSION`: the version of APISIX whose interface this is.
    pub apisix_version: String,
    /// `ngx.config.prefix()`, with a `/` at its end.
    pub prefix: String,
    /// `apisix.core.schema.check`: takes a schema and a value, returns `true`, or `false` and a message. Without it every
    /// call of `check` fails.
    pub schema_check: Option<Function>,
}

/// Opens every library in `lua`: fills `package.preload`, the global table `ngx` (which it makes if there is none) and
/// the fields that OpenResty adds to the global tables `table` and `thread`.
///
/// It needs the globals of Lua's base, `string`, `table`, `math`, `bit`, `package` and `require`, and takes what it needs
/// of them: what is removed or replaced afterwards doesn't concern the libraries that are loaded by then. LuaJIT's module
/// `string.buffer` is gone afterwards.
///
/// # Errors
///
/// The VM is out of memory, or lacks one of the globals.
pub fn open(lua: &Lua, values: &Values) -> mlua::Result<()> {
    let natives = Natives { lua, table: lua.create_table()? };
    addresses::open(&natives)?;
    ciphers::open(&natives)?;
    clock::open(&natives)?;
    digest::open(&natives)?;
    encoding::open(&natives)?;
    json::open(&natives)?;
    randomness::open(&natives)?;
    regex::open(&natives)?;
    signatures::open(&natives)?;
    inject(&natives, values)?;

    let globals = lua.globals();
    if !globals.contains_key("ngx")? {
        globals.raw_set("ngx", lua.create_table()?)?;
    }
    let preload: Table = globals.get::<Table>("package")?.get("preload")?;
    for (name, source) in modules::MODULES {
        let table = natives.table.clone();
        // `name` may be an alias of the module whose file it is: the chunk is compiled for each.
        let load = lua.create_function(move |lua, name: String| {
            let chunk = lua.load(*source).set_name(format!("={name}"));
            chunk.call::<Value>((table.clone(), name))
        })?;
        preload.raw_set(*name, load)?;
    }
    for (name, source) in modules::GLOBALS {
        lua.load(*source).set_name(format!("={name}")).call::<()>(natives.table.clone())?;
    }
    Ok(())
}

fn inject(natives: &Natives<'_>, values: &Values) -> mlua::Result<()> {
    // A marker that no plugin can make: the address of a constant of ours.
    static EMPTY_ARRAY: u8 = 0;
    let table = &natives.table;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("empty_array", mlua::LightUserData((&raw const EMPTY_ARRAY).cast_mut().cast()))?;
    table.raw_set("buffer", string_buffer(natives.lua)?)?;
    table.raw_set("worker_id", values.worker_id)?;
    table.raw_set("worker_count", values.worker_count)?;
    table.raw_set("worker_pid", std::process::id())?;
    table.raw_set("instance_id", values.instance_id.as_str())?;
    table.raw_set("apisix_version", values.apisix_version.as_str())?;
    table.raw_set("prefix", values.prefix.as_str())?;
    let system = rustix::system::uname();
    table.raw_set("hostname", system.nodename().to_string_lossy())?;
    table.raw_set("schema_check", values.schema_check.clone())
}

/// LuaJIT's string buffers, taken away from plugins: they hand out pointers, which is FFI.
fn string_buffer(lua: &Lua) -> mlua::Result<Table> {
    const NAME: &str = "string.buffer";
    let globals = lua.globals();
    let buffer = globals.get::<Function>("require")?.call(NAME)?;
    let package: Table = globals.get("package")?;
    for field in ["loaded", "preload"] {
        package.get::<Table>(field)?.raw_set(NAME, Value::Nil)?;
    }
    Ok(buffer)
}
