//! What a plugin says about itself (name, priority, schema), what compiles its configurations and with what, and the
//! registry that it is in.

use crate::{
    Background, CompileUpstream, ConsumerSide, ControlApi, FindIngredients, Hooks, Lifecycle, MakeApis,
    Nested, Parent, RouteFilters, Shared,
};
use model::ConfigError;
use model::schema::Validator;
use model::var::BodyNeed;
use protos::Definitions;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use stdx::Folders;

/// A plugin in its compiled form: nothing left to parse per request.
pub trait Plugin: Send + Sync + Sized + 'static {
    /// What the user writes.
    type Config: DeserializeOwned;

    /// Turns a configuration that the schema accepts, defaults filled in, into the compiled form.
    ///
    /// # Errors
    /// Every mistake that the schema can't see, each with its path in the configuration.
    fn compile(config: Self::Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>>;

    /// What of the request's body its conditions ask about; it is read before the plugins run.
    fn body_need(&self) -> BodyNeed {
        BodyNeed::default()
    }

    /// The work that goes on for as long as the configuration is in use.
    fn background(self: &Arc<Self>) -> Vec<Background> {
        Vec::new()
    }

    /// The JSON Schema of the configuration. Usually `schema_of::<Self::Config>()`.
    fn schema() -> Value;

    /// The JSON Schema of the plugin's metadata; any object where the plugin has none of its own.
    fn metadata_schema() -> Option<Value> {
        None
    }
}

/// The schema that a configuration's own type describes.
#[must_use]
pub fn schema_of<C: JsonSchema>() -> Value {
    let mut settings = schemars::generate::SchemaSettings::draft07();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<C>().to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("title");
        object.remove("description");
    }
    schema
}

/// What turns a plugin's configurations into hooks. [`PluginDef::new`] makes one of a [`Plugin`]; a host of plugins that
/// come at run time brings its own, with the data that it needs.
pub trait Compile: Send + Sync {
    /// Compiles a configuration that the schema accepts, with defaults filled in and without `_meta`.
    ///
    /// # Errors
    /// Every mistake that the schema can't see, each with its path in the configuration.
    fn compile(&self, config: Value, cx: &CompileContext<'_>) -> Result<Hooks, Vec<ConfigError>>;
}

impl<F> Compile for F
where
    F: Fn(Value, &CompileContext<'_>) -> Result<Hooks, Vec<ConfigError>> + Send + Sync,
{
    fn compile(&self, config: Value, cx: &CompileContext<'_>) -> Result<Hooks, Vec<ConfigError>> {
        self(config, cx)
    }
}

/// A plugin's definition, which the registry holds: `PluginDef::new::<T>(name, priority).on_access().build()` for a plugin
/// of this binary, [`PluginDef::of`] for one that comes at run time.
pub struct PluginDef {
    /// The name in configurations, APISIX's.
    pub name: Arc<str>,
    /// Within a phase the higher goes first; APISIX's number.
    pub priority: i32,
    /// Names the code behind the name: what one definition compiled stays in use under another of the same version. 0 for
    /// plugins of this binary; the hash of its source for one that comes at run time.
    pub version: u64,
    /// Where it stands both in a global rule and on the route, the route's alone runs (APISIX's `run_policy`).
    pub prefer_route: bool,
    /// It authenticates clients (APISIX's `type = 'auth'`).
    pub auth: bool,
    /// Other plugins may run it by conditions of their own, and then it runs no second time (APISIX's
    /// `workflow_handler`).
    pub action: bool,
    /// The fields that the store holds encrypted, in configurations, consumers' credentials and metadata alike. APISIX's
    /// `encrypt_fields`: names, dotted for fields of fields; what a path crosses or ends in may be a list or a map, of
    /// which every member is meant.
    pub encrypt_fields: Vec<Cow<'static, str>>,
    /// The field of its configuration that is the id of a `protos` resource.
    pub proto_field: Option<Cow<'static, str>>,
    /// What it answers in the control API.
    pub control_apis: Vec<ControlApi>,
    /// It serves the endpoints of other plugins: what it is compiled to depends on all of them.
    pub serves_apis: bool,
    /// Makes its endpoints for clients.
    pub public_apis: Option<MakeApis>,
    /// The JSON Schema of its configuration, without `_meta`.
    pub schema: Value,
    /// The JSON Schema of its metadata; `None` accepts any object.
    pub metadata_schema: Option<Value>,
    /// The consumers' side of an auth plugin.
    pub consumer: Option<ConsumerSide>,
    /// What it does when the process and its workers start and stop.
    pub lifecycle: Lifecycle,
    /// What compiles its configurations.
    pub compile: Arc<dyn Compile>,
}

impl PluginDef {
    /// The definition of a plugin whose configurations `compile` turns into hooks. Everything else is as for a plugin
    /// that says nothing about it.
    #[must_use]
    pub fn of(
        name: impl Into<Arc<str>>,
        priority: i32,
        schema: Value,
        compile: impl Compile + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            priority,
            version: 0,
            prefer_route: false,
            auth: false,
            action: false,
            encrypt_fields: Vec::new(),
            proto_field: None,
            control_apis: Vec::new(),
            serves_apis: false,
            public_apis: None,
            schema,
            metadata_schema: None,
            consumer: None,
            lifecycle: Lifecycle::default(),
            compile: Arc::new(compile),
        }
    }

    /// Whether it is an auth plugin.
    #[must_use]
    pub fn is_auth(&self) -> bool {
        self.auth || self.consumer.is_some()
    }

    /// Whether consumers hold credentials for it: in consumers it has another configuration than elsewhere.
    #[must_use]
    pub fn has_credentials(&self) -> bool {
        self.consumer.is_some()
    }

    /// The id of the `protos` resource that a configuration of it names.
    #[must_use]
    pub fn proto_named(&self, config: &Value) -> Option<String> {
        match config.get(&**self.proto_field.as_ref()?)? {
            Value::String(id) => Some(id.clone()),
            Value::Number(id) => Some(id.to_string()),
            _ => None,
        }
    }
}

impl std::fmt::Debug for PluginDef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PluginDef")
            .field("name", &self.name)
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}

