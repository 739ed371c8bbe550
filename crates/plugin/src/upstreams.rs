//! Upstreams that are written in plugins' configurations.

use crate::{CompileContext, Shared, UpstreamChoice};
use model::ConfigError;
use serde_json::Value;
use std::any::Any;
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

impl CompileContext<'_> {
    /// Compiles an upstream that is written in the plugin's configuration, for [`crate::Extras::upstream`].
    ///
    /// # Errors
    /// Every mistake; paths start at the upstream.
    pub fn upstream(&self, written: &Value) -> Result<UpstreamChoice, Vec<ConfigError>> {
        compile_written(self.registry.compile_upstream, self.shared, written)
    }
}

/// Compiles an upstream in its JSON form.
pub(crate) fn compile_written(
    compile: CompileUpstream,
    shared: &Shared,
    written: &Value,
) -> Result<UpstreamChoice, Vec<ConfigError>> {
    let unreadable = |error: serde_json::Error| vec![ConfigError::new("", error.to_string())];
    let upstream: model::Upstream = serde_json::from_value(written.clone()).map_err(unreadable)?;
    compile(&upstream, shared).map(UpstreamChoice::Written)
}
