//! What plugins answer to clients: endpoints that are reached where a route opens them, and nowhere else.

use crate::{CompileContext, CompileUpstream, Exchange, Flow, Nested, Reply, Shared};
use observe::Metrics;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// One of a plugin's endpoints for clients, bound to what the plugin is configured with.
pub struct PublicApi {
    /// The method's token; no other is answered.
    pub method: Cow<'static, str>,
    /// The path, normalised: `/apisix/status`.
    pub uri: String,
    /// Answers an exchange, in its access phase.
    pub answer: Box<dyn Fn(&Exchange<'_>) -> Flow + Send + Sync>,
}

/// What the endpoints of a plugin are made of.
#[derive(Debug, Clone, Copy)]
pub struct ApiContext<'a> {
    /// The process's shared plugin state.
    pub shared: &'a Arc<Shared>,
    /// The plugin's part of `plugin_attr` in the configuration file.
    pub attributes: Option<&'a Value>,
    /// The plugin's `plugin_metadata`. The endpoints are made again when it changes.
    pub metadata: Option<&'a Value>,
    pub(crate) compile_upstream: CompileUpstream,
}

impl CompileContext<'_> {
    /// The endpoints for clients that the plugins of this gateway have. The plugin that asks is compiled again when the
    /// metadata of one that has endpoints changes.
    #[must_use]
    pub fn public_apis(&self) -> Vec<PublicApi> {
        let mut apis = Vec::new();
        for def in self.registry.all() {
            let Some(make) = &def.public_apis else { continue };
            let context = ApiContext {
                shared: &self.registry.shared,
                attributes: self.registry.attributes(&def.name),
                metadata: self.ingredients.find(&def.name, &Value::Null).metadata,
                compile_upstream: self.registry.compile_upstream,
            };
            apis.extend(make(context));
            self.nested.borrow_mut().push(Nested { name: Arc::clone(&def.name), proto: None });
        }
        apis
    }

    /// The process's metrics, where a plugin registers its own: `cx.metrics().counter(name, help, labels)`. A family that
    /// is registered stays until the process ends, whatever becomes of the configuration.
    #[must_use]
    pub fn metrics(&self) -> Arc<Metrics> {
        self.shared.get()
    }
}

/// Makes a plugin's endpoints.
pub type MakeApis = Box<dyn Fn(ApiContext<'_>) -> Vec<PublicApi> + Send + Sync>;

impl PublicApi {
    /// An endpoint for GET.
    pub fn get(
        uri: impl Into<String>,
        answer: impl Fn(&Exchange<'_>) -> Flow + Send + Sync + 'static,
    ) -> Self {
        Self { method: Cow::Borrowed("GET"), uri: uri.into(), answer: Box::new(answer) }
    }
}

impl Flow {
    /// Answers with what `work` makes, on a thread where nobody waits for a worker. For what takes longer than a
    /// request may hold others up; the runtime has a bounded number of such threads.
    #[must_use]
    pub fn elsewhere(work: impl FnOnce() -> Reply + Send + 'static) -> Self {
        Self::Wait(Box::pin(async move {
            let reply = tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Reply::status(500));
            let resume: crate::Resume = Box::new(move |_| Self::reply(reply));
            resume
        }))
    }
}

impl std::fmt::Debug for PublicApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.uri)
    }
}
