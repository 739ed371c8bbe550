//! What a plugin says about itself: name, priority, schema, and the phases it listens to.

use crate::auth::ConsumerSide;
use crate::chain::CompiledPlugin;
use crate::registry::CompileContext;
use crate::{
    Authenticator, MakeApis, OnAccess, OnBeforeProxy, OnLog, OnPreread, OnResponse, OnRewrite, OnStreamLog,
};
use model::ConfigError;
use model::var::BodyNeed;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::marker::PhantomData;
use std::sync::Arc;

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

type Compile = fn(&'static PluginDef, Value, &CompileContext<'_>) -> Result<CompiledPlugin, Vec<ConfigError>>;
type Hook<H> = Option<fn(&Arc<dyn std::any::Any + Send + Sync>) -> Arc<H>>;

/// One of a plugin's own endpoints in the control API: `GET /v1/plugin/{plugin}/{path}`.
#[derive(Debug)]
pub struct ControlApi {
    /// The path below the plugin's.
    pub path: &'static str,
    /// Makes the answer to a query, which is what stands behind the `?`.
    pub answer: fn(query: &str) -> ControlAnswer,
}

/// What such an endpoint answers, with status 200.
#[derive(Debug, Clone, PartialEq)]
pub enum ControlAnswer {
    /// As `text/plain`.
    Text(String),
    /// As `application/json`.
    Json(Value),
}

/// A plugin's entry in the registry. Made in a constant: `PluginDef::new::<T>(name, priority).on_access().build()`.
pub struct PluginDef {
    /// The name in configurations, APISIX's.
    pub name: &'static str,
    /// Within a phase the higher goes first; APISIX's number.
    pub priority: i32,
    /// Where it stands both in a global rule and on the route, the route's alone runs (APISIX's `run_policy`).
    pub prefer_route: bool,
    /// The fields that the store holds encrypted, in configurations, consumers' credentials and metadata alike. APISIX's
    /// `encrypt_fields`: names, dotted for fields of fields; what a path crosses or ends in may be a list or a map, of
    /// which every member is meant.
    pub encrypt_fields: &'static [&'static str],
    /// The field of its configuration that is the id of a `protos` resource.
    pub proto_field: Option<&'static str>,
    /// What it answers in the control API.
    pub control_apis: &'static [ControlApi],
    /// It serves the endpoints of other plugins: what it is compiled to depends on all of them.
    pub(crate) serves_apis: bool,
    pub(crate) public_apis: Option<MakeApis>,
    pub(crate) schema: fn() -> Value,
    pub(crate) metadata_schema: fn() -> Option<Value>,
    pub(crate) compile: Compile,
    pub(crate) consumer: Option<ConsumerSide>,
    pub(crate) rewrite: Hook<dyn OnRewrite>,
    pub(crate) access: Hook<dyn OnAccess>,
    pub(crate) before_proxy: Hook<dyn OnBeforeProxy>,
    pub(crate) response: Hook<dyn OnResponse>,
    pub(crate) log: Hook<dyn OnLog>,
    pub(crate) preread: Hook<dyn OnPreread>,
    pub(crate) stream_log: Hook<dyn OnStreamLog>,
}

impl PluginDef {
    /// Starts the entry of plugin `T`.
    #[must_use]
    #[expect(clippy::new_ret_no_self, reason = "the builder ends in a PluginDef")]
    pub const fn new<T: Plugin>(name: &'static str, priority: i32) -> PluginDefBuilder<T> {
        PluginDefBuilder {
            def: Self {
                name,
                priority,
                prefer_route: false,
                encrypt_fields: &[],
                proto_field: None,
                control_apis: &[],
                serves_apis: false,
                public_apis: None,
                schema: T::schema,
                metadata_schema: T::metadata_schema,
                compile: compile::<T>,
                consumer: None,
                rewrite: None,
                access: None,
                before_proxy: None,
                response: None,
                log: None,
                preread: None,
                stream_log: None,
            },
            plugin: PhantomData,
        }
    }
}

impl PluginDef {
    /// Whether it is an auth plugin: in consumers it has another configuration than elsewhere.
    #[must_use]
    pub fn is_auth(&self) -> bool {
        self.consumer.is_some()
    }

