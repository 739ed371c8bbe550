//! The plugins this gateway has, and how their configurations are checked and compiled.

use crate::chain::CompiledPlugin;
use crate::credential::CompiledCredential;
use crate::def::Entry;
use crate::upstreams::as_written;
use crate::{
    CompileContext, CompileUpstream, ControlAnswer, ControlRequest, FileAccess, FindIngredients, Hooks,
    Ingredients, Meta, Nested, Parent, PluginDef, Registry, RouteFilters,
};
use model::schema::{Report, Validator};
use model::{ConfigError, PluginMap};
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

impl Entry {
    fn new(def: Arc<PluginDef>) -> Result<Self, ConfigError> {
        let schema = with_meta(def.schema.clone());
        let metadata_schema = def.metadata_schema.clone().unwrap_or_else(|| json!({"type": "object"}));
        let compile = |schema: &Value| {
            Validator::compile(schema).map_err(|error| ConfigError::new(&*def.name, error.to_string()))
        };
        let (validator, metadata_validator) = (compile(&schema)?, compile(&metadata_schema)?);
        let consumer = def.consumer.as_ref().map(|side| compile(&side.schema)).transpose()?;
        Ok(Self { def, schema, validator, metadata_schema, metadata_validator, consumer })
    }
}

impl Registry {
    /// A registry of `plugins`, with the configuration file's `plugin_attr`.
    ///
    /// # Errors
    /// When a plugin's own schema is no valid schema: a mistake in that plugin.
    pub fn new<D: Into<Arc<PluginDef>>>(
        plugins: impl IntoIterator<Item = D>,
        attributes: Map<String, Value>,
    ) -> Result<Self, ConfigError> {
        let mut registry = Self { attributes, ..Self::default() };
        for def in plugins {
            registry = registry.with(def)?;
        }
        Ok(registry)
    }

    /// The same registry with one more plugin, in place of the one that has its name. What was compiled before keeps the
    /// definition that compiled it: a builder that is given the new registry replaces both together.
    ///
    /// # Errors
    /// When the plugin's own schema is no valid schema.
    pub fn with(mut self, def: impl Into<Arc<PluginDef>>) -> Result<Self, ConfigError> {
        let entry = Entry::new(def.into())?;
        self.disabled.retain(|name| *name != entry.def.name);
        self.entries.insert(Arc::clone(&entry.def.name), Arc::new(entry));
        Ok(self)
    }

    /// The same registry over the plugin state of `before`: counters and connections go on.
    #[must_use]
    pub fn succeeding(self, before: &Self) -> Self {
        let streams = self.streams.map(|streams| Box::new(streams.succeeding(before)));
        Self { shared: Arc::clone(&before.shared), streams, ..self }
    }

    /// The same registry, knowing that the build has these plugins too and that the operator does without them. They
    /// can't be configured; where they are already, they don't run.
    #[must_use]
    pub fn without(self, disabled: Vec<Arc<str>>) -> Self {
        Self { disabled, ..self }
    }

    /// The same registry, for resources that may name these files.
    #[must_use]
    pub fn with_files(self, files: FileAccess) -> Self {
        Self { files, ..self }
    }

    /// The files that resources may name.
    #[must_use]
    pub fn files(&self) -> &FileAccess {
        &self.files
    }

    /// The same registry, with `compile` for the upstreams that stand in plugins' configurations.
    #[must_use]
    pub fn with_upstreams(self, compile: CompileUpstream) -> Self {
        Self { compile_upstream: compile, ..self }
    }

    /// The same registry with `streams` for stream routes; the plugin state is one.
    #[must_use]
    pub fn with_streams(self, streams: Self) -> Self {
        let streams = Some(Box::new(streams.succeeding(&self)));
        Self { streams, ..self }
    }

    /// The plugins of stream routes, where the gateway serves such.
    #[must_use]
    pub fn streams(&self) -> Option<&Self> {
        self.streams.as_deref()
    }

    /// Whether the plugin called `name` is built in and switched off.
    #[must_use]
    pub fn is_disabled(&self, name: &str) -> bool {
        self.disabled.iter().any(|disabled| **disabled == *name)
    }

    /// Whether a plugin compiled by `other` is the same as if this registry had compiled it.
    #[must_use]
    pub fn treats_alike(&self, other: &Self, name: &str) -> bool {
        let alike = |name: &str| {
            let version = |registry: &Self| registry.get(name).map(|def| def.version);
            version(self) == version(other) && self.attributes(name) == other.attributes(name)
        };
        let serves_apis = self.get(name).is_some_and(|def| def.serves_apis);
        let mut names = self.entries.keys().chain(other.entries.keys());
        Arc::ptr_eq(&self.shared, &other.shared)
            && self.files == other.files
            && if serves_apis { names.all(|name| alike(name)) } else { alike(name) }
    }

    /// A plugin's part of `plugin_attr`.
    pub(crate) fn attributes(&self, name: &str) -> Option<&Value> {
        self.attributes.get(name)
    }

