//! Time and light threads.

use super::host::{Api, duration, services, wait, wait_for};
use crate::light::{Light, LightState, Pending};
use crate::vm::Vm;
use mlua::{MultiValue, Thread, Value};

pub(super) fn open(api: &Api<'_>) -> mlua::Result<()> {
    api.put("sleep", |lua, seconds: f64| {
        let time = duration(seconds)?;
        let sleep = services(lua)?.sleep(time);
        wait_for(lua, sleep, |_, ()| Ok(MultiValue::new()))
    })?;
    // A coroutine that has begun and waits becomes a light thread.
    api.put("thread_waits", |lua, thread: Thread| {
        let vm = Vm::of(lua)?;
        let id = vm.next_thread.get();
        vm.next_thread.set(id.wrapping_add(1).max(1));
        let mut current = vm.current.borrow_mut();
        let state = match current.pending.take() {
            Some(pending) => LightState::Waits(pending),
            None => LightState::Ready(MultiValue::new()),
        };
        current.spawned.push(Light { id, thread, state });
        Ok(id)
    })?;
    api.put("thread_join", |lua, ids: Vec<u32>| wait(lua, Pending::Join(ids)))?;
    api.put("thread_kill", |lua, id: u32| {
        let vm = Vm::of(lua)?;
        let mut current = vm.current.borrow_mut();
        current.spawned.retain(|light| light.id != id);
        current.killed.push(id);
        Ok(())
    })?;
    api.put("may_wait", |lua, ()| Ok(Vm::of(lua)?.current.borrow().phase.may_wait()))?;
    api.put("now_ms", |_, ()| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        #[expect(clippy::cast_precision_loss, reason = "milliseconds fit")]
        let ms = now.as_millis() as f64;
        Ok(Value::Number(ms))
    })
}