    /// The id of the `protos` resource that a configuration of it names.
    #[must_use]
    pub fn proto_named(&self, config: &Value) -> Option<String> {
        match config.get(self.proto_field?)? {
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

/// A [`PluginDef`] in the making. Each `on_` method needs the hook's trait, so a forgotten hook does not compile.
pub struct PluginDefBuilder<T> {
    def: PluginDef,
    plugin: PhantomData<fn() -> T>,
}

macro_rules! listen {
    ($(#[$doc:meta])* $method:ident, $field:ident, $hook:ident) => {
        $(#[$doc])*
        #[must_use]
        pub const fn $method(mut self) -> Self
        where
            T: $hook,
        {
            self.def.$field = Some(|plugin| -> Arc<dyn $hook> {
                Arc::clone(plugin).downcast::<T>().expect("compiled by the same definition")
            });
            self
        }
    };
}

impl<T: Plugin> PluginDefBuilder<T> {
    listen!(/** Listens to the rewrite phase. */ on_rewrite, rewrite, OnRewrite);
    listen!(/** Listens to the access phase. */ on_access, access, OnAccess);
    listen!(/** Listens to the phase before an upstream is asked. */ on_before_proxy, before_proxy, OnBeforeProxy);
    listen!(/** Listens to the response's head. */ on_response, response, OnResponse);
    listen!(/** Listens to the end of exchanges. */ on_log, log, OnLog);

    listen!(/** Listens to the beginning of sessions. */ on_preread, preread, OnPreread);
    listen!(/** Listens to the end of sessions. */ on_stream_log, stream_log, OnStreamLog);

    /// The route's configuration alone runs where a global rule has the plugin too.
    #[must_use]
    pub const fn prefer_route(mut self) -> Self {
        self.def.prefer_route = true;
        self
    }

    /// The fields that the store holds encrypted: see [`PluginDef::encrypt_fields`].
    #[must_use]
    pub const fn encrypt_fields(mut self, fields: &'static [&'static str]) -> Self {
        self.def.encrypt_fields = fields;
        self
    }

    /// The field of its configuration that is the id of a `protos` resource: it is compiled with that one's definitions,
    /// [`CompileContext::definitions`], and again when they change.
    #[must_use]
    pub const fn proto_field(mut self, field: &'static str) -> Self {
        self.def.proto_field = Some(field);
        self
    }

    /// Endpoints of its own in the control API.
    #[must_use]
    pub const fn control_apis(mut self, apis: &'static [ControlApi]) -> Self {
        self.def.control_apis = apis;
        self
    }

    /// Endpoints for clients, on routes that open them.
    #[must_use]
    pub const fn public_apis(mut self, make: MakeApis) -> Self {
        self.def.public_apis = Some(make);
        self
    }

    /// It serves the endpoints of other plugins, [`CompileContext::public_apis`], and is compiled again when what these
    /// are configured with changes.
    #[must_use]
    pub const fn serves_apis(mut self) -> Self {
        self.def.serves_apis = true;
        self
    }

    /// Consumers hold credentials for it: it is an auth plugin.
    #[must_use]
    pub const fn authenticates(mut self) -> Self
    where
        T: Authenticator,
    {
        self.def.consumer = Some(ConsumerSide::of::<T>());
        self
    }

    /// The finished entry.
    #[must_use]
    pub const fn build(self) -> PluginDef {
        // Moving `def` out of `self` by hand: a const fn can't drop the builder.
        let Self { def, plugin: _ } = self;
        def
    }
}

/// Reads the configuration of plugin `T`, compiles it and binds its hooks.
fn compile<T: Plugin>(
    def: &'static PluginDef,
    config: Value,
    cx: &CompileContext<'_>,
) -> Result<CompiledPlugin, Vec<ConfigError>> {
    let config =
        serde_json::from_value(config).map_err(|error| vec![ConfigError::new("", error.to_string())])?;
    let plugin = T::compile(config, cx)?;
    let need = plugin.body_need();
    let plugin: Arc<dyn std::any::Any + Send + Sync> = Arc::new(plugin);
    Ok(CompiledPlugin::bind(def, &plugin, need))
}
