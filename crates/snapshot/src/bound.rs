//! One plugin of a resource, compiled.

use plugin::CompiledPlugin;

/// A plugin with its configuration, and the version of that.
#[derive(Debug)]
pub(crate) struct BoundPlugin {
    pub(crate) version: u64,
    /// The version of what the plugins inside it are made of besides its configuration.
    pub(crate) nested_version: u64,
    /// The id of the definitions that it names.
    pub(crate) proto: Option<String>,
    pub(crate) plugin: CompiledPlugin,
}

impl BoundPlugin {
    /// Whether a plugin of one of these names made it, or one inside it.
    pub(crate) fn is_made_by(&self, names: &[&str]) -> bool {
        let mut inside = self.plugin.nested().iter().map(|nested| &nested.name);
        names.contains(&&*self.plugin.def.name) || inside.any(|name| names.contains(&&**name))
    }

    /// Whether it names definitions with one of these ids, or a plugin inside it does.
    pub(crate) fn names_proto(&self, ids: &[&str]) -> bool {
        let inside = self.plugin.nested().iter().map(|nested| &nested.proto);
        inside.chain([&self.proto]).flatten().any(|id| ids.contains(&id.as_str()))
    }
}
