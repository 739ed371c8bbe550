//! What plugins answer to clients: endpoints that are reached where a route opens them, and nowhere else.

use crate::{CompileUpstream, Exchange, Flow, Shared, UpstreamCompiler};
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

impl ApiContext<'_> {
    /// Returns what compiles upstreams once an endpoint is asked.
    #[must_use]
    pub fn upstreams(&self) -> UpstreamCompiler {
        UpstreamCompiler { compile: self.compile_upstream, shared: Arc::clone(self.shared) }
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

impl std::fmt::Debug for PublicApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.uri)
    }
}
