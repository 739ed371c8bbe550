//! What a route takes from other resources: plugins from its plugin config and service, hosts and more from its
//! service, an upstream from any of them. Nothing is compiled here, so that a changed service costs its routes little.

use crate::bound::BoundPlugin;
use crate::resource::{Form, Reference, Resource, RouteForm, ServiceForm, StreamRouteForm};
use crate::{Broken, Route, StreamRoute, StreamRoutes, Upstream};
use model::Kind;
use plugin::{Chain, CompiledPlugin, RouteInfo, Stored};
use router::RouteEntry;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// All compiled resources by store key, in the order of keys.
pub(crate) type Resources = BTreeMap<Arc<str>, Resource>;

/// The route `id` as the router takes it; `None` where `resource` is no route, or one that is switched off.
pub(crate) fn link(id: &str, resource: &Resource, resources: &Resources) -> Option<RouteEntry<Arc<Route>>> {
    let Form::Route(form) = &resource.form else { return None };
    if !form.enabled {
        return None;
    }
    let service = form.service_ref.as_ref().and_then(|reference| service(reference, resources));
    Some(RouteEntry {
        id: id.to_owned(),
        hosts: hosts(form, service).to_vec(),
        paths: form.paths.clone(),
        priority: form.priority,
        conditions: form.conditions.clone(),
        payload: Arc::new(compose(id, resource, form, service, resources)),
    })
}

/// The route `id` alone, where the router has it already and it keeps its place there, which was under `placed` hosts;
/// `None` where it has to be linked.
pub(crate) fn relink(
    id: &str,
    resource: &Resource,
    resources: &Resources,
    placed: &[String],
) -> Option<Arc<Route>> {
    let Form::Route(form) = &resource.form else { return None };
    let service = form.service_ref.as_ref().and_then(|reference| service(reference, resources));
    let hosts = hosts(form, service);
    let stays =
        hosts.len() == placed.len() && hosts.iter().zip(placed).all(|(a, b)| a.eq_ignore_ascii_case(b));
    stays.then(|| Arc::new(compose(id, resource, form, service, resources)))
}

/// The stream route `id`; `None` where `resource` is none.
pub(crate) fn link_stream(id: &str, resource: &Resource, resources: &Resources) -> Option<StreamRoute> {
    let Form::StreamRoute(form) = &resource.form else { return None };
    let service = form.service_ref.as_ref().and_then(|reference| service(reference, resources));
    let (upstream, no_upstream) = upstream(resource, service.map(|(resource, _)| resource), resources);
    let broken = match (&form.service_ref, service) {
        (Some(reference), None) => Some(Broken::Service(reference.id().to_owned())),
        _ => no_upstream,
    };
    if let Some(broken) = &broken {
        tracing::warn!(stream_route = id, "{broken}");
    }
    let of_service = service.map(|(service, _)| &*service.stream_plugins);
    Some(StreamRoute {
        info: route_info(id, resource, &form.name, form.service_ref.as_ref(), service),
        chain: Chain::new(merge([Some(&*resource.plugins), of_service].into_iter().flatten())),
        upstream,
        broken,
    })
}

/// The route's hosts, else its service's.
fn hosts<'r>(form: &'r RouteForm, service: Option<(&'r Resource, &'r ServiceForm)>) -> &'r [String] {
    match service {
        Some((_, service)) if form.hosts.is_empty() => &service.hosts,
        _ => &form.hosts,
    }
}

impl StreamRoutes {
    /// The routes among `resources`.
    pub(crate) fn link(resources: &Resources) -> Self {
        let prefix = Kind::StreamRoute.key("");
        let routes = resources.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
        let routes = routes.take_while(|(key, _)| key.starts_with(&prefix));
        let mut linked: Vec<_> = routes
            .filter_map(|(key, resource)| {
                let Form::StreamRoute(StreamRouteForm { matches, .. }) = &resource.form else { return None };
                let route = link_stream(&key[prefix.len()..], resource, resources)?;
                Some((matches.clone(), Arc::new(route)))
            })
            .collect();
        // A stable sort: what is equal stays in the order of ids.
        linked.sort_by_key(|(matches, _)| matches.rank());
        Self(linked.into())
    }
}

/// The plugins of all global rules. A plugin that stands in more than one of them runs in none, as in APISIX: which
/// configuration is meant can't be known.
pub(crate) fn global_chain(resources: &Resources) -> Chain {
    let prefix = Kind::GlobalRule.key("");
    let rules = resources.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
    let rules = rules.take_while(|(key, _)| key.starts_with(&prefix));
    let all: Vec<&BoundPlugin> = rules.flat_map(|(_, rule)| &rule.plugins).collect();
    let mut plugins = Vec::with_capacity(all.len());
    for bound in &all {
        let name = &bound.plugin.def.name;
        if all.iter().filter(|other| other.plugin.def.name == *name).count() == 1 {
            plugins.push(bound.plugin.clone());
        } else {
            tracing::error!(
                plugin = &**name,
                "stands in more than one global rule and runs in none; keep one of them"
            );
        }
    }
    Chain::new(plugins)
}

