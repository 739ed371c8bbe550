//! The Admin API as a value: what it works on, and how it is set up. What it does are the modules above this one.

use crate::{AdminSettings, Standalone};
use std::sync::Arc;
use store::etcd::Fleet;
use store::{Cached, Store};
use tokio::sync::{RwLock, watch};

/// The Admin API.
pub struct Admin {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) registry: Arc<plugin::Registry>,
    pub(crate) settings: AdminSettings,
    /// What encrypts secrets; `None` stores them as they are.
    pub(crate) sealing: Option<Arc<secrets::Sealing>>,
    /// The revision that the workers have.
    pub(crate) applied: watch::Receiver<u64>,
    /// Writes that may create a reference hold it shared, from the check that the other resource exists to the
    /// commit; what may break one (a deletion, a global rule's conflict) holds it alone. Writes thus still meet in
    /// one commit of the store.
    pub(crate) references: Arc<RwLock<()>>,
    /// The document that is used instead of the store, if there is one.
    pub(crate) standalone: Option<Arc<Standalone>>,
    /// What follows the store, where it may be rejected.
    pub(crate) source: Option<Arc<Cached>>,
    /// The nodes that share the store, where there may be others.
    pub(crate) fleet: Option<Arc<dyn Fleet>>,
}

impl Admin {
    /// An Admin API over `store`. `applied` tells the revision that the workers have.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        registry: Arc<plugin::Registry>,
        settings: AdminSettings,
        applied: watch::Receiver<u64>,
    ) -> Self {
        let (references, standalone, source, fleet) = (Arc::default(), None, None, None);
        Self { store, registry, settings, sealing: None, applied, references, standalone, source, fleet }
    }

    /// The same Admin API with other plugins and settings.
    #[must_use]
    pub fn with(&self, registry: Arc<plugin::Registry>, settings: AdminSettings) -> Self {
        let (store, applied) = (Arc::clone(&self.store), self.applied.clone());
        let (sealing, references) = (self.sealing.clone(), Arc::clone(&self.references));
        let (standalone, source, fleet) = (self.standalone.clone(), self.source.clone(), self.fleet.clone());
        Self { store, registry, settings, sealing, applied, references, standalone, source, fleet }
    }

    /// The same with the configuration as one document: there are no single resources then.
    #[must_use]
    pub fn with_standalone(mut self, standalone: Option<Arc<Standalone>>) -> Self {
        self.standalone = standalone;
        self
    }

    /// The same over a config source whose contents may have to be accepted.
    #[must_use]
    pub fn with_source(mut self, source: Option<Arc<Cached>>) -> Self {
        self.source = source;
        self
    }

    /// The same on a store that is shared: `wait=all` waits for every node.
    #[must_use]
    pub fn with_fleet(mut self, fleet: Option<Arc<dyn Fleet>>) -> Self {
        self.fleet = fleet;
        self
    }

    /// The same Admin API over another store: checks then see what that has.
    pub(crate) fn seeing(&self, store: Arc<dyn Store>) -> Self {
        let same = self.with(Arc::clone(&self.registry), self.settings.clone());
        Self { store, ..same }
    }

    /// How it was set up.
    #[must_use]
    pub fn settings(&self) -> &AdminSettings {
        &self.settings
    }
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin").field("settings", &self.settings).finish_non_exhaustive()
    }
}
