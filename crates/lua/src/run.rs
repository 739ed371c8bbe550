//! Lua code that may wait: its coroutine and its light threads, resumed as what they wait for is there.

use crate::current::{Current, RequestState};
use crate::instance::Instance;
use crate::lent;
use crate::light::{Light, LightState, Pending};
use crate::phase::Phase;
use crate::vm::{Vm, mark};
use mlua::{MultiValue, Table, Value};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

/// Light threads of one run: APISIX's plugins use a handful.
const THREADS_MAX: usize = 256;

/// How far a run has come.
pub(crate) enum Outcome {
    /// The function has returned this, and no light thread is left.
    Finished(MultiValue),
    /// `ngx.exit` was called, with this.
    Exited(i64),
    /// Everything waits: [`Run::wait`].
    Blocked,
    /// The request's body is to be read.
    Body(usize),
}

/// Who runs code, and for what.
pub(crate) struct Caller {
    pub(crate) phase: Phase,
    pub(crate) name: Arc<str>,
    pub(crate) instance: Option<Rc<Instance>>,
    pub(crate) request: Option<Rc<RequestState>>,
}

/// A function of a plugin that runs.
pub(crate) struct Run {
    pub(crate) vm: Rc<Vm>,
    caller: Caller,
    /// The first is the function itself.
    threads: Vec<Light>,
    result: Option<MultiValue>,
}

/// The id of the code itself among the light threads.
const ENTRY: u32 = 0;

impl Run {
    /// Starts a function: `args` begins with it.
    pub(crate) fn new(vm: Rc<Vm>, caller: Caller, args: MultiValue) -> mlua::Result<Self> {
        let entry = Light { id: ENTRY, thread: vm.thread()?, state: LightState::Ready(args) };
        Ok(Self { vm, caller, threads: vec![entry], result: None })
    }