fn compose(
    id: &str,
    resource: &Resource,
    form: &RouteForm,
    service: Option<(&Resource, &ServiceForm)>,
    resources: &Resources,
) -> Route {
    let plugin_config =
        form.plugin_config_ref.as_ref().map(|reference| (reference, resources.get(&reference.key)));
    let (upstream, no_upstream) = upstream(resource, service.map(|(resource, _)| resource), resources);
    let broken = match (plugin_config, &form.service_ref, service) {
        (Some((reference, None)), _, _) => Some(Broken::PluginConfig(reference.id().to_owned())),
        (_, Some(reference), None) => Some(Broken::Service(reference.id().to_owned())),
        _ => no_upstream,
    };
    if let Some(broken) = &broken {
        tracing::warn!(route = id, status = broken.status(), "{broken}");
    }
    // A layer per resource, the strongest first. Consumers' are merged in when a request's is known.
    let layers =
        [Some(resource), plugin_config.and_then(|(_, found)| found), service.map(|(resource, _)| resource)];
    let chain = match &broken {
        Some(broken) if broken.before_plugins() => Chain::default(),
        _ => Chain::new(merge(layers.into_iter().flatten().map(|layer| &*layer.plugins))),
    };
    Route {
        info: route_info(id, resource, &form.name, form.service_ref.as_ref(), service),
        chain,
        upstream,
        site: site(resource, service.map(|(resource, _)| resource)),
        timeouts: form.timeouts,
        websocket: form.websocket.or_else(|| service?.1.websocket).unwrap_or_default(),
        broken,
    }
}

fn route_info(
    id: &str,
    resource: &Resource,
    name: &str,
    service_ref: Option<&Reference>,
    service: Option<(&Resource, &ServiceForm)>,
) -> RouteInfo {
    RouteInfo {
        serial: next_serial(),
        id: id.to_owned(),
        name: name.to_owned(),
        service_id: service_ref.map_or_else(String::new, |reference| reference.id().to_owned()),
        service_name: service.map_or_else(String::new, |(_, service)| service.name.clone()),
        stored: Stored::new(Arc::clone(&resource.value)),
        service_stored: service
            .map(|(resource, _)| Stored::new(Arc::clone(&resource.value)))
            .unwrap_or_default(),
    }
}

/// The plugins of all layers; of two configurations of one plugin the earlier layer's.
fn merge<'a>(layers: impl Iterator<Item = &'a [BoundPlugin]>) -> Vec<CompiledPlugin> {
    let mut merged: Vec<CompiledPlugin> = Vec::new();
    for layer in layers {
        for bound in layer {
            if merged.iter().all(|stronger| stronger.def.name != bound.plugin.def.name) {
                merged.push(bound.plugin.clone());
            }
        }
    }
    merged
}

/// The upstream of the route, else of its service. Within one resource `upstream_id` stands above an upstream written
/// there, as in APISIX; where the id leads nowhere there is no second choice.
fn upstream(
    route: &Resource,
    service: Option<&Resource>,
    resources: &Resources,
) -> (Option<Arc<Upstream>>, Option<Broken>) {
    for holder in [Some(route), service].into_iter().flatten() {
        if let Some(reference) = &holder.upstream_ref {
            let found = resources.get(&reference.key).and_then(|resource| resource.upstream.clone());
            let broken = found.is_none().then(|| Broken::Upstream(reference.id().to_owned()));
            return (found, broken);
        }
        if holder.upstream.is_some() {
            return (holder.upstream.clone(), None);
        }
    }
    (None, None)
}

/// The files of the route, else of its service, where nothing of the route says otherwise.
fn site(route: &Resource, service: Option<&Resource>) -> Option<Arc<files::Site>> {
    let says = |holder: &&Resource| {
        holder.site.is_some() || holder.upstream.is_some() || holder.upstream_ref.is_some()
    };
    [Some(route), service].into_iter().flatten().find(says)?.site.clone()
}

fn service<'r>(reference: &Reference, resources: &'r Resources) -> Option<(&'r Resource, &'r ServiceForm)> {
    let resource = resources.get(&reference.key)?;
    match &resource.form {
        Form::Service(service) => Some((resource, service)),
        _ => None,
    }
}

/// A number that no other compiled route, consumer or group of the process has.
pub(crate) fn next_serial() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