    /// The definition of the plugin called `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<PluginDef>> {
        self.entries.get(name).map(|entry| &entry.def)
    }

    /// All definitions, by priority, higher first.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<PluginDef>> {
        let mut all: Vec<_> = self.entries.values().map(|entry| Arc::clone(&entry.def)).collect();
        all.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.name.cmp(&b.name)));
        all
    }

    /// The JSON Schema of a plugin's configuration, `_meta` included.
    #[must_use]
    pub fn schema(&self, name: &str) -> Option<&Value> {
        self.entries.get(name).map(|entry| &entry.schema)
    }

    /// The JSON Schema of a plugin's metadata.
    #[must_use]
    pub fn metadata_schema(&self, name: &str) -> Option<&Value> {
        self.entries.get(name).map(|entry| &entry.metadata_schema)
    }

    /// Checks a `plugin_metadata` resource against the plugin's schema; `None` for an unknown plugin.
    #[must_use]
    pub fn check_metadata(&self, name: &str, value: &Value) -> Option<Report> {
        self.entries.get(name).map(|entry| entry.metadata_validator.check(value))
    }

    /// Checks one plugin's configuration against its schema alone; `None` for an unknown plugin.
    #[must_use]
    pub fn check_config(&self, name: &str, config: &Value) -> Option<Report> {
        self.entries.get(name).map(|entry| entry.validator.check(config))
    }

    /// Fills the defaults of a plugin's schema in; nothing for an unknown plugin.
    pub fn apply_defaults(&self, name: &str, config: &mut Value) {
        if let Some(entry) = self.entries.get(name) {
            entry.validator.apply_defaults(config);
        }
    }

    /// The JSON Schema of what consumers hold for an auth plugin; `None` for other plugins.
    #[must_use]
    pub fn consumer_schema(&self, name: &str) -> Option<&Value> {
        self.get(name)?.consumer.as_ref().map(|side| &side.schema)
    }

    /// Checks what a consumer holds for a plugin against the schema alone: of an auth plugin its credential's, of others
    /// the one for everywhere. `None` for an unknown plugin.
    #[must_use]
    pub fn check_consumer_config(&self, name: &str, config: &Value) -> Option<Report> {
        let entry = self.entries.get(name)?;
        let validator = entry.consumer.as_ref().unwrap_or(&entry.validator);
        Some(validator.check(config))
    }

    /// As [`Self::check`], for the `plugins` object of a consumer or a credential.
    #[must_use]
    pub fn check_consumer(&self, plugins: &PluginMap) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        for (name, config) in plugins {
            let parent = Parent { resource_key: "", config_version: 0 };
            let result = match self.get(name).filter(|def| def.has_credentials()) {
                Some(_) => self.compile_credential(name, config).map(drop),
                None => self.compile_one(name, config, Ingredients::default(), parent).map(drop),
            };
            errors.extend(result.err().into_iter().flatten());
        }
        errors
    }

    /// The fields of a plugin's configuration that its schema accepts without knowing them, as JSON pointers; none for
    /// an unknown plugin.
    #[must_use]
    pub fn unknown_fields(&self, name: &str, config: &Value) -> Vec<String> {
        self.entries.get(name).map(|entry| entry.validator.unknown_fields(config)).unwrap_or_default()
    }

    /// Checks every plugin of a `plugins` object: it exists, its configuration is valid and compiles. Every mistake is
    /// named; paths start at the `plugins` object.
    #[must_use]
    pub fn check(&self, plugins: &PluginMap) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        for (name, config) in plugins {
            let parent = Parent { resource_key: "", config_version: 0 };
            if let Err(found) = self.compile_one(name, config, Ingredients::default(), parent) {
                errors.extend(found);
            }
        }
        errors
    }

    /// As [`Self::compile_with`], with the same ingredients for the plugin and those inside it.
    ///
    /// # Errors
    /// Every mistake; paths start at the `plugins` object.
    pub fn compile_one(
        &self,
        name: &str,
        config: &Value,
        ingredients: Ingredients<'_>,
        parent: Parent<'_>,
    ) -> Result<CompiledPlugin, Vec<ConfigError>> {
        self.compile_with(name, config, &ingredients, parent)
    }

    /// Compiles one plugin of a `plugins` object. One that is switched off may be of any configuration.
    ///
    /// # Errors
    /// Every mistake; paths start at the `plugins` object.
    pub fn compile_with(
        &self,
        name: &str,
        config: &Value,
        ingredients: &dyn FindIngredients,
        parent: Parent<'_>,
    ) -> Result<CompiledPlugin, Vec<ConfigError>> {
        let Some(entry) = self.entries.get(name) else { return Err(unknown(name)) };
        let meta = Meta::compile(config).map_err(|errors| refuse(name, errors, |error| error))?;
        let (hooks, nested) = match self.hooks(entry, config, ingredients, parent, 0) {
            // It never runs, and what it lacks here may be there on another node.
            Err(_) if meta.as_ref().is_some_and(|meta| meta.disable) => Default::default(),
            compiled => compiled.map_err(|errors| refuse(name, errors, failed(name)))?,
        };
        Ok(CompiledPlugin::new(Arc::clone(&entry.def), meta.map(Arc::new), hooks, nested))
    }

    /// Compiles a plugin that stands inside `depth` others. What its `_meta` says has no effect.
    pub(crate) fn compile_nested(
        &self,
        name: &str,
        config: &Value,
        ingredients: &dyn FindIngredients,
        parent: Parent<'_>,
        depth: usize,
    ) -> Result<CompiledPlugin, Vec<ConfigError>> {
        let unknown = || vec![ConfigError::new("", format!("unknown plugin [{name}]"))];
        let entry = self.entries.get(name).ok_or_else(unknown)?;
        Meta::compile(config)?;
        let report = entry.validator.check(config);
        if !report.is_ok() {
            // The outer plugin words the refusal, and APISIX's line for it is the first.
            let mut errors = report.errors;
            errors.iter_mut().zip(report.first).for_each(|(error, first)| error.message = first);
            return Err(errors);
        }
        let (hooks, nested) = self.hooks(entry, config, ingredients, parent, depth)?;
        Ok(CompiledPlugin::new(Arc::clone(&entry.def), None, hooks, nested))
    }

    /// The hooks of a configuration, and the plugins inside it.
    fn hooks(
        &self,
        entry: &Entry,
        config: &Value,
        ingredients: &dyn FindIngredients,
        parent: Parent<'_>,
        depth: usize,
    ) -> Result<(Hooks, Vec<Nested>), Vec<ConfigError>> {
        let name = &entry.def.name;
        let own = ingredients.find(name, config);
        let cx = CompileContext {
            shared: &self.shared,
            metadata: own.metadata,
            definitions: own.definitions,
            attributes: self.attributes(name),
            parent,
            registry: self,
            ingredients,
            depth,
            nested: RefCell::default(),
            background: RefCell::default(),
        };
        let mut config = accept(&entry.validator, config)?;
        if let Some(object) = config.as_object_mut() {
            object.remove("_meta");
        }
        let mut hooks = entry.def.compile.compile(config, &cx)?;
        hooks.background.append(&mut cx.background.borrow_mut());
        Ok((hooks, cx.nested.into_inner()))
    }

    /// Answers a request to `/v1/plugin/{plugin}/{path}` of the control API; `None` where the plugin has no such endpoint.
    #[must_use]
    pub fn control(
        &self,
        plugin: &str,
        method: &str,
        path: &str,
        query: &str,
        body: &[u8],
    ) -> Option<ControlAnswer> {
        let api = self.get(plugin)?.control_apis.iter().find(|api| api.answers(method, path))?;
        let attributes = self.attributes(plugin);
        let request = ControlRequest { method, path, query, body, shared: &self.shared, attributes };
        Some((api.handler)(&request))
    }

    /// Compiles what a consumer or a credential holds for the auth plugin `name`.
    ///
    /// # Errors
    /// Every mistake; paths start at the `plugins` object.
    pub fn compile_credential(
        &self,
        name: &str,
        config: &Value,
    ) -> Result<CompiledCredential, Vec<ConfigError>> {
        let entry = self.entries.get(name);
        let sides = entry.and_then(|entry| Some((entry.def.consumer.as_ref()?, entry.consumer.as_ref()?)));
        let Some((side, validator)) = sides else { return Err(unknown(name)) };
        accept(validator, config).and_then(&side.compile).map_err(|errors| refuse(name, errors, failed(name)))
    }
}

