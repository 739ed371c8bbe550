//! Making the VM of a generation, with everything in it.

use crate::code::Code;
use crate::vm::{Vm, mark};
use crate::{api, library, sandbox};
use mlua::{Function, Lua, Value};
use std::rc::Rc;
use std::sync::Arc;

impl Code {
    /// This thread's VM for this code.
    ///
    /// # Errors
    /// When it can't be made.
    pub(crate) fn vm(self: &Arc<Self>) -> mlua::Result<Rc<Vm>> {
        if let Some(vm) = Vm::known(self.serial) {
            return Ok(vm);
        }
        Vm::drop_unused();
        let vm = make(self)?;
        Vm::note(&vm);
        Ok(vm)
    }
}

fn make(code: &Arc<Code>) -> mlua::Result<Rc<Vm>> {
    let (lua, set_searcher) = sandbox::new_vm()?;
    lua.set_memory_limit(code.settings.memory_bytes_max)?;
    let host = lua.create_table()?;
    set_searcher.call::<()>(lua.create_function(find)?)?;
    for (name, mark) in [("DONE", mark::done()), ("WAIT", mark::wait()), ("EXIT", mark::exit())] {
        host.raw_set(name, Value::LightUserData(mark))?;
    }
    host.raw_set("check_schema", api::schema_check(&lua)?)?;
    library::open(&lua, &library_values(&lua)?)?;
    let vm = Vm::around(lua, code)?;
    let prelude = vm.loading(|| api::open(&vm.lua, &host, code))?;
    let _ = vm.prelude.set(prelude);
    Ok(vm)
}

/// What `require` finds a module by: the function that loads it, or nothing.
#[expect(clippy::needless_pass_by_value, reason = "a callback of Lua has its arguments")]
fn find(lua: &Lua, name: String) -> mlua::Result<Option<Function>> {
    let found = Vm::of(lua)?.code()?.module(&name).map_err(mlua::Error::runtime)?;
    let Some(source) = found else { return Ok(None) };
    let chunk = lua.load(source.text.as_slice()).set_name(format!("@{}", source.path.display()));
    chunk.set_mode(mlua::chunk::ChunkMode::Text).into_function().map(Some)
}

/// What the libraries say of the gateway.
fn library_values(lua: &Lua) -> mlua::Result<library::Values> {
    Ok(library::Values {
        worker_count: 1,
        apisix_version: APISIX_VERSION.to_owned(),
        prefix: "./".to_owned(),
        schema_check: Some(api::schema_check(lua)?),
        ..library::Values::default()
    })
}

/// The version of APISIX whose interface plugins see.
const APISIX_VERSION: &str = "3.18.0";
