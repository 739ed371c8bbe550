//! Where the settings of a route come from: the stored resources that are its layers.

use crate::AdminResponse;
use crate::control::Control;
use crate::control::dump;
use model::Kind;
use plugin::{Chain, CompiledPlugin, Exchange};
use serde_json::{Map, Value, json};
use snapshot::{Route, Snapshot};

/// A stored resource that contributes to a route.
#[derive(Debug)]
struct Layer {
    kind: Kind,
    /// As it is shown.
    key: String,
    value: Value,
}

/// The layers of one route, the strongest first, and the global rules.
#[derive(Debug, Default)]
pub(super) struct Sources {
    layers: Vec<Layer>,
    global: Vec<Layer>,
    /// The upstream that a layer names by id.
    upstream: Option<String>,
    /// The `vars` of the routes that were asked for, by id.
    vars: Map<String, Value>,
}

impl Sources {
    pub(super) async fn read(
        control: &Control,
        route: Option<&Route>,
        consumer: Option<&str>,
    ) -> Result<Self, AdminResponse> {
        let mut sources = Self::default();
        for entry in dump::entries(control, Kind::GlobalRule).await? {
            let value = dump::filled(Kind::GlobalRule, &entry);
            sources.global.push(Layer { kind: Kind::GlobalRule, key: control.shown_key(&entry.key), value });
        }
        if let Some(name) = consumer
            && let Some(group) = sources
                .layer(control, Kind::Consumer, name)
                .await?
                .and_then(|at| sources.names(at, "group_id"))
        {
            sources.layer(control, Kind::ConsumerGroup, &group).await?;
        }
        let Some(route) = route else { return Ok(sources) };
        if let Some(own) = sources.layer(control, Kind::Route, &route.info.id).await? {
            let (config, service) =
                (sources.names(own, "plugin_config_id"), sources.names(own, "service_id"));
            if let Some(id) = config {
                sources.layer(control, Kind::PluginConfig, &id).await?;
            }
            if let Some(id) = service {
                sources.layer(control, Kind::Service, &id).await?;
            }
        }
        sources.upstream = sources.find_upstream(control);
        Ok(sources)
    }

    /// Reads the `vars` of these routes.
    pub(super) async fn read_vars(
        &mut self,
        control: &Control,
        routes: &[String],
    ) -> Result<(), AdminResponse> {
        for id in routes {
            if let Some(entry) = control.store.get(&Kind::Route.key(id)).await? {
                let vars = dump::filled(Kind::Route, &entry)["vars"].take();
                self.vars.insert(id.clone(), vars);
            }
        }
        Ok(())
    }

    /// Adds a layer; its index, or `None` where there is no such resource.
    async fn layer(
        &mut self,
        control: &Control,
        kind: Kind,
        id: &str,
    ) -> Result<Option<usize>, AdminResponse> {
        let Some(entry) = control.store.get(&kind.key(id)).await? else { return Ok(None) };
        let mut value = dump::filled(kind, &entry);
        if let (Kind::Consumer, Some(Value::Object(plugins))) = (kind, value.get_mut("plugins")) {
            // What a consumer is known by is no setting of the plugin that asks for it.
            let registry = control.current().registry;
            plugins.retain(|name, _| !registry.get(name).is_some_and(|def| def.has_credentials()));
        }
        self.layers.push(Layer { kind, key: control.shown_key(&entry.key), value });
        Ok(Some(self.layers.len() - 1))
    }

    /// The id that a layer names in `field`, which may be a number.
    fn names(&self, layer: usize, field: &str) -> Option<String> {
        id(self.layers.get(layer)?.value.get(field)?)
    }

    /// The key of the resource where the upstream is written.
    fn find_upstream(&self, control: &Control) -> Option<String> {
        let holders = self.layers.iter().filter(|layer| matches!(layer.kind, Kind::Route | Kind::Service));
        holders.into_iter().find_map(|layer| match layer.value.get("upstream_id").and_then(id) {
            Some(id) => Some(control.shown_key(&Kind::Upstream.key(&id))),
            None => layer.value.get("upstream").map(|_| layer.key.clone()),
        })
    }

