//! The control API: the state of this one process, for the operator of this one machine. Paths, bodies and codes are
//! APISIX's (`apisix/control/v1.lua`); `POST /v1/explain` and `GET /v1/problems` are our own.
//!
//! Of the configuration it reads and never writes; plugins' own endpoints do what the plugins say. It asks nobody who they are, so it listens on loopback unless it is told otherwise.

mod dump;
mod explain;
mod health;
mod problems;
mod schemas;
mod server;

pub use explain::Setting;
pub use health::{Health, NoHealth, NodeHealth};
pub use server::server;

use crate::AdminResponse;
use crate::http::respond::Answer;
use discovery::Discovery;
use model::Kind;
use plugin::{ControlAnswer, ControlBody, Registry};
use snapshot::{FollowStatus, Published};
use std::sync::{Arc, PoisonError, RwLock};
use store::Store;
use tokio::sync::watch;

const NOT_FOUND: &str = "<html>\n<head><title>404 Not Found</title></head>\n<body>\n\
    <center><h1>404 Not Found</h1></center>\n</body>\n</html>\n";

/// The control API.
pub struct Control {
    store: Arc<dyn Store>,
    published: Arc<Published>,
    health: Arc<dyn Health>,
    status: Arc<FollowStatus>,
    discovery: Arc<Discovery>,
    /// How the config source is, where there is one.
    source: Option<watch::Receiver<store::Health>>,
    /// What stands before the keys of the store where they are shown.
    key_prefix: String,
    /// What a reload replaces.
    current: RwLock<Current>,
}

/// What of the configuration file the control API looks at.
#[derive(Debug, Clone)]
struct Current {
    registry: Arc<Registry>,
    setting: Setting,
}

/// A request to the control API.
#[derive(Debug, Clone, Default)]
pub struct ControlRequest {
    /// The method's token.
    pub method: String,
    /// The path, decoded.
    pub path: String,
    /// What stands behind the `?`, as received.
    pub query: String,
    /// Whether the client wants HTML (`Accept`).
    pub html: bool,
    /// The body.
    pub body: Vec<u8>,
}

impl Control {
    /// A control API over what the process uses.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        published: Arc<Published>,
        registry: Arc<Registry>,
        setting: Setting,
        health: Arc<dyn Health>,
    ) -> Self {
        let current = RwLock::new(Current { registry, setting });
        let (status, discovery, key_prefix) = (Arc::default(), Arc::default(), "/apisix".to_owned());
        Self { store, published, health, status, discovery, source: None, key_prefix, current }
    }

    /// The same, telling of the problems that `status` knows.
    #[must_use]
    pub fn with_status(self, status: Arc<FollowStatus>) -> Self {
        Self { status, ..self }
    }

    /// The same, telling of a config source that is rejected.
    #[must_use]
    pub fn with_source(self, source: Option<watch::Receiver<store::Health>>) -> Self {
        Self { source, ..self }
    }

    /// The same with another prefix of the keys that it shows than APISIX's default.
    #[must_use]
    pub fn with_key_prefix(self, key_prefix: &str) -> Self {
        Self { key_prefix: key_prefix.to_owned(), ..self }
    }

    /// The same with what knows the nodes of services.
    #[must_use]
    pub fn with_discovery(mut self, discovery: Arc<Discovery>) -> Self {
        self.discovery = discovery;
        self
    }

    /// Lets it answer from another registry and setting: what a reload put in force.
    pub fn replace(&self, registry: Arc<Registry>, setting: Setting) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Current { registry, setting };
    }

    /// Answers a request.
    pub async fn handle(&self, request: ControlRequest) -> AdminResponse {
        self.answer(&request).await.unwrap_or_else(|refused| refused)
    }

    async fn answer(&self, request: &ControlRequest) -> Answer {
        // The page that nginx makes for a path that APISIX's control API doesn't have.
        let not_found = || Err(AdminResponse::text(404, NOT_FOUND).with("Content-Type", "text/html"));
        let Some(path) = request.path.strip_prefix("/v1/") else { return not_found() };
        let names: Vec<&str> = path.split('/').collect();
        match (request.method.as_str(), names.as_slice()) {
            ("GET", ["schema"]) => Ok(schemas::all(&self.current().registry)),
            ("GET", ["healthcheck"]) => health::all(self, request.html).await,
            ("GET", ["healthcheck", collection, id @ ..]) => {
                health::one(self, request.html, collection, id.first().copied().unwrap_or_default()).await
            }
            ("GET", ["discovery", kind, page]) => match self.discovery.page(kind, page) {
                Some(page) => Ok(AdminResponse::text(page.status, &page.body)),
                None => not_found(),
            },
            ("GET", ["routes"]) => dump::all(self, Kind::Route).await,
            ("GET", ["route", id]) => dump::one(self, Kind::Route, id).await,
            ("GET", ["services"]) => dump::all(self, Kind::Service).await,
            ("GET", ["service", id]) => dump::one(self, Kind::Service, id).await,
            ("GET", ["upstreams"]) => dump::all(self, Kind::Upstream).await,
            ("GET", ["upstream", id]) => dump::one(self, Kind::Upstream, id).await,
            ("GET", ["plugin_metadatas"]) => dump::metadatas(self).await,
            ("GET", ["plugin_metadata", name]) => dump::metadata(self, name).await,
            ("GET", ["problems"]) => Ok(problems::all(self)),
            ("PUT", ["plugins", "reload"]) => crate::reload::plugins(&self.current().registry).await,
            // Nothing here is collected as garbage.
            ("POST", ["gc"]) => Ok(AdminResponse::empty(200)),
            ("POST", ["explain"]) => explain::answer(self, &request.body).await,
            (method, ["plugin", name, below @ ..]) => {
                let registry = self.current().registry;
                let answer = registry.control(name, method, &below.join("/"), &request.query, &request.body);
                let Some(ControlAnswer { status, body }) = answer else { return not_found() };
                Ok(match body {
                    ControlBody::Text(text) => {
                        AdminResponse::text(status, &text).with("Content-Type", "text/plain")
                    }
                    ControlBody::Json(value) => AdminResponse::json(status, &value),
                })
            }
            _ => not_found(),
        }
    }

    fn shown_key(&self, key: &str) -> String {
        format!("{}{key}", self.key_prefix)
    }

    fn current(&self) -> Current {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}