impl Default for Registry {
    /// A registry without plugins.
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            shared: Arc::default(),
            attributes: Map::new(),
            disabled: Vec::new(),
            files: FileAccess::default(),
            compile_upstream: as_written,
            streams: None,
            filters: RouteFilters::default(),
        }
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.entries.keys()).finish()
    }
}

/// The configuration with its defaults, if `validator` accepts it.
fn accept(validator: &Validator, config: &Value) -> Result<Value, Vec<ConfigError>> {
    let report = validator.check(config);
    if !report.is_ok() {
        return Err(report.errors);
    }
    let mut config = config.clone();
    validator.apply_defaults(&mut config);
    Ok(config)
}

fn unknown(name: &str) -> Vec<ConfigError> {
    let error = ConfigError::new("", format!("unknown plugin [{name}]"));
    refuse(name, vec![error], |error| error)
}

/// The errors of a plugin's configuration, with paths from the `plugins` object.
fn refuse(
    name: &str,
    errors: Vec<ConfigError>,
    say: impl Fn(ConfigError) -> ConfigError,
) -> Vec<ConfigError> {
    let pointer = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
    errors.into_iter().map(|error| say(error).under(&pointer)).collect()
}

/// Says whose configuration it is, in APISIX's words.
fn failed(name: &str) -> impl Fn(ConfigError) -> ConfigError {
    move |error| {
        let message = format!("failed to check the configuration of plugin {name} err: {}", error.message);
        ConfigError { message, ..error }
    }
}

/// A plugin's schema with the members that every plugin takes.
fn with_meta(mut schema: Value) -> Value {
    if let Some(object) = schema.as_object_mut() {
        let properties = object.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            properties.insert("_meta".to_owned(), Meta::schema());
        }
    }
    schema
}
