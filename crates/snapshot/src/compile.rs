//! Compiles stored resources, each by itself.

use crate::bound::BoundPlugin;
use crate::compiler::Compiler;
use crate::resource::{
    ConsumerForm, CredentialForm, Form, Reference, Resource, RouteForm, ServiceForm, StreamRouteForm,
};
use crate::stream_route::StreamMatch;
use crate::{Discovered, Timeouts, Upstream, reuse, ssl};
use files::Site;
use model::resource::StaticFiles;
use model::{ConfigError, Kind, PluginMap};
use plugin::{CompiledCredential, Registry};
use router::Conditions;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;

impl Compiler<'_> {
    /// Whether the snapshot is made of resources of this kind.
    pub(crate) fn takes(kind: Kind) -> bool {
        use Kind::{
            Consumer, ConsumerGroup, Credential, GlobalRule, PluginConfig, Route, Service, Ssl, StreamRoute,
            Upstream,
        };
        matches!(kind, Route | Service | Upstream | PluginConfig | GlobalRule | Ssl)
            || matches!(kind, StreamRoute | Consumer | Credential | ConsumerGroup)
    }

    /// Compiles a resource of `kind` from what the store holds for it.
    ///
    /// # Errors
    /// Every mistake that can be named, each with its path in the resource.
    pub(crate) fn compile(self, kind: Kind, value: &Arc<[u8]>) -> Result<Resource, Vec<ConfigError>> {
        match kind {
            Kind::Route => self.route(value),
            Kind::StreamRoute => self.stream_route(value),
            Kind::Service => self.service(value),
            Kind::Upstream => {
                let written = self.read::<model::Upstream>(kind, value)?;
                let mut draft = Draft::default();
                draft.upstream(self, &written, "");
                draft.finish(value, Form::Upstream)
            }
            Kind::PluginConfig => {
                let written = self.read::<model::PluginConfig>(kind, value)?;
                let mut draft = Draft::default();
                draft.plugins(self, &written.plugins);
                draft.finish(value, Form::PluginConfig)
            }
            Kind::GlobalRule => {
                let written = self.read::<model::GlobalRule>(kind, value)?;
                let mut draft = Draft::default();
                draft.plugins(self, &written.plugins);
                draft.finish(value, Form::GlobalRule)
            }
            Kind::Ssl => {
                let written = self.read::<model::resource::Ssl>(kind, value)?;
                Draft::default().finish(value, Form::Ssl(ssl::compile(self.key, &written)?))
            }
            Kind::Consumer => self.consumer(value),
            Kind::Credential => self.credential(value),
            Kind::ConsumerGroup => {
                let written = self.read::<model::resource::ConsumerGroup>(kind, value)?;
                let mut draft = Draft::default();
                draft.plugins(self, &written.plugins);
                draft.finish(value, Form::ConsumerGroup)
            }
            // Metadata is kept apart, as an ingredient of plugins; the rest the builder leaves out.
            _ => Err(vec![ConfigError::new("", "not compiled by itself")]),
        }
    }

    fn route(self, value: &Arc<[u8]>) -> Result<Resource, Vec<ConfigError>> {
        let written = self.read::<model::Route>(Kind::Route, value)?;
        let mut draft = Draft::default();
        draft.plugins(self, &written.plugins);
        if let Some(upstream) = &written.upstream {
            draft.upstream(self, upstream, "/upstream");
        }
        draft.upstream_ref = written.upstream_id.as_ref().map(|id| Reference::new(Kind::Upstream, id));
        draft.site(self, written.static_files.as_deref());
        let mut conditions = draft.keep("", Conditions::compile(&written)).unwrap_or_default();
        let timeouts = written.timeout.and_then(|times| draft.keep("/timeout", Timeouts::compile(times)));
        // Of a field and its list form APISIX prefers the list.
        let paths = written.uris.or(written.uri.map(|uri| vec![uri])).unwrap_or_default();
        if paths.is_empty() {
            draft.errors.push(ConfigError::new("/uri", "a route needs `uri` or `uris`"));
        }
        // Without its filter the route would take requests that it was told not to take.
        conditions.filter = written.filter_func.as_ref().and_then(|function| {
            let refused = |why| vec![ConfigError::new("", why)];
            draft.keep("/filter_func", self.registry.filters.compile(function).map_err(refused))
        });
        draft.refuse_lua("/script", written.script.as_ref());
        let form = RouteForm {
            name: written.name.unwrap_or_default(),
            enabled: written.status != Some(0),
            hosts: written.hosts.or(written.host.map(|host| vec![host])).unwrap_or_default(),
            paths,
            priority: written.priority,
            conditions,
            timeouts,
            websocket: written.enable_websocket,
            service_ref: written.service_id.as_ref().map(|id| Reference::new(Kind::Service, id)),
            plugin_config_ref: written
                .plugin_config_id
                .as_ref()
                .map(|id| Reference::new(Kind::PluginConfig, id)),
        };
        draft.finish(value, Form::Route(Box::new(form)))
    }

    fn stream_route(self, value: &Arc<[u8]>) -> Result<Resource, Vec<ConfigError>> {
        let written = self.read::<model::resource::StreamRoute>(Kind::StreamRoute, value)?;
        let mut draft = Draft::default();
        if let Some(streams) = self.of_streams() {
            draft.plugins(streams, &written.plugins);
        }
        if let Some(upstream) = &written.upstream {
            draft.upstream(self, upstream, "/upstream");
        }
        draft.upstream_ref = written.upstream_id.as_ref().map(|id| Reference::new(Kind::Upstream, id));
        if let Some(protocol) = &written.protocol {
            let message = format!("unknown protocol [{}]", protocol.name);
            draft.errors.push(ConfigError::new("/protocol/name", message));
        }
        let form = StreamRouteForm {
            matches: draft.keep("", StreamMatch::compile(&written)).unwrap_or_default(),
            name: written.name.unwrap_or_default(),
            service_ref: written.service_id.as_ref().map(|id| Reference::new(Kind::Service, id)),
        };
        draft.finish(value, Form::StreamRoute(form))
    }

    fn service(self, value: &Arc<[u8]>) -> Result<Resource, Vec<ConfigError>> {
        let written = self.read::<model::Service>(Kind::Service, value)?;
        let mut draft = Draft::default();
        draft.plugins(self, &written.plugins);
        if let Some(upstream) = &written.upstream {
            draft.upstream(self, upstream, "/upstream");
        }
        draft.upstream_ref = written.upstream_id.as_ref().map(|id| Reference::new(Kind::Upstream, id));
        draft.site(self, written.static_files.as_deref());
        draft.refuse_lua("/script", written.script.as_ref());
        draft.stream_plugins(self, &written.plugins);
        let form = ServiceForm {
            name: written.name.unwrap_or_default(),
            hosts: written.hosts.unwrap_or_default(),
            websocket: written.enable_websocket,
        };
        draft.finish(value, Form::Service(form))
    }

    fn consumer(self, value: &Arc<[u8]>) -> Result<Resource, Vec<ConfigError>> {
        let written = self.read::<model::resource::Consumer>(Kind::Consumer, value)?;
        let mut draft = Draft { of_consumer: true, ..Draft::default() };
        draft.plugins(self, &written.plugins);
        let form = ConsumerForm {
            group_id: written.group_id.map_or_else(String::new, |id| id.as_str().to_owned()),
            labels: written.labels,
            credentials: std::mem::take(&mut draft.credentials).into(),
        };
        draft.finish(value, Form::Consumer(form))
    }

    fn credential(self, value: &Arc<[u8]>) -> Result<Resource, Vec<ConfigError>> {
        let written = self.read::<model::resource::Credential>(Kind::Credential, value)?;
        let id = Kind::parse_key(self.key).and_then(|(kind, id)| kind.split_id(id));
        let Some((consumer, _)) = id else {
            return Err(vec![ConfigError::new("", "a credential's key names its consumer")]);
        };
        let mut draft = Draft { of_consumer: true, ..Draft::default() };
        draft.plugins(self, &written.plugins);
        let key: Arc<str> = Kind::Consumer.key(consumer).into();
        let form = CredentialForm {
            consumer_ref: Reference { id_at: key.len() - consumer.len(), key },
            credentials: std::mem::take(&mut draft.credentials).into(),
        };
        draft.finish(value, Form::Credential(form))
    }

    /// Reads a value as its type. The schema is asked about values that can't be read, since it names the places, and
    /// about those of stores that others write to. The rest were checked when they were written.
    fn read<T: DeserializeOwned>(self, kind: Kind, value: &[u8]) -> Result<T, Vec<ConfigError>> {
        if !self.doubts_values
            && let Ok(read) = serde_json::from_slice(value)
        {
            return Ok(read);
        }
        let json =
            serde_json::from_slice(value).map_err(|error| vec![ConfigError::new("", error.to_string())])?;
        model::schema::read_resource(kind, &json)
    }

    /// The same with the plugins of stream routes, where the gateway has such.
    fn of_streams(self) -> Option<Self> {
        let registry_before = self.registry_before.and_then(Registry::streams);
        Some(Self { registry: self.registry.streams()?, registry_before, ..self })
    }
}

