//! `ngx.semaphore`.

use super::host::{Api, duration, services, wait_for};
use mlua::{Lua, MultiValue, UserData, UserDataMethods, Value};
use std::cell::Cell;
use std::rc::Rc;
use tokio::sync::Notify;

/// A counter that requests of one worker wait at.
struct Semaphore(Rc<State>);

struct State {
    resources: Cell<i64>,
    waiting: Cell<i64>,
    posted: Notify,
}

/// Counts who waits, also one whose request ends meanwhile.
struct Waiter(Rc<State>);

impl Waiter {
    fn new(state: &Rc<State>) -> Self {
        state.waiting.set(state.waiting.get() + 1);
        Self(Rc::clone(state))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get() - 1);
    }
}

impl State {
    fn take(&self) -> bool {
        let left = self.resources.get();
        self.resources.set(if left > 0 { left - 1 } else { left });
        left > 0
    }
}

impl UserData for Semaphore {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("post", |_, this, count: Option<i64>| {
            let count = count.unwrap_or(1);
            this.0.resources.set(this.0.resources.get() + count);
            (0..count.min(1024)).for_each(|_| this.0.posted.notify_one());
            Ok(true)
        });
        methods.add_method("count", |_, this, ()| Ok(this.0.resources.get() - this.0.waiting.get()));
        // Whether there was one; else the code yields, and the answer comes then.
        methods.add_method("try_wait", |lua, this, seconds: Option<f64>| {
            if this.0.take() {
                return Ok(Some(true));
            }
            let time = duration(seconds.unwrap_or_default())?;
            if time.is_zero() {
                return Ok(Some(false));
            }
            let sleep = services(lua)?.sleep(time);
            let state = Rc::clone(&this.0);
            let waiter = Waiter::new(&state);
            let taken = async move {
                let _waiter = waiter;
                let posted = async {
                    while !state.take() {
                        state.posted.notified().await;
                    }
                };
                tokio::select! {
                    biased;
                    () = posted => true,
                    () = sleep => false,
                }
            };
            wait_for(lua, taken, |_, taken| Ok(MultiValue::from_iter([Value::Boolean(taken)])))?;
            Ok(None)
        });
    }
}

pub(super) fn open(api: &Api<'_>) -> mlua::Result<()> {
    api.put("semaphore", |_: &Lua, resources: Option<i64>| {
        let resources = Cell::new(resources.unwrap_or_default());
        Ok(Semaphore(Rc::new(State { resources, waiting: Cell::new(0), posted: Notify::new() })))
    })
}
