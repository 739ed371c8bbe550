//! Upstreams that stand in plugins' configurations and whose nodes services have.

use super::{Discovered, Upstream};
use crate::reuse;
use discovery::{Discovery, Service};
use model::ConfigError;
use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What such upstreams need of the process, in the plugins' shared state: they are compiled with their plugins, and nobody
/// but these holds them.
#[derive(Debug, Default)]
pub struct InPlugins {
    discovery: Arc<Discovery>,
    upstreams: Mutex<Vec<Weak<Upstream>>>,
}

impl InPlugins {
    /// None yet, with what knows the nodes of services. The default knows of no service.
    #[must_use]
    pub fn new(discovery: Arc<Discovery>) -> Self {
        Self { discovery, upstreams: Mutex::default() }
    }

    /// The service that an upstream names, if it names one.
    pub(crate) fn service(&self, written: &model::Upstream) -> Option<Arc<Service>> {
        let (kind, name) = (written.discovery_type.as_deref()?, written.service_name.as_deref()?);
        let service = self.discovery.service(kind, name);
        if service.is_none() {
            tracing::error!(service = name, "service discovery by \"{kind}\" is not configured");
        }
        service
    }

    /// Sees to it that the nodes of `upstream` are its service's from now on.
    pub(crate) fn keep(&self, upstream: &Arc<Upstream>) {
        if upstream.discovered.is_none() {
            return;
        }
        let mut upstreams = self.upstreams.lock().unwrap_or_else(PoisonError::into_inner);
        // Instead of growing for those that are gone, of configurations that were only checked too.
        if upstreams.len() == upstreams.capacity() {
            upstreams.retain(|upstream| upstream.strong_count() > 0);
        }
        upstreams.push(Arc::downgrade(upstream));
    }

    /// Gives them the nodes that their services have now; whether any were others.
    pub(crate) fn refresh(&self) -> bool {
        let mut any = false;
        self.upstreams.lock().unwrap_or_else(PoisonError::into_inner).retain(|upstream| {
            let Some(upstream) = upstream.upgrade() else { return false };
            any |= upstream.refresh();
            true
        });
        any
    }
}

impl Upstream {
    /// An upstream that stands in a plugin's configuration, in the form in which the engine finds it: see
    /// [`plugin::Registry::with_upstreams`].
    ///
    /// # Errors
    /// As [`Self::compile`].
    pub fn of_plugin(
        written: &model::Upstream,
        shared: &plugin::Shared,
    ) -> Result<Arc<dyn Any + Send + Sync>, Vec<ConfigError>> {
        let in_plugins = shared.get::<InPlugins>();
        let discovered = in_plugins.service(written).map(Discovered::new);
        // Nobody probes its nodes: one given up for its failures would stay so for ever.
        let compiled = Self { checks: None, discovered, ..Self::compile(written)? };
        let upstream = reuse::upstream(None, "", compiled);
        in_plugins.keep(&upstream);
        Ok(upstream)
    }
}
