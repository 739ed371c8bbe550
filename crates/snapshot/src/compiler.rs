//! What compiling one resource needs to know, and what makes it necessary to compile a plugin again.

use crate::bound::BoundPlugin;
use crate::fingerprint::fingerprint;
use crate::metadata::Metadata;
use crate::protos::Protos;
use crate::resource::Resource;
use crate::reuse;
use discovery::Discovery;
use model::ConfigError;
use plugin::{CompiledPlugin, FindIngredients, Ingredients, Nested, Parent, Registry};
use serde_json::Value;

/// What compiling one resource needs to know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Compiler<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) metadata: &'a Metadata,
    pub(crate) protos: &'a Protos,
    /// The resource's store key.
    pub(crate) key: &'a str,
    /// The resource as it was compiled before, to carry over from.
    pub(crate) before: Option<&'a Resource>,
    /// The registry that compiled `before`, where it was another one.
    pub(crate) registry_before: Option<&'a Registry>,
    /// Whether the nodes of upstreams are checked that ask for it.
    pub(crate) health_checks: bool,
    /// Whether the schema is asked about every value.
    pub(crate) doubts_values: bool,
    /// What knows the nodes of services.
    pub(crate) discovery: &'a Discovery,
}

impl Compiler<'_> {
    /// Compiles one plugin; `before` are those of the resource as it was.
    pub(crate) fn plugin(
        self,
        name: &str,
        config: &Value,
        before: &[BoundPlugin],
    ) -> Result<BoundPlugin, Vec<ConfigError>> {
        let metadata = self.metadata.get(name);
        let proto = self.registry.get(name).and_then(|def| def.proto_named(config));
        let definitions = proto.as_deref().and_then(|id| self.protos.get(id));
        let version = fingerprint(name, config, metadata, definitions.map(|proto| &*proto.stored));
        if let Some(bound) = reuse::plugin(before, name, version)
            && self.treats_alike(&bound.plugin)
            && bound.nested_version == self.nested_version(bound.plugin.nested())
        {
            let (nested_version, plugin) = (bound.nested_version, bound.plugin.clone());
            return Ok(BoundPlugin { version, nested_version, proto, plugin });
        }
        let parent = Parent { resource_key: self.key, config_version: version };
        let plugin = self.registry.compile_with(name, config, &self, parent)?;
        let nested_version = self.nested_version(plugin.nested());
        Ok(BoundPlugin { version, nested_version, proto, plugin })
    }

    /// Whether a plugin that the registry before compiled is as if this one had.
    fn treats_alike(self, plugin: &CompiledPlugin) -> bool {
        let Some(before) = self.registry_before else { return true };
        let mut names = plugin.nested().iter().map(|nested| &nested.name).chain([&plugin.def.name]);
        names.all(|name| self.registry.treats_alike(before, name))
    }

    fn nested_version(self, nested: &[Nested]) -> u64 {
        let one = |version: u64, nested: &Nested| {
            let definitions = nested.proto.as_deref().and_then(|id| self.protos.get(id));
            let stored = definitions.map(|proto| &*proto.stored);
            let metadata = self.metadata.get(&nested.name);
            version.rotate_left(1) ^ fingerprint(&nested.name, &Value::Null, metadata, stored)
        };
        nested.iter().fold(0, one)
    }
}

impl FindIngredients for Compiler<'_> {
    fn find(&self, name: &str, config: &Value) -> Ingredients<'_> {
        let proto = self.registry.get(name).and_then(|def| def.proto_named(config));
        let definitions = proto.as_deref().and_then(|id| self.protos.get(id));
        Ingredients {
            metadata: self.metadata.get(name),
            definitions: definitions.map(|proto| &proto.definitions),
        }
    }
}
