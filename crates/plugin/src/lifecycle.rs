//! The beginning and the end of processes and workers, for plugins that have something to do then.

use crate::{Gateway, Services, Shared};
use serde_json::Value;
use std::fmt;
use std::rc::Rc;
use stdx::WorkerToken;

/// What a plugin does when the process and its workers start and stop; most do nothing. A plugin that a reload adds
/// starts then, and one that it takes away or replaces by another version stops. A hook that panics is logged, and has
/// no other effect than `process_start`'s, which then fails.
#[derive(Default)]
pub struct Lifecycle {
    /// Before the plugin's first configuration is compiled, on a thread of the control plane.
    pub process_start: Option<Box<OnProcessStart>>,
    /// When no configuration of the plugin runs any more.
    pub process_stop: Option<Box<OnProcessStop>>,
    /// On each worker before its first request, and where the plugin was added before the next: a place for state of its
    /// own, as a script's interpreter is. Also on a worker that replaces one that panicked, whose stop did not run.
    pub worker_start: Option<Box<OnWorker>>,
    /// On each worker after the last request that may use the plugin.
    pub worker_stop: Option<Box<OnWorker>>,
}

/// Starts a plugin in the process, or says why it can't be used.
pub type OnProcessStart = dyn Fn(ProcessContext<'_>) -> Result<(), String> + Send + Sync;
/// Ends a plugin in the process.
pub type OnProcessStop = dyn Fn(ProcessContext<'_>) + Send + Sync;
/// Starts or ends a plugin on a worker.
pub type OnWorker = dyn Fn(WorkerContext<'_>) + Send + Sync;

/// What a plugin may use when the process starts and stops.
#[derive(Debug, Clone, Copy)]
pub struct ProcessContext<'a> {
    /// The process.
    pub gateway: &'a Gateway,
    /// The process's shared plugin state.
    pub shared: &'a Shared,
    /// The plugin's part of `plugin_attr` in the configuration file.
    pub attributes: Option<&'a Value>,
}

/// What a plugin may use when a worker starts and stops.
#[derive(Debug, Clone, Copy)]
pub struct WorkerContext<'a> {
    /// What belongs to the process.
    pub process: ProcessContext<'a>,
    /// The worker: the key to per-worker state.
    pub worker: &'a WorkerToken,
    /// The worker's services.
    pub services: &'a Rc<dyn Services>,
}

impl Lifecycle {
    /// Whether there is anything to do.
    pub(crate) fn is_some(&self) -> bool {
        let Self { process_start, process_stop, worker_start, worker_stop } = self;
        process_start.is_some() || process_stop.is_some() || worker_start.is_some() || worker_stop.is_some()
    }
}

impl fmt::Debug for Lifecycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lifecycle").finish_non_exhaustive()
    }
}
