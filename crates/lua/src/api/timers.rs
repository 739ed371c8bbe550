//! `ngx.timer`: code that runs later, outside of any request.

use super::host::{Api, duration, services};
use crate::instance::Instance;
use crate::phase::Phase;
use crate::run::{Caller, Run};
use crate::vm::Vm;
use mlua::{Function, MultiValue, Value};
use plugin::LocalFuture;
use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::time::Duration;

/// Timers of one VM that have not fired, or run: nginx's `lua_max_pending_timers`.
const TIMERS_MAX: usize = 1024;

#[derive(Default)]
struct Count(Rc<Cell<usize>>);

/// Counts a timer as long as it lives.
struct Counted(Rc<Cell<usize>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

pub(super) fn open(api: &Api<'_>) -> mlua::Result<()> {
    api.lua.set_app_data(Count::default());
    api.put("timer", |lua, (seconds, again, function, args): (f64, bool, Function, MultiValue)| {
        let time = duration(seconds)?;
        let vm = Vm::of(lua)?;
        let services = services(lua)?;
        let count = lua.app_data_ref::<Count>().map(|count| Rc::clone(&count.0)).unwrap_or_default();
        if count.get() >= TIMERS_MAX {
            return Ok((Value::Nil, Some("too many pending timers")));
        }
        count.set(count.get() + 1);
        let counted = Counted(count);
        let name = vm.current.borrow().name.clone().unwrap_or_else(|| "timer".into());
        let instance = vm.current.borrow().instance.clone();
        let vm = Rc::downgrade(&vm);
        let clock = Rc::clone(&services);
        let task: LocalFuture<()> = Box::pin(async move {
            let _counted = counted;
            loop {
                clock.sleep(if again { time.max(Duration::from_millis(1)) } else { time }).await;
                let Some(run) = start(&vm, &name, instance.as_ref(), &function, &args) else { return };
                let result = match run {
                    Ok(run) => run.finish().await,
                    Err(error) => Err(error),
                };
                if let Err(error) = result {
                    tracing::error!(plugin = &*name, "a timer of a Lua plugin failed: {error}");
                }
                if !again {
                    return;
                }
            }
        });
        services.spawn(task).detach();
        Ok((Value::Boolean(true), None))
    })
}

/// A run of a timer's function; `None` once the VM has ended.
fn start(
    vm: &Weak<Vm>,
    name: &std::sync::Arc<str>,
    instance: Option<&Rc<Instance>>,
    function: &Function,
    args: &MultiValue,
) -> Option<mlua::Result<Run>> {
    let vm = vm.upgrade().filter(|vm| vm.code().is_ok())?;
    let caller = Caller {
        phase: Phase::Timer,
        name: std::sync::Arc::clone(name),
        instance: instance.cloned(),
        request: vm.request().ok(),
    };
    let mut all = MultiValue::from_iter([Value::Function(function.clone()), Value::Boolean(false)]);
    all.extend(args.iter().cloned());
    Some(Run::new(vm, caller, all))
}
