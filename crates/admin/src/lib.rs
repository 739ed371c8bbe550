//! The Admin API: a function from request to response over the store, with APISIX's paths, bodies and words.
//!
//! [`Admin::handle`] has no sockets: [`server`] puts it behind a listener of its own, and the engine calls it where the
//! quick start answers on the data port. A refused request changes nothing; an acknowledged write is durable, and
//! the workers have it before the answer leaves (for at most [`AdminSettings::apply_wait`]).
//!
//! Where APISIX's answer is an error page or a Lua stack, or where two writers race, ours is better defined; the
//! differences stand at the top of the file that makes them.

mod config_source;
pub mod control;
mod current;
mod dispatch;
mod fleet;
mod http;
pub mod lint;
mod read;
mod sealing;
mod settings;
mod standalone;
mod validate;
mod write;

pub use control::{Control, ControlRequest};
pub use current::CurrentAdmin;
pub use http::request::AdminRequest;
pub use http::respond::AdminResponse;
pub use http::server::server;
pub use http::serving::{CONNECTIONS_MAX, ListenerTls, Server};
pub use settings::{AdminKey, AdminSettings, ApiVersion, Role, is_well_known};
pub use standalone::Standalone;
pub use validate::all::{Fault, Resource, check_whole};

use http::args::Args;
use http::auth;
use std::sync::Arc;
use store::etcd::Fleet;
use store::{Cached, Store};
use tokio::sync::{RwLock, watch};

/// The Admin API.
pub struct Admin {
    store: Arc<dyn Store>,
    registry: Arc<plugin::Registry>,
    settings: AdminSettings,
    /// What encrypts secrets; `None` stores them as they are.
    sealing: Option<Arc<secrets::Sealing>>,
    /// The revision that the workers have.
    applied: watch::Receiver<u64>,
    /// Writes that may create a reference hold it shared, from the check that the other resource exists to the
    /// commit; what may break one (a deletion, a global rule's conflict) holds it alone. Writes thus still meet in
    /// one commit of the store.
    references: Arc<RwLock<()>>,
    /// The document that stands for the store, where there is one.
    standalone: Option<Arc<Standalone>>,
    /// What follows the store, where it may be rejected.
    source: Option<Arc<Cached>>,
    /// The nodes that share the store, where there may be others.
    fleet: Option<Arc<dyn Fleet>>,
}

/// Largest body in bytes that holds a whole configuration: the largest document, written as JSON operations.
const CONFIG_BYTES_MAX: usize = 96 << 20;

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

    /// Returns the largest body of a request in bytes. A whole configuration (`/configs`, and `/txn`, which can check
    /// one) may be as large as a configuration file, if the caller may use the API.
    #[must_use]
    pub fn body_limit(&self, request: &AdminRequest) -> usize {
        let limit = self.settings.body_limit;
        let path = request.path.trim_end_matches('/');
        if !["/admin/txn", "/admin/configs", "/admin/configs/validate"].iter().any(|end| path.ends_with(end))
        {
            return limit;
        }
        let admitted = auth::check_address(&self.settings, request.peer).is_ok()
            && auth::check_sender(&self.settings, request).is_ok()
            && auth::check_key(&self.settings, request, &Args::parse(&request.query)).is_ok();
        if admitted { limit.max(CONFIG_BYTES_MAX) } else { limit }
    }

    /// How it was set up.
    #[must_use]
    pub fn settings(&self) -> &AdminSettings {
        &self.settings
    }

    /// Answers one request. Runs on a tokio runtime with time; never panics, whatever the request.
    pub async fn handle(&self, request: AdminRequest) -> AdminResponse {
        Box::pin(dispatch::answer(self, &request)).await
    }

    /// Waits until the workers have `revision`, for a bounded time.
    async fn wait_applied(&self, revision: u64) {
        fleet::written(revision);
        let mut applied = self.applied.clone();
        let reached =
            tokio::time::timeout(self.settings.apply_wait, applied.wait_for(|applied| *applied >= revision))
                .await;
        if !matches!(reached, Ok(Ok(_))) {
            tracing::warn!(revision, "answered a write that the workers have not taken yet");
        }
    }
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin").field("settings", &self.settings).finish_non_exhaustive()
    }
}
