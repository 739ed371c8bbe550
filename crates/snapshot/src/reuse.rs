//! What a resource's new form takes over from the one before, where the content is the same: compiled plugins with
//! their state, and upstreams and sites with the `uid` under which the workers keep what they know of them.

use crate::bound::BoundPlugin;
use crate::resource::Resource;
use crate::uid::next_uid;
use crate::{Shared, Upstream};
use files::Site;
use std::sync::Arc;

/// The plugin `name` among those of `before`, if its configuration there has this version.
pub(crate) fn plugin<'b>(before: &'b [BoundPlugin], name: &str, version: u64) -> Option<&'b BoundPlugin> {
    before.iter().find(|bound| *bound.plugin.def.name == *name && bound.version == version)
}

/// The upstream of `before`, if `compiled` says the same; else `compiled` with a `uid` that no other upstream of this
/// process has had, and with what is still true of the nodes' health. `key` is the resource's.
pub(crate) fn upstream(before: Option<&Resource>, key: &str, mut compiled: Upstream) -> Arc<Upstream> {
    let before = before.and_then(|resource| resource.upstream.as_ref());
    if let Some(before) = before {
        compiled.uid = before.uid;
        if compiled == **before {
            return Arc::clone(before);
        }
    }
    compiled.uid = next_uid();
    let known = before.map(Upstream::latest);
    compiled.shared = Shared::of(&compiled, key, known.as_deref());
    if let Some(discovered) = &compiled.discovered {
        discovered.refresh(&compiled, known.as_deref());
    }
    Arc::new(compiled)
}

/// The site of `before`, if `compiled` says the same; else `compiled` with a `uid` of its own.
pub(crate) fn site(before: Option<&Resource>, mut compiled: Site) -> Arc<Site> {
    if let Some(before) = before.and_then(|resource| resource.site.as_ref()) {
        compiled.uid = before.uid;
        if compiled == **before {
            return Arc::clone(before);
        }
    }
    compiled.uid = next_uid();
    Arc::new(compiled)
}