/// A resource in the making, with the mistakes found so far.
#[derive(Default)]
struct Draft {
    plugins: Vec<BoundPlugin>,
    stream_plugins: Vec<BoundPlugin>,
    /// Whether auth plugins' configurations are credentials.
    of_consumer: bool,
    credentials: Vec<CompiledCredential>,
    upstream: Option<Arc<Upstream>>,
    upstream_ref: Option<Reference>,
    site: Option<Arc<Site>>,
    errors: Vec<ConfigError>,
}

impl Draft {
    fn keep<T>(&mut self, path: &str, result: Result<T, Vec<ConfigError>>) -> Option<T> {
        result.map_err(|found| self.errors.extend(found.into_iter().map(|error| error.under(path)))).ok()
    }

    fn plugins(&mut self, compiler: Compiler<'_>, plugins: &PluginMap) {
        for (name, config) in plugins {
            // As in APISIX: what the operator switches off doesn't run, and its routes stay.
            if compiler.registry.is_disabled(name) {
                tracing::info!(resource = compiler.key, plugin = name, "the plugin is not enabled");
                continue;
            }
            let registry = compiler.registry;
            if self.of_consumer && registry.get(name).is_some_and(|def| def.has_credentials()) {
                // Who switches a credential off wants nobody to come in by it.
                let disabled = config.pointer("/_meta/disable") == Some(&Value::Bool(true));
                let credential = self.keep("/plugins", registry.compile_credential(name, config));
                self.credentials.extend(credential.filter(|_| !disabled));
            } else {
                let before = compiler.before.map(|before| &*before.plugins).unwrap_or_default();
                let bound = self.keep("/plugins", compiler.plugin(name, config, before));
                self.plugins.extend(bound);
            }
        }
    }

