//! The VMs: one for each thread that runs Lua code and each generation of it, made when it is first used.

use crate::code::Code;
use crate::current::{Current, RequestState};
use crate::instance::Instance;
use mlua::{Function, HookTriggers, LightUserData, Lua, LuaSerdeExt, Table, Thread, Value, VmState};
use plugin::Services;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Instructions between two looks at the clock: a microsecond or two of interpreted code.
const INSTRUCTIONS_BETWEEN_LOOKS: u32 = 2_000;

/// Coroutines that a VM keeps for later hooks: as many as wait at once on a busy worker.
const IDLE_MAX: usize = 256;

/// How long loading code may take. It happens on a worker at most once per generation.
const LOADING_TIME_MAX: Duration = Duration::from_secs(2);

thread_local! {
    /// This thread's VMs: of the generation in use, and for a while of the one before.
    static VMS: RefCell<Vec<Rc<Vm>>> = const { RefCell::new(Vec::new()) };
}

/// What a coroutine of the host yields, as its first value; no Lua code can make these.
pub(crate) mod mark {
    use super::{LightUserData, Value};

    static DONE: u8 = 1;
    static WAIT: u8 = 2;
    static EXIT: u8 = 3;

    /// The function has returned; its results follow.
    pub(crate) fn done() -> LightUserData {
        of(&DONE)
    }

    /// The code waits for what [`crate::current::Current::pending`] holds.
    pub(crate) fn wait() -> LightUserData {
        of(&WAIT)
    }

    /// The phase is over: `ngx.exit`.
    pub(crate) fn exit() -> LightUserData {
        of(&EXIT)
    }

    fn of(place: &'static u8) -> LightUserData {
        LightUserData(std::ptr::from_ref(place).cast_mut().cast())
    }

    pub(crate) fn is(value: Option<&Value>, mark: LightUserData) -> bool {
        matches!(value, Some(Value::LightUserData(found)) if found.0 == mark.0)
    }
}

/// An instance, and what lives as long as the configuration that it belongs to.
type Kept = (Weak<()>, Rc<Instance>);

/// A VM with its libraries and the plugins' state in it.
pub(crate) struct Vm {
    pub(crate) lua: Lua,
    pub(crate) serial: u64,
    code: Weak<Code>,
    pub(crate) current: RefCell<Current>,
    /// When the code that runs is stopped; `None` while none runs.
    deadline: Rc<Cell<Option<Instant>>>,
    time_slice: Duration,
    /// Whether the hook looks at each instruction: code ran out of time, and may have caught the error.
    stopping: Rc<Cell<bool>>,
    pub(crate) prelude: OnceCell<Prelude>,
    idle: RefCell<Vec<Thread>>,
    instances: RefCell<HashMap<u64, Kept>>,
    /// The worker's services, as far as anybody has brought them.
    pub(crate) services: RefCell<Option<Rc<dyn Services>>>,
    pub(crate) next_thread: Cell<u32>,
}

/// The host's own Lua functions.
pub(crate) struct Prelude {
    /// Runs a function with arguments, as often as its coroutine is resumed.
    pub(crate) runner: Function,
    /// Makes the `ctx` of a request.
    pub(crate) make_ctx: Function,
    /// Runs a list of functions up to the first that answers.
    pub(crate) several: Function,
    /// Turns what a plugin returned for a body into text.
    pub(crate) body_text: Function,
}

impl Vm {
    /// Drops this thread's VMs whose code nobody has any more.
    pub(crate) fn drop_unused() {
        let unused: Vec<_> = VMS.with_borrow_mut(|all| {
            all.extract_if(.., |vm| vm.code.strong_count() == 0 && Rc::strong_count(vm) == 1).collect()
        });
        // Outside of the borrow: finalizers are code.
        drop(unused);
    }

    /// This thread's VM of the generation.
    pub(crate) fn known(serial: u64) -> Option<Rc<Self>> {
        VMS.with_borrow(|all| all.iter().find(|vm| vm.serial == serial).map(Rc::clone))
    }

    /// Takes note of a VM of this thread.
    pub(crate) fn note(vm: &Rc<Self>) {
        VMS.with_borrow_mut(|all| all.push(Rc::clone(vm)));
    }

    /// A VM around an interpreter, in which code is stopped in time.
    pub(crate) fn around(lua: Lua, code: &Arc<Code>) -> mlua::Result<Rc<Self>> {
        let (deadline, stopping) = (Rc::new(Cell::new(None)), Rc::new(Cell::new(false)));
        watch(&lua, &deadline, &stopping)?;
        Ok(Rc::new_cyclic(|own| {
            // The functions of the host reach the VM by this.
            lua.set_app_data(VmHandle(own.clone()));
            Self {
                serial: code.serial,
                code: Arc::downgrade(code),
                current: RefCell::default(),
                deadline,
                time_slice: code.settings.time_slice,
                stopping,
                prelude: OnceCell::new(),
                idle: RefCell::default(),
                instances: RefCell::default(),
                services: RefCell::default(),
                next_thread: Cell::new(1),
                lua,
            }
        }))
    }

