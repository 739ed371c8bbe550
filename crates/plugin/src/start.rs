//! Starting and stopping the plugins of a registry.

use crate::{Gateway, PluginDef, ProcessContext, Registry, Services, WorkerContext};
use model::ConfigError;
use std::rc::Rc;
use std::sync::Arc;
use stdx::WorkerToken;

impl Registry {
    /// Starts the plugins that `before`, the registry that was in use, doesn't have in the same version.
    ///
    /// # Errors
    /// Every plugin that can't be used, its name as the path. Those that started are to be stopped.
    pub fn start_process(&self, before: Option<&Self>, gateway: &Gateway) -> Result<(), Vec<ConfigError>> {
        let mut errors = Vec::new();
        for def in self.unlike(before) {
            if let Some(start) = &def.lifecycle.process_start
                && let Err(why) = start(self.process(&def, gateway))
            {
                errors.push(ConfigError::new(&*def.name, why));
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Stops the plugins that `after`, the registry that is in use now, doesn't have in the same version.
    pub fn stop_process(&self, after: Option<&Self>, gateway: &Gateway) {
        for def in self.unlike(after) {
            if let Some(stop) = &def.lifecycle.process_stop {
                stop(self.process(&def, gateway));
            }
        }
    }

    /// As [`Self::start_process`], for one worker.
    pub fn start_worker(
        &self,
        before: Option<&Self>,
        gateway: &Gateway,
        worker: &WorkerToken,
        services: &Rc<dyn Services>,
    ) {
        for def in self.unlike(before) {
            if let Some(start) = &def.lifecycle.worker_start {
                start(WorkerContext { process: self.process(&def, gateway), worker, services });
            }
        }
    }

    /// As [`Self::stop_process`], for one worker.
    pub fn stop_worker(
        &self,
        after: Option<&Self>,
        gateway: &Gateway,
        worker: &WorkerToken,
        services: &Rc<dyn Services>,
    ) {
        for def in self.unlike(after) {
            if let Some(stop) = &def.lifecycle.worker_stop {
                stop(WorkerContext { process: self.process(&def, gateway), worker, services });
            }
        }
    }

    /// The plugins that `other` doesn't have in the same version, by priority.
    fn unlike(&self, other: Option<&Self>) -> Vec<Arc<PluginDef>> {
        let version = |name: &str| other.and_then(|other| other.get(name)).map(|def| def.version);
        let mut all = self.all();
        all.retain(|def| version(&def.name) != Some(def.version));
        all
    }

    fn process<'a>(&'a self, def: &PluginDef, gateway: &'a Gateway) -> ProcessContext<'a> {
        ProcessContext { gateway, shared: &self.shared, attributes: self.attributes(&def.name) }
    }
}
