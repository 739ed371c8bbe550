//! What the files of the API have in common: where functions are put, and how they wait.

use crate::light::{Answer, Pending};
use crate::vm::Vm;
use mlua::{FromLuaMulti, Function, IntoLuaMulti, Lua, MultiValue, Table, Value};
use plugin::Services;
use std::rc::Rc;
use std::time::Duration;

/// Where functions are put.
pub(crate) struct Api<'a> {
    pub(crate) lua: &'a Lua,
    pub(crate) host: &'a Table,
}

impl Api<'_> {
    /// A function of the host.
    pub(crate) fn put<A: FromLuaMulti, R: IntoLuaMulti>(
        &self,
        name: &str,
        function: impl Fn(&Lua, A) -> mlua::Result<R> + 'static,
    ) -> mlua::Result<()> {
        let function: Function = self.lua.create_function(function)?;
        self.host.raw_set(name, function)
    }
}

/// Has the code wait for `pending` once it yields.
pub(crate) fn wait(lua: &Lua, pending: Pending) -> mlua::Result<()> {
    let vm = Vm::of(lua)?;
    let mut current = vm.current.borrow_mut();
    if !current.phase.may_wait() {
        let phase = current.phase.of_nginx();
        return Err(mlua::Error::runtime(format!("API disabled in the context of {phase}: it would wait")));
    }
    current.pending = Some(pending);
    Ok(())
}

/// Has the code wait for a future, and go on with what `answer` makes of its result.
pub(crate) fn wait_for<T: 'static>(
    lua: &Lua,
    future: impl Future<Output = T> + 'static,
    answer: impl FnOnce(&Lua, T) -> mlua::Result<MultiValue> + 'static,
) -> mlua::Result<()> {
    let future = async move {
        let result = future.await;
        let answer: Answer = Box::new(move |lua| answer(lua, result));
        answer
    };
    wait(lua, Pending::Future(Box::pin(future)))
}

/// The worker's services.
pub(crate) fn services(lua: &Lua) -> mlua::Result<Rc<dyn Services>> {
    let vm = Vm::of(lua)?;
    let services = vm.services.borrow().clone();
    services.ok_or_else(|| mlua::Error::runtime("there are no connections and timers in this phase"))
}

/// `nil` and a message, as Lua's functions fail.
pub(crate) fn nil_and(lua: &Lua, message: &str) -> mlua::Result<MultiValue> {
    Ok(MultiValue::from_iter([Value::Nil, Value::String(lua.create_string(message)?)]))
}

/// Seconds as Lua has them, with a resolution of milliseconds.
pub(crate) fn duration(seconds: f64) -> mlua::Result<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| mlua::Error::runtime("invalid sleep duration"))
}
