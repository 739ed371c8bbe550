//! How a plugin of this binary is defined: a [`Plugin`] and the phases that it listens to.

use crate::{
    ApiContext, Authenticator, Compile, CompileContext, ConsumerSide, ControlApi, Hooks, Lifecycle, OnAccess,
    OnBeforeProxy, OnLog, OnPreread, OnResponse, OnRewrite, OnStreamLog, Plugin, PluginDef, PublicApi,
};
use model::ConfigError;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

impl PluginDef {
    /// Starts the definition of plugin `T`.
    #[must_use]
    #[expect(clippy::new_ret_no_self, reason = "the builder ends in a PluginDef")]
    pub fn new<T: Plugin>(name: &'static str, priority: i32) -> PluginDefBuilder<T> {
        let mut def = Self::of(name, priority, T::schema(), Unbound);
        def.metadata_schema = T::metadata_schema();
        PluginDefBuilder { def, bind: Vec::new() }
    }
}

/// A [`PluginDef`] in the making. Each `on_` method needs the hook's trait, so a forgotten hook does not compile.
pub struct PluginDefBuilder<T> {
    def: PluginDef,
    bind: Vec<Bind<T>>,
}

/// Puts a compiled plugin in as the hook of one phase.
type Bind<T> = fn(&Arc<T>, &mut Hooks);

macro_rules! listen {
    ($(#[$doc:meta])* $method:ident, $field:ident, $hook:ident) => {
        $(#[$doc])*
        #[must_use]
        pub fn $method(mut self) -> Self
        where
            T: $hook,
        {
            self.bind.push(|plugin, hooks| {
                let hook: Arc<dyn $hook> = Arc::clone(plugin) as _;
                hooks.$field = Some(hook);
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
    pub fn prefer_route(mut self) -> Self {
        self.def.prefer_route = true;
        self
    }

    /// It authenticates clients, by the credentials of other plugins.
    #[must_use]
    pub fn auth(mut self) -> Self {
        self.def.auth = true;
        self
    }

    /// Other plugins may run it: see [`PluginDef::action`].
    #[must_use]
    pub fn action(mut self) -> Self {
        self.def.action = true;
        self
    }

    /// The fields that the store holds encrypted: see [`PluginDef::encrypt_fields`].
    #[must_use]
    pub fn encrypt_fields(mut self, fields: &[&'static str]) -> Self {
        self.def.encrypt_fields = fields.iter().copied().map(Cow::Borrowed).collect();
        self
    }

    /// The field of its configuration that is the id of a `protos` resource: it is compiled with that one's definitions,
    /// [`CompileContext::definitions`], and again when they change.
    #[must_use]
    pub fn proto_field(mut self, field: &'static str) -> Self {
        self.def.proto_field = Some(field.into());
        self
    }

    /// Endpoints of its own in the control API.
    #[must_use]
    pub fn control_apis(mut self, apis: impl Into<Vec<ControlApi>>) -> Self {
        self.def.control_apis = apis.into();
        self
    }

    /// Endpoints for clients, on routes that open them.
    #[must_use]
    pub fn public_apis(
        mut self,
        make: impl Fn(ApiContext<'_>) -> Vec<PublicApi> + Send + Sync + 'static,
    ) -> Self {
        self.def.public_apis = Some(Box::new(make));
        self
    }

    /// It serves the endpoints of other plugins, [`CompileContext::public_apis`], and is compiled again when what these
    /// are configured with changes.
    #[must_use]
    pub fn serves_apis(mut self) -> Self {
        self.def.serves_apis = true;
        self
    }

    /// What it does when the process and its workers start and stop.
    #[must_use]
    pub fn lifecycle(mut self, lifecycle: Lifecycle) -> Self {
        self.def.lifecycle = lifecycle;
        self
    }

    /// Consumers hold credentials for it: it is an auth plugin.
    #[must_use]
    pub fn authenticates(mut self) -> Self
    where
        T: Authenticator,
    {
        self.def.consumer = Some(ConsumerSide::of::<T>());
        self
    }

    /// The finished definition.
    #[must_use]
    pub fn build(self) -> PluginDef {
        let bind = self.bind;
        PluginDef { compile: Arc::new(Typed { bind }), ..self.def }
    }
}

/// Compiles configurations by a [`Plugin`], and listens with it to the phases that its definition names.
struct Typed<T> {
    bind: Vec<Bind<T>>,
}

impl<T: Plugin> Compile for Typed<T> {
    fn compile(&self, config: Value, cx: &CompileContext<'_>) -> Result<Hooks, Vec<ConfigError>> {
        let config =
            serde_json::from_value(config).map_err(|error| vec![ConfigError::new("", error.to_string())])?;
        let plugin = Arc::new(T::compile(config, cx)?);
        let (body_need, background) = (plugin.body_need(), plugin.background());
        let mut hooks = Hooks { body_need, background, ..Hooks::default() };
        self.bind.iter().for_each(|bind| bind(&plugin, &mut hooks));
        Ok(hooks)
    }
}

/// Stands in a definition until its builder is finished.
struct Unbound;

impl Compile for Unbound {
    fn compile(&self, _: Value, _: &CompileContext<'_>) -> Result<Hooks, Vec<ConfigError>> {
        Ok(Hooks::default())
    }
}
