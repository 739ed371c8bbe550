//! Which plugins of the registries in use have started, in the process and on each worker.

use crate::{Gateway, PluginDef, ProcessContext, Registry, Services, Shared, WorkerContext};
use model::ConfigError;
use serde_json::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use stdx::{WorkerToken, panics};

/// The plugins that have started in one place: the process or a worker. A plugin starts with the first registry that has
/// it, and stops when no registry is left that does; a registry lives as long as a snapshot compiled by it. What tells
/// plugins apart is the kind of routes, name and version.
#[derive(Debug, Default)]
pub struct StartedPlugins {
    all: Vec<Started>,
    /// The registry adopted last.
    current: Weak<Registry>,
}

/// A plugin that has started.
#[derive(Debug)]
struct Started {
    streams: bool,
    attributes: Option<Value>,
    shared: Arc<Shared>,
    /// At least one.
    users: Vec<User>,
}

/// A registry that has a plugin, with its definition of it.
#[derive(Debug)]
struct User {
    registry: Weak<Registry>,
    def: Arc<PluginDef>,
}

/// A worker, as far as hooks see it.
#[derive(Debug, Clone, Copy)]
pub struct WorkerPlace<'a> {
    /// The process.
    pub gateway: &'a Gateway,
    /// The worker: the key to per-worker state.
    pub worker: &'a WorkerToken,
    /// The worker's services.
    pub services: &'a Rc<dyn Services>,
}

impl StartedPlugins {
    /// Starts the plugins of `registry` in the process that have not started yet.
    ///
    /// # Errors
    /// Every plugin that can't be used, its name as the path. Those that this call started are stopped again, and nothing
    /// has changed.
    pub fn start_process(
        &mut self,
        registry: &Arc<Registry>,
        gateway: &Gateway,
    ) -> Result<(), Vec<ConfigError>> {
        let (known, before) = (self.all.len(), self.current.clone());
        let mut errors = Vec::new();
        self.adopt(registry, |started| {
            let def = started.def();
            let Some(start) = &def.lifecycle.process_start else { return true };
            let result = guarded(def, "process_start", || start(started.process(gateway)));
            let failure = result.unwrap_or_else(|panic| Err(format!("panicked: {panic}"))).err();
            let works = failure.is_none();
            errors.extend(failure.map(|why| ConfigError::new(&*def.name, why)));
            works
        });
        if errors.is_empty() {
            return Ok(());
        }
        self.all.drain(known..).for_each(|started| started.stop_process(gateway));
        self.current = before;
        Err(errors)
    }

    /// Stops those plugins in the process that no registry has any more, and that nothing compiled uses.
    pub fn stop_process(&mut self, gateway: &Gateway) {
        // A worker holds the definition until it has stopped the plugin.
        let over = |user: &User| user.registry.strong_count() == 0 && Arc::strong_count(&user.def) == 1;
        self.release(over).into_iter().for_each(|started| started.stop_process(gateway));
    }

    /// Stops all plugins in the process, which ends.
    pub fn end_process(&mut self, gateway: &Gateway) {
        self.all.drain(..).for_each(|started| started.stop_process(gateway));
    }

    /// Starts the plugins of `registry` on a worker that have not started there yet.
    pub fn start_worker(&mut self, registry: &Arc<Registry>, place: WorkerPlace<'_>) {
        self.adopt(registry, |started| {
            if let Some(start) = &started.def().lifecycle.worker_start {
                let _ = guarded(started.def(), "worker_start", || start(started.worker(place)));
            }
            true
        });
    }

    /// Stops those plugins on a worker that no registry has any more.
    pub fn stop_worker(&mut self, place: WorkerPlace<'_>) {
        let over = |user: &User| user.registry.strong_count() == 0;
        self.release(over).into_iter().for_each(|started| started.stop_worker(place));
    }

    /// Stops all plugins on a worker, which ends.
    pub fn end_worker(&mut self, place: WorkerPlace<'_>) {
        self.all.drain(..).for_each(|started| started.stop_worker(place));
    }

    /// Whether a plugin has started that the registry adopted last doesn't have: it is yet to be stopped.
    #[must_use]
    pub fn has_leftovers(&self) -> bool {
        self.all.iter().any(|started| !started.users.iter().any(|user| user.registry.ptr_eq(&self.current)))
    }

    /// Takes note that `registry` is in use, and has `start` start the plugins that are new with it. One for which that
    /// fails is not noted.
    fn adopt(&mut self, registry: &Arc<Registry>, mut start: impl FnMut(&Started) -> bool) {
        let adopted = Arc::downgrade(registry);
        if self.current.ptr_eq(&adopted) {
            return;
        }
        self.current = adopted.clone();
        for (streams, part) in [(false, Some(&**registry)), (true, registry.streams())] {
            let Some(part) = part else { continue };
            for def in part.all() {
                let user = User { registry: adopted.clone(), def: Arc::clone(&def) };
                if let Some(known) = self.all.iter_mut().find(|started| started.is(streams, &def)) {
                    if !known.users.iter().any(|known| known.registry.ptr_eq(&adopted)) {
                        known.users.push(user);
                    }
                } else if def.lifecycle.is_some() {
                    let (attributes, shared) =
                        (part.attributes(&def.name).cloned(), Arc::clone(&part.shared));
                    let started = Started { streams, attributes, shared, users: vec![user] };
                    if start(&started) {
                        self.all.push(started);
                    }
                }
            }
        }
    }

    /// Takes out the plugins whose users are all `over`, and forgets those users of the others.
    fn release(&mut self, over: impl Fn(&User) -> bool) -> Vec<Started> {
        let released = self.all.extract_if(.., |started| started.users.iter().all(&over)).collect();
        self.all.iter_mut().for_each(|started| started.users.retain(|user| !over(user)));
        released
    }
}

impl Started {
    fn is(&self, streams: bool, def: &PluginDef) -> bool {
        let own = self.def();
        (self.streams, &own.name, own.version) == (streams, &def.name, def.version)
    }

    /// The definition; never without a user.
    fn def(&self) -> &PluginDef {
        &self.users[0].def
    }

    fn process<'a>(&'a self, gateway: &'a Gateway) -> ProcessContext<'a> {
        ProcessContext { gateway, shared: &self.shared, attributes: self.attributes.as_ref() }
    }

    fn worker<'a>(&'a self, place: WorkerPlace<'a>) -> WorkerContext<'a> {
        let WorkerPlace { gateway, worker, services } = place;
        WorkerContext { process: self.process(gateway), worker, services }
    }

    fn stop_process(&self, gateway: &Gateway) {
        if let Some(stop) = &self.def().lifecycle.process_stop {
            let _ = guarded(self.def(), "process_stop", || stop(self.process(gateway)));
        }
    }

    fn stop_worker(&self, place: WorkerPlace<'_>) {
        if let Some(stop) = &self.def().lifecycle.worker_stop {
            let _ = guarded(self.def(), "worker_stop", || stop(self.worker(place)));
        }
    }
}

/// Runs a hook of `def`. A panic ends the hook alone: it is logged, and its message returned.
fn guarded<T>(def: &PluginDef, hook: &'static str, run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let message = panics::message(&*panic);
        tracing::error!(plugin = &*def.name, hook, "a plugin's lifecycle hook panicked: {message}");
        message
    })
}