    /// What the VM has of a request that begins.
    pub(crate) fn request(&self) -> mlua::Result<Rc<RequestState>> {
        let (ctx, ngx_ctx) = self.limited(|| self.prelude()?.make_ctx.call::<(Table, Table)>(()))?;
        Ok(Rc::new(RequestState {
            vm: self.serial,
            ctx,
            ngx_ctx,
            out: RefCell::default(),
            status: Cell::new(0),
            fields: RefCell::default(),
            detached: RefCell::default(),
        }))
    }

    /// What the host calls of its own Lua code.
    pub(crate) fn prelude(&self) -> mlua::Result<&Prelude> {
        self.prelude.get().ok_or_else(|| mlua::Error::runtime("the VM is being made"))
    }

    /// The VM that runs `lua`.
    pub(crate) fn of(lua: &Lua) -> mlua::Result<Rc<Self>> {
        let handle = lua.app_data_ref::<VmHandle>();
        let vm = handle.and_then(|handle| handle.0.upgrade());
        vm.ok_or_else(|| mlua::Error::runtime("the plugin's VM has ended"))
    }

    /// The code that the VM runs.
    pub(crate) fn code(&self) -> mlua::Result<Arc<Code>> {
        self.code.upgrade().ok_or_else(|| mlua::Error::runtime("the plugin's code was replaced"))
    }

    /// Runs `run`, in which code has a time slice.
    pub(crate) fn limited<R>(&self, run: impl FnOnce() -> mlua::Result<R>) -> mlua::Result<R> {
        self.limited_to(self.time_slice, run)
    }

    /// As [`Self::limited`], for loading code.
    pub(crate) fn loading<R>(&self, run: impl FnOnce() -> mlua::Result<R>) -> mlua::Result<R> {
        self.limited_to(LOADING_TIME_MAX.max(self.time_slice), run)
    }

    fn limited_to<R>(&self, time: Duration, run: impl FnOnce() -> mlua::Result<R>) -> mlua::Result<R> {
        let outer = self.deadline.get();
        if outer.is_some() {
            return run();
        }
        self.deadline.set(Some(Instant::now() + time));
        let result = run();
        self.deadline.set(None);
        if self.stopping.take() {
            watch(&self.lua, &self.deadline, &self.stopping)?;
        }
        result
    }

    /// A coroutine that runs what it is resumed with: a function and its arguments.
    pub(crate) fn thread(&self) -> mlua::Result<Thread> {
        match self.idle.borrow_mut().pop() {
            Some(thread) => Ok(thread),
            None => self.lua.create_thread(self.prelude()?.runner.clone()),
        }
    }

    /// Takes a coroutine back that has run its function to the end.
    pub(crate) fn keep(&self, thread: Thread) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() < IDLE_MAX {
            idle.push(thread);
        }
    }

    /// What `make` makes of a configuration in this VM, at its first use. `alive` lives as long as the configuration.
    pub(crate) fn instance(
        &self,
        serial: u64,
        alive: &Arc<()>,
        make: impl FnOnce() -> mlua::Result<Instance>,
    ) -> mlua::Result<Rc<Instance>> {
        if let Some((_, known)) = self.instances.borrow().get(&serial) {
            return Ok(Rc::clone(known));
        }
        let made = Rc::new(self.loading(make)?);
        let mut instances = self.instances.borrow_mut();
        // The configurations of one generation come and go; the table is cleaned when it would grow.
        if instances.len() == instances.capacity() {
            instances.retain(|_, (alive, _)| alive.strong_count() > 0);
        }
        instances.insert(serial, (Arc::downgrade(alive), Rc::clone(&made)));
        Ok(made)
    }

    /// A JSON value as a table; null is `ngx.null`.
    pub(crate) fn to_lua(&self, value: &serde_json::Value) -> mlua::Result<Value> {
        to_lua(&self.lua, value)
    }
}

/// A JSON value as Lua has it; null is `ngx.null`, and arrays know that they are some.
pub(crate) fn to_lua(lua: &Lua, value: &serde_json::Value) -> mlua::Result<Value> {
    lua.to_value(value)
}

/// The VM as its functions find it.
struct VmHandle(std::rc::Weak<Vm>);

/// Has code stopped when its time is up.
fn watch(lua: &Lua, deadline: &Rc<Cell<Option<Instant>>>, stopping: &Rc<Cell<bool>>) -> mlua::Result<()> {
    let (deadline, stopping) = (Rc::clone(deadline), Rc::clone(stopping));
    let often = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_BETWEEN_LOOKS);
    lua.set_global_hook(often, move |lua, _| {
        if deadline.get().is_none_or(|deadline| Instant::now() < deadline) {
            return Ok(VmState::Continue);
        }
        if !stopping.replace(true) {
            // Code that catches the error gets the next one at its next instruction.
            let stopped = || mlua::Error::runtime(TIME_IS_UP);
            lua.set_global_hook(HookTriggers::new().every_nth_instruction(1), move |_, _| Err(stopped()))?;
        }
        Err(mlua::Error::runtime(TIME_IS_UP))
    })
}

/// The error of code that ran too long.
pub(crate) const TIME_IS_UP: &str = "the time slice of Lua code is used up (apisix.lua.time_slice)";

/// A function of `table`.
pub(crate) fn function(table: &Table, name: &str) -> mlua::Result<Option<Function>> {
    table.get::<Option<Function>>(name)
}

/// How many VMs this thread has.
#[cfg(test)]
pub(crate) fn count() -> usize {
    VMS.with_borrow(Vec::len)
}
