//! Service discovery: services whose nodes are not written in the configuration but found out at run time.
//!
//! Each kind of it is a `Source`, and knows nothing of upstreams: it keeps [`Service`]s up to date, for as long as
//! somebody holds them, on a thread of its own. Whoever holds one is told of changes by [`Discovery::changes`].

mod config;
mod consul;
mod dns;
pub mod names;
mod service;

pub use config::Config;
pub use service::Service;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

/// A kind of service discovery: something that knows the nodes of services by name.
trait Source: Debug + Send + Sync {
    /// Keeps `service` up to date until nobody else holds it.
    fn follow(self: Arc<Self>, service: Weak<Service>) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// A page of the control API, `/v1/discovery/{kind}/{page}`; `None` where there is no such page.
    fn page(&self, _page: &str) -> Option<Page> {
        None
    }
}

/// An answer of the control API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Its status.
    pub status: u16,
    /// Its body: JSON, or the reason why there is none.
    pub body: String,
}

/// The kinds of service discovery that are configured, and the services that somebody wants to know of.
#[derive(Debug, Default)]
pub struct Discovery {
    sources: BTreeMap<&'static str, Arc<dyn Source>>,
    services: Mutex<HashMap<(&'static str, String), Weak<Service>>>,
    changes: watch::Sender<()>,
    /// Where everything is found out; `None` where nothing is configured.
    runtime: Option<Runtime>,
}

impl Discovery {
    /// Starts what `config` asks for.
    ///
    /// # Errors
    /// When a thread can't be had, or a file that `config` names can't be read.
    pub fn start(config: Config) -> io::Result<Self> {
        let mut discovery = Self::default();
        if config.is_empty() {
            return Ok(discovery);
        }
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("discovery").enable_all().build()?;
        let entered = runtime.enter();
        if let Some(dns) = &config.dns {
            discovery.sources.insert("dns", Arc::new(dns::Dns::new(dns)?));
        }
        if let Some(consul) = config.consul {
            discovery.sources.insert("consul", consul::Consul::start(consul));
        }
        drop(entered);
        discovery.runtime = Some(runtime);
        Ok(discovery)
    }

    /// The service `name` as `kind` knows it; `None` where this kind of discovery isn't configured.
    #[must_use]
    pub fn service(&self, kind: &str, name: &str) -> Option<Arc<Service>> {
        let (&kind, source) = self.sources.get_key_value(kind)?;
        let mut services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        services.retain(|_, service| service.strong_count() > 0);
        let slot = services.entry((kind, name.to_owned())).or_default();
        if let Some(known) = slot.upgrade() {
            return Some(known);
        }
        let service = Arc::new(Service::new(kind, name, self.changes.clone()));
        *slot = Arc::downgrade(&service);
        let following = Arc::clone(source).follow(Weak::clone(slot));
        self.runtime.as_ref()?.spawn(following);
        Some(service)
    }

    /// Tells of every change of a service's nodes.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// A page of the control API, `/v1/discovery/{kind}/{page}`; `None` where there is no such page.
    #[must_use]
    pub fn page(&self, kind: &str, page: &str) -> Option<Page> {
        self.sources.get(kind)?.page(page)
    }
}

impl Drop for Discovery {
    fn drop(&mut self) {
        // Long polls may have a minute to go, and nobody waits for them.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