    /// The plugin.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.caller.name
    }

    /// What the run belongs to.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Goes on as far as nothing has to be waited for.
    pub(crate) fn step(&mut self) -> mlua::Result<Outcome> {
        let current = Current {
            phase: self.caller.phase,
            name: Some(Arc::clone(&self.caller.name)),
            instance: self.caller.instance.clone(),
            request: self.caller.request.clone(),
            ..Current::default()
        };
        let vm = Rc::clone(&self.vm);
        let before = vm.current.replace(current);
        let outcome = vm.limited(|| self.go());
        vm.current.replace(before);
        outcome
    }

    fn go(&mut self) -> mlua::Result<Outcome> {
        loop {
            let ready = self.threads.iter().position(|light| matches!(light.state, LightState::Ready(_)));
            let Some(at) = ready else { break };
            if let Some(exit) = self.resume(at)? {
                return Ok(Outcome::Exited(exit));
            }
            self.join();
        }
        self.threads.retain(|light| !matches!(light.state, LightState::Done));
        if self.threads.is_empty() {
            return Ok(Outcome::Finished(self.result.take().unwrap_or_default()));
        }
        let body = self.threads.iter().find_map(|light| match light.state {
            LightState::Waits(Pending::Body(limit)) => Some(limit),
            _ => None,
        });
        Ok(body.map_or(Outcome::Blocked, Outcome::Body))
    }

    /// Resumes a light thread; what `ngx.exit` was called with, if it was.
    fn resume(&mut self, at: usize) -> mlua::Result<Option<i64>> {
        let light = &mut self.threads[at];
        let LightState::Ready(args) = std::mem::replace(&mut light.state, LightState::Done) else {
            return Ok(None);
        };
        let thread = light.thread.clone();
        let id = light.id;
        let mut results: MultiValue = thread.resume(args)?;
        let first = results.front();
        if mark::is(first, mark::exit()) {
            return Ok(Some(self.vm.current.borrow_mut().exit.take().unwrap_or_default()));
        }
        let state = if mark::is(first, mark::wait()) {
            match self.vm.current.borrow_mut().pending.take() {
                Some(pending) => LightState::Waits(pending),
                None => LightState::Ready(MultiValue::new()),
            }
        } else if mark::is(first, mark::done()) && id == ENTRY {
            results.pop_front();
            self.result = Some(results);
            self.vm.keep(thread);
            LightState::Done
        } else if thread.is_resumable() {
            // A yield that nobody is there for: others get a turn.
            LightState::Ready(MultiValue::new())
        } else {
            LightState::Done
        };
        self.threads[at].state = state;
        let mut current = self.vm.current.borrow_mut();
        self.threads.append(&mut current.spawned);
        let killed = std::mem::take(&mut current.killed);
        self.threads.iter_mut().filter(|light| killed.contains(&light.id)).for_each(|light| {
            light.state = LightState::Done;
        });
        if self.threads.len() > THREADS_MAX {
            return Err(mlua::Error::runtime("too many light threads"));
        }
        Ok(None)
    }

    /// Lets those go on that wait for a light thread that has ended.
    fn join(&mut self) {
        let running: Vec<u32> = self
            .threads
            .iter()
            .filter(|light| !matches!(light.state, LightState::Done))
            .map(|light| light.id)
            .collect();
        for light in &mut self.threads {
            if let LightState::Waits(Pending::Join(ids)) = &light.state
                && ids.iter().any(|id| !running.contains(id))
            {
                light.state = LightState::Ready(MultiValue::new());
            }
        }
    }

    /// The body is there, or can't be had: those who wait for it go on.
    pub(crate) fn body_is_read(&mut self) {
        for light in &mut self.threads {
            if matches!(light.state, LightState::Waits(Pending::Body(_))) {
                light.state = LightState::Ready(MultiValue::new());
            }
        }
    }

    /// Waits until something is there that a light thread waits for.
    pub(crate) async fn wait(mut self) -> Self {
        poll_fn(|cx| {
            let mut ready = false;
            for light in &mut self.threads {
                if let LightState::Waits(Pending::Future(future)) = &mut light.state
                    && let Poll::Ready(answer) = future.as_mut().poll(cx)
                {
                    let values = answer(&self.vm.lua).unwrap_or_else(|error| {
                        // As Lua's own functions fail: nil and a message.
                        let message = self.vm.lua.create_string(error.to_string());
                        let message = message.map_or(Value::Nil, Value::String);
                        MultiValue::from_iter([Value::Nil, message])
                    });
                    light.state = LightState::Ready(values);
                    ready = true;
                }
            }
            if ready { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        self
    }

    /// Runs to the end where there is no exchange: in a timer.
    pub(crate) async fn finish(mut self) -> mlua::Result<()> {
        loop {
            match lent::nothing(|| self.step())? {
                Outcome::Blocked => self = self.wait().await,
                Outcome::Finished(_) | Outcome::Exited(_) => return Ok(()),
                Outcome::Body(_) => self.body_is_read(),
            }
        }
    }
}

/// What a coroutine is resumed with to run the functions of a phase; `None` where there is none.
pub(crate) fn args_of(
    vm: &Vm,
    instance: &Instance,
    phase: Phase,
    ctx: &Table,
) -> mlua::Result<Option<MultiValue>> {
    let functions = instance.functions(phase);
    let Some(first) = functions.first() else { return Ok(None) };
    let mut args = MultiValue::with_capacity(4);
    if functions.len() == 1 {
        args.push_back(Value::Function(first.clone()));
    } else {
        // Several: the host's own function runs them up to the first that answers.
        args.push_back(Value::Function(vm.prelude()?.several.clone()));
        args.push_back(Value::Table(vm.lua.create_sequence_from(functions.iter().cloned())?));
    }
    if !instance.ctx_alone {
        args.push_back(instance.conf.clone());
    }
    args.push_back(Value::Table(ctx.clone()));
    Ok(Some(args))
}
