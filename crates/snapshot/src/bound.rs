//! One plugin of a resource, compiled, and what makes it necessary to compile it again.

use crate::fingerprint::fingerprint;
use crate::resource::Compiler;
use crate::reuse;
use model::ConfigError;
use plugin::{CompiledPlugin, FindIngredients, Ingredients, Nested, Parent};
use serde_json::Value;

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