    /// Where the upstream is written.
    pub(super) fn upstream(&self) -> Value {
        self.upstream.as_deref().into()
    }

    /// The rule of a route's `vars` that failed; all of them where `at` is `None`.
    pub(super) fn rule(&self, route: &str, at: Option<usize>) -> Value {
        let vars = self.vars.get(route).cloned().unwrap_or_default();
        at.and_then(|at| vars.get(at).cloned()).unwrap_or(vars)
    }

    /// The plugins in the order in which they run, and those that are configured and don't.
    pub(super) fn plugins(
        &self,
        snapshot: &Snapshot,
        exchange: &mut Exchange<'_>,
        route: Option<&Route>,
    ) -> Value {
        let plugins = &snapshot.consumer_plugins;
        let own = route.map(|route| {
            let consumer = exchange.consumer.map(|consumer| plugins.of(consumer)).unwrap_or_default();
            let group = exchange.consumer.and_then(|consumer| plugins.group(&consumer.group_id));
            let group = group.map(|group| &*group.plugins).unwrap_or_default();
            route.chain.under(consumer, group)
        });
        let mut told: Vec<Value> = snapshot
            .global
            .plugins()
            .map(|plugin| {
                let yields = plugin.def.prefer_route && own.as_ref().is_some_and(|own| own.has(&plugin.def));
                tell(plugin, exchange, &self.global, yields.then_some("the route has it"))
            })
            .collect();
        let own = own.as_ref();
        told.extend(
            own.into_iter().flat_map(Chain::plugins).map(|plugin| tell(plugin, exchange, &self.layers, None)),
        );
        told.extend(idle(&self.global, &snapshot.global));
        told.extend(own.map(|own| idle(&self.layers, own)).unwrap_or_default());
        told.into()
    }
}

/// A plugin that is in the chain.
fn tell(
    plugin: &CompiledPlugin,
    exchange: &mut Exchange<'_>,
    layers: &[Layer],
    why_not: Option<&str>,
) -> Value {
    let name = &*plugin.def.name;
    let mut holders = layers.iter().filter(|layer| config(layer, name).is_some());
    let first = holders.next();
    let meta = plugin.meta.as_deref();
    let filtered = meta.is_some_and(|meta| !meta.admits(exchange)).then_some("_meta.filter");
    let why_not = why_not.or(filtered);
    let mut told = json!({
        "name": name,
        "priority": meta.and_then(|meta| meta.priority).unwrap_or(plugin.def.priority),
        "from": first.map(from),
        "overrides": holders.map(from).collect::<Value>(),
        "config": first.and_then(|layer| config(layer, name)),
        "runs": why_not.is_none(),
    });
    if let Some(why_not) = why_not {
        told["why"] = why_not.into();
    }
    if meta.is_some_and(|meta| meta.observe) {
        told["observed"] = true.into();
    }
    told
}

/// What the layers configure and is not in the chain: switched off, not built in, or of a resource that can't be used.
fn idle(layers: &[Layer], chain: &Chain) -> Vec<Value> {
    let mut idle: Vec<Value> = Vec::new();
    for layer in layers {
        for (name, config) in layer.value.get("plugins").and_then(Value::as_object).into_iter().flatten() {
            let known = chain.plugins().any(|plugin| *plugin.def.name == *name);
            if known || idle.iter().any(|told| told["name"] == **name) {
                continue;
            }
            let disabled = config.pointer("/_meta/disable") == Some(&Value::Bool(true));
            let why = if disabled { "_meta.disable" } else { "not in the running chain" };
            idle.push(
                json!({ "name": name, "from": from(layer), "config": config, "runs": false, "why": why }),
            );
        }
    }
    idle
}

fn config<'l>(layer: &'l Layer, plugin: &str) -> Option<&'l Value> {
    layer.value.get("plugins")?.get(plugin)
}

fn from(layer: &Layer) -> Value {
    json!({ "layer": layer.kind.noun().replace(' ', "_"), "key": layer.key })
}

fn id(value: &Value) -> Option<String> {
    match value {
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}