    /// Compiles those of a service's `plugins` that streams have too. What means nothing to streams is for its routes
    /// alone.
    fn stream_plugins(&mut self, compiler: Compiler<'_>, plugins: &PluginMap) {
        let Some(streams) = compiler.of_streams() else { return };
        let before = compiler.before.map(|before| &*before.stream_plugins).unwrap_or_default();
        for (name, config) in plugins.iter().filter(|(name, _)| streams.registry.get(name).is_some()) {
            match streams.plugin(name, config, before) {
                Ok(bound) => self.stream_plugins.push(bound),
                Err(_) => tracing::info!(resource = compiler.key, plugin = name, "not for stream routes"),
            }
        }
    }

    fn upstream(&mut self, compiler: Compiler<'_>, written: &model::Upstream, path: &str) {
        let mut compiled = self.keep(path, Upstream::compile(written));
        if let Some(upstream) = compiled.as_mut().filter(|_| !compiler.health_checks) {
            upstream.checks = None;
        }
        if let (Some(upstream), Some(name)) = (&mut compiled, &written.service_name) {
            let kind = written.discovery_type.as_deref().unwrap_or_default();
            upstream.discovered = compiler.discovery.service(kind, name).map(Discovered::new);
            if upstream.discovered.is_none() {
                // As in APISIX the rest of the resource holds, and requests are told that there is no node.
                let resource = compiler.key;
                tracing::error!(
                    resource,
                    service = name,
                    "service discovery by \"{kind}\" is not configured"
                );
            }
        }
        self.upstream = compiled.map(|upstream| reuse::upstream(compiler.before, compiler.key, upstream));
    }

    fn site(&mut self, compiler: Compiler<'_>, written: Option<&StaticFiles>) {
        let allowed = &compiler.registry.files().static_roots;
        let compiled = written.and_then(|written| self.keep("/static", Site::compile(written, allowed)));
        self.site = compiled.map(|site| reuse::site(compiler.before, site));
    }

    fn refuse_lua(&mut self, path: &str, code: Option<&String>) {
        self.errors.extend(code.map(|_| {
            ConfigError::new(path, "is not supported: use a Lua plugin or serverless-pre-function")
        }));
    }

    fn finish(self, value: &Arc<[u8]>, form: Form) -> Result<Resource, Vec<ConfigError>> {
        if !self.errors.is_empty() {
            return Err(self.errors);
        }
        Ok(Resource {
            value: Arc::clone(value),
            plugins: self.plugins.into(),
            stream_plugins: self.stream_plugins.into(),
            upstream: self.upstream,
            upstream_ref: self.upstream_ref,
            site: self.site,
            form,
        })
    }
}
