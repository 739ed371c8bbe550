//! The plugins that have started in this process.

use crate::assemble::{self, Own};
use config::Settings;
use plugin::{Registry, StartedPlugins};
use std::sync::Arc;

/// The plugins whose `process_start` has run, and whose `process_stop` is still to run.
#[derive(Debug, Default)]
pub struct ProcessPlugins(StartedPlugins);

impl ProcessPlugins {
    /// Starts those of `registry` that have not started yet.
    ///
    /// # Errors
    /// When one of them refuses; the error log names every one.
    pub fn start(&mut self, registry: &Arc<Registry>, settings: &Settings, own: &Own) -> anyhow::Result<()> {
        let Err(errors) = self.0.start_process(registry, &assemble::gateway(settings, own)) else {
            return Ok(());
        };
        errors
            .iter()
            .for_each(|error| tracing::error!(plugin = error.path, "can't start: {}", error.message));
        let names: Vec<_> = errors.iter().map(|error| error.path.as_str()).collect();
        Err(anyhow::anyhow!("plugins can't start: {}", names.join(", ")))
    }

    /// Whether plugins are still to be stopped that the configuration no longer has.
    pub fn has_leftovers(&self) -> bool {
        self.0.has_leftovers()
    }

    /// Stops those of them that nothing uses any more.
    pub fn stop_unused(&mut self, settings: &Settings, own: &Own) {
        self.0.stop_process(&assemble::gateway(settings, own));
    }

    /// Stops all: no worker runs any more.
    pub fn end(&mut self, settings: &Settings, own: &Own) {
        self.0.end_process(&assemble::gateway(settings, own));
    }
}
