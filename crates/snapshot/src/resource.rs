//! One stored resource, compiled as far as it goes by itself. What it takes from others (a route from its service) is
//! put together in [`link`](crate::link), so that a change of one resource compiles that one alone.

use crate::bound::BoundPlugin;
use crate::stream_route::StreamMatch;
use crate::{Timeouts, Upstream};
use files::Site;
use model::{Id, Kind};
use plugin::{BackgroundTasks, CompiledCredential, CompiledPlugin};
use router::Conditions;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One stored resource, compiled.
#[derive(Debug)]
pub(crate) struct Resource {
    /// What the store holds for it.
    pub(crate) value: Arc<[u8]>,
    /// Its own plugins.
    pub(crate) plugins: Box<[BoundPlugin]>,
    /// Those that its stream routes get from it: a service's alone.
    pub(crate) stream_plugins: Box<[BoundPlugin]>,
    /// The upstream that is written in it (or that it is).
    pub(crate) upstream: Option<Arc<Upstream>>,
    /// The files that are its origin.
    pub(crate) site: Option<Arc<Site>>,
    /// The upstream that it names by id.
    pub(crate) upstream_ref: Option<Reference>,
    /// What only its kind has.
    pub(crate) form: Form,
}

/// What only one kind of resource has.
#[derive(Debug)]
pub(crate) enum Form {
    Route(Box<RouteForm>),
    StreamRoute(StreamRouteForm),
    Service(ServiceForm),
    Upstream,
    PluginConfig,
    GlobalRule,
    Consumer(ConsumerForm),
    Credential(CredentialForm),
    ConsumerGroup,
    Ssl(tls::Entry),
}

/// A route without what it takes from other resources.
#[derive(Debug)]
pub(crate) struct RouteForm {
    pub(crate) name: String,
    pub(crate) enabled: bool,
    /// Empty: those of the service.
    pub(crate) hosts: Vec<String>,
    pub(crate) paths: Vec<String>,
    pub(crate) priority: i64,
    pub(crate) conditions: Conditions,
    pub(crate) timeouts: Option<Timeouts>,
    pub(crate) websocket: Option<bool>,
    pub(crate) service_ref: Option<Reference>,
    pub(crate) plugin_config_ref: Option<Reference>,
}

/// A stream route without what it takes from other resources.
#[derive(Debug)]
pub(crate) struct StreamRouteForm {
    pub(crate) name: String,
    pub(crate) matches: StreamMatch,
    pub(crate) service_ref: Option<Reference>,
}

/// What a service has besides plugins and upstream.
#[derive(Debug)]
pub(crate) struct ServiceForm {
    pub(crate) name: String,
    pub(crate) hosts: Vec<String>,
    pub(crate) websocket: Option<bool>,
}

/// What a consumer has besides plugins.
#[derive(Debug)]
pub(crate) struct ConsumerForm {
    /// Empty where it belongs to none.
    pub(crate) group_id: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) credentials: Arc<[CompiledCredential]>,
}

/// A credential that is a resource of its own.
#[derive(Debug)]
pub(crate) struct CredentialForm {
    /// Whose it is.
    pub(crate) consumer_ref: Reference,
    pub(crate) credentials: Arc<[CompiledCredential]>,
}

/// A resource named by another one.
#[derive(Debug)]
pub(crate) struct Reference {
    /// Its store key.
    pub(crate) key: Arc<str>,
    pub(crate) id_at: usize,
}

impl Resource {
    /// The background tasks of its plugins; none of a route that is switched off, nor of a plugin that is.
    pub(crate) fn background(&self) -> Vec<Arc<BackgroundTasks>> {
        if matches!(&self.form, Form::Route(route) if !route.enabled) {
            return Vec::new();
        }
        let plugins = self.plugins.iter().chain(&self.stream_plugins).map(|bound| &bound.plugin);
        let runs = |plugin: &&CompiledPlugin| !plugin.meta.as_ref().is_some_and(|meta| meta.disable);
        plugins.filter(runs).filter_map(|plugin| plugin.background().cloned()).collect()
    }

    /// The store keys of all resources that this one names.
    pub(crate) fn references(&self) -> impl Iterator<Item = &Arc<str>> {
        let of_route = match &self.form {
            Form::Route(route) => [&route.service_ref, &route.plugin_config_ref],
            Form::StreamRoute(route) => [&route.service_ref, &None],
            _ => [&None, &None],
        };
        let of_credential = match &self.form {
            Form::Credential(credential) => Some(&credential.consumer_ref),
            _ => None,
        };
        let named = of_route.into_iter().chain([&self.upstream_ref]).flatten();
        named.chain(of_credential).map(|reference| &reference.key)
    }

    /// Whether it has a plugin of one of these names.
    pub(crate) fn uses_plugin(&self, names: &[&str]) -> bool {
        let mut plugins = self.plugins.iter().chain(&self.stream_plugins);
        plugins.any(|bound| bound.is_made_by(names))
    }

    /// Whether one of its plugins names definitions with one of these ids.
    pub(crate) fn uses_proto(&self, ids: &[&str]) -> bool {
        let mut plugins = self.plugins.iter().chain(&self.stream_plugins);
        plugins.any(|bound| bound.names_proto(ids))
    }
}

impl Reference {
    pub(crate) fn new(kind: Kind, id: &Id) -> Self {
        let key: Arc<str> = kind.key(id.as_str()).into();
        Self { id_at: key.len() - id.as_str().len(), key }
    }

    /// The id that the key ends in.
    pub(crate) fn id(&self) -> &str {
        &self.key[self.id_at..]
    }
}
