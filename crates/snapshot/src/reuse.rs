//! What a resource's new form takes over from the one before, where the content is the same: compiled plugins with
//! their state, and upstreams with the `uid` under which the workers keep balancers and connections.

use crate::Upstream;
use crate::resource::Resource;
use plugin::CompiledPlugin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The plugin `name` of `before`, if its configuration there has this version.
pub(crate) fn plugin(before: Option<&Resource>, name: &str, version: u64) -> Option<CompiledPlugin> {
    let bound = before?.plugins.iter().find(|bound| bound.plugin.def.name == name)?;
    (bound.version == version).then(|| bound.plugin.clone())
}

/// The upstream of `before`, if `compiled` says the same; else `compiled` with a `uid` that no other upstream of this
/// process has had.
pub(crate) fn upstream(before: Option<&Resource>, mut compiled: Upstream) -> Arc<Upstream> {
    static NEXT_UID: AtomicU64 = AtomicU64::new(1);
    if let Some(before) = before.and_then(|resource| resource.upstream.as_ref()) {
        compiled.uid = before.uid;
        if compiled == **before {
            return Arc::clone(before);
        }
    }
    compiled.uid = NEXT_UID.fetch_add(1, Ordering::Relaxed);
    Arc::new(compiled)
}
