//! Upstreams that are written in plugins' configurations.

use crate::{Shared, UpstreamChoice};
use model::ConfigError;
use serde_json::Value;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Compiles an upstream, defaults filled in, into the form that the engine asks: `snapshot::Upstream`. The framework
/// knows nothing of that type.
pub type CompileUpstream =
    fn(&model::Upstream, &Shared) -> Result<Arc<dyn Any + Send + Sync>, Vec<ConfigError>>;

/// Where nobody asks upstreams, as in the tests of plugins, they stay as written.
pub(crate) fn as_written(
    upstream: &model::Upstream,
    _: &Shared,
) -> Result<Arc<dyn Any + Send + Sync>, Vec<ConfigError>> {
    Ok(Arc::new(upstream.clone()))
}

/// Compiles upstreams after their plugin is compiled: for servers that only other servers name, as the nodes of a
/// cluster and the primary behind a sentinel are. What a client sends must never choose one.
#[derive(Clone)]
pub struct UpstreamCompiler {
    pub(crate) compile: CompileUpstream,
    pub(crate) shared: Arc<Shared>,
}

impl UpstreamCompiler {
    /// Compiles an upstream, as [`crate::CompileContext::upstream`] does.
    ///
    /// # Errors
    /// Every mistake; paths start at the upstream.
    pub fn compile(&self, written: &Value) -> Result<UpstreamChoice, Vec<ConfigError>> {
        compile(self.compile, &self.shared, written)
    }
}

impl fmt::Debug for UpstreamCompiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamCompiler").finish_non_exhaustive()
    }
}

pub(crate) fn compile(
    with: CompileUpstream,
    shared: &Shared,
    written: &Value,
) -> Result<UpstreamChoice, Vec<ConfigError>> {
    let unreadable = |error: serde_json::Error| vec![ConfigError::new("", error.to_string())];
    let upstream: model::Upstream = serde_json::from_value(written.clone()).map_err(unreadable)?;
    with(&upstream, shared).map(UpstreamChoice::Written)
}