/// The files that resources may name (`apisix.static_roots` and `apisix.log_roots`). Nothing by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileAccess {
    /// Where the roots of `static` may be.
    pub static_roots: Folders,
    /// Where plugins may write log files.
    pub log_roots: Folders,
}

/// What a plugin may ask for while it is compiled.
pub struct CompileContext<'a> {
    /// The process's shared plugin state.
    pub shared: &'a Shared,
    /// The plugin's `plugin_metadata`.
    pub metadata: Option<&'a Value>,
    /// The definitions that its configuration names by [`PluginDef::proto_field`]. `None` where they don't exist, or not
    /// yet, and where a configuration is only checked.
    pub definitions: Option<&'a Arc<Definitions>>,
    /// The plugin's part of `plugin_attr` in the configuration file.
    pub attributes: Option<&'a Value>,
    /// Where the configuration stands.
    pub parent: Parent<'a>,
    pub(crate) registry: &'a Registry,
    /// The ingredients of nested plugins.
    pub(crate) ingredients: &'a dyn FindIngredients,
    /// How many plugins it stands in.
    pub(crate) depth: usize,
    /// The plugins that were compiled inside this one.
    pub(crate) nested: RefCell<Vec<Nested>>,
    /// Their tasks.
    pub(crate) background: RefCell<Vec<Background>>,
}

/// The plugins this gateway has. Made at start; a reload makes another one with the same shared state.
pub struct Registry {
    pub(crate) entries: HashMap<Arc<str>, Arc<Entry>>,
    /// The process's shared plugin state.
    pub shared: Arc<Shared>,
    /// `plugin_attr` of the configuration file.
    pub(crate) attributes: Map<String, Value>,
    /// Built in, and switched off by the operator.
    pub(crate) disabled: Vec<Arc<str>>,
    pub(crate) files: FileAccess,
    pub(crate) compile_upstream: CompileUpstream,
    /// Those of stream routes, which have names and schemas of their own.
    pub(crate) streams: Option<Box<Registry>>,
    /// Compiles the filters of routes.
    pub filters: RouteFilters,
}

/// A plugin with its schemas, compiled.
pub(crate) struct Entry {
    pub(crate) def: Arc<PluginDef>,
    pub(crate) schema: Value,
    pub(crate) validator: Validator,
    pub(crate) metadata_schema: Value,
    pub(crate) metadata_validator: Validator,
    /// An auth plugin's, for consumers.
    pub(crate) consumer: Option<Validator>,
}
