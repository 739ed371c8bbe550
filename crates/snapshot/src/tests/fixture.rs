//! Plugins that leave a trace, requests, and a gateway of a builder and its last snapshot.

use crate::{BuildOptions, Builder, Route, Snapshot};
use model::ConfigError;
use model::var::{Var, VarSource};
use plugin::testkit::Bench;
use plugin::{
    Chain, CompileContext, Exchange, Flow, Hooks, OnAccess, Plugin, PluginDef, Registry, RouteInfo,
};
use router::RequestFacts;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::{Change, Entry};

pub(crate) fn alpha_def() -> PluginDef {
    PluginDef::new::<Trace>("alpha", 2).proto_field("proto").on_access().build()
}

pub(crate) fn beta_def() -> PluginDef {
    PluginDef::new::<Trace>("beta", 1).on_access().build()
}

/// A plugin with an `alpha` inside.
pub(crate) fn outer_def() -> PluginDef {
    let compile = |config: Value, cx: &CompileContext<'_>| {
        let inside = cx.compile("alpha", config.get("alpha").unwrap_or(&Value::Null))?;
        Ok(Hooks { access: inside.hooks().access.clone(), ..Hooks::default() })
    };
    PluginDef::of("outer", 3, json!({"type": "object"}), compile)
}

/// How often a [`Trace`] was compiled: shared plugin state, so that tests don't see each other's.
#[derive(Default)]
pub(crate) struct Compiled(AtomicU64);

/// Leaves its text, its resource, its metadata and whether its definitions have a message `M` in the exchange's variables.
pub(crate) struct Trace(String);

impl Plugin for Trace {
    type Config = Map<String, Value>;

    /// Refuses the text that the metadata forbids.
    fn compile(config: Self::Config, cx: &CompileContext<'_>) -> Result<Self, Vec<ConfigError>> {
        cx.shared.get::<Compiled>().0.fetch_add(1, Ordering::Relaxed);
        let text = config.get("text").and_then(Value::as_str).unwrap_or_default();
        let metadata = cx.metadata.and_then(|metadata| metadata.get("forbid")).and_then(Value::as_str);
        if metadata == Some(text) {
            return Err(vec![ConfigError::new("/text", "is forbidden")]);
        }
        let defined = cx.definitions.is_some_and(|definitions| definitions.message("M").is_some());
        let defined = if defined { "#M" } else { "" };
        Ok(Self(format!("{text}@{}!{}{defined}", cx.parent.resource_key, metadata.unwrap_or_default())))
    }

    fn schema() -> Value {
        json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})
    }

    fn metadata_schema() -> Option<Value> {
        Some(json!({"type": "object", "properties": {"forbid": {"type": "string"}}}))
    }
}

impl OnAccess for Trace {
    fn access(&self, exchange: &mut Exchange<'_>) -> Flow {
        exchange.vars.push(("trace".to_owned(), self.0.clone().into_bytes()));
        Flow::Next
    }
}

/// A builder with its last snapshot.
pub(crate) struct Gateway {
    pub(crate) registry: Arc<Registry>,
    pub(crate) builder: Builder,
    pub(crate) snapshot: Arc<Snapshot>,
    revision: u64,
}

impl Gateway {
    pub(crate) fn new() -> Self {
        let streams = Registry::new([beta_def()], Map::new()).expect("valid schemas");
        let registry =
            Registry::new([alpha_def(), beta_def(), outer_def()], Map::new()).expect("valid schemas");
        let registry = Arc::new(registry.with_streams(streams));
        let mut builder = Builder::new(Arc::clone(&registry), BuildOptions::default());
        let snapshot = builder.load(0, &[]);
        Self { registry, builder, snapshot, revision: 0 }
    }

    /// A gateway started on these resources.
    pub(crate) fn with(resources: &[(&str, Value)]) -> Self {
        let mut gateway = Self::new();
        gateway.load(resources);
        gateway
    }

    pub(crate) fn load(&mut self, resources: &[(&str, Value)]) {
        self.revision += 1;
        let entries: Vec<_> = resources.iter().map(|(key, value)| entry(key, &value.to_string())).collect();
        self.snapshot = self.builder.load(self.revision, &entries);
    }

    pub(crate) fn apply(&mut self, changes: &[Change]) {
        self.revision += 1;
        self.snapshot = self.builder.apply(self.revision, changes);
    }

    pub(crate) fn put(&mut self, key: &str, value: &Value) {
        self.apply(&[put(key, value)]);
    }

    pub(crate) fn delete(&mut self, key: &str) {
        self.apply(&[delete(key)]);
    }

    /// Goes on with another registry, made of these plugins.
    pub(crate) fn renew(&mut self, plugins: Vec<PluginDef>, attributes: Map<String, Value>) {
        let disabled = [alpha_def(), beta_def(), outer_def()].map(|def| def.name);
        let disabled = disabled.into_iter().filter(|name| plugins.iter().all(|def| def.name != *name));
        let disabled = disabled.collect();
        let registry = Registry::new(plugins, attributes).expect("valid schemas").without(disabled);
        self.registry = Arc::new(registry.succeeding(&self.registry));
        self.snapshot =
            self.builder.renew(self.revision, Arc::clone(&self.registry), BuildOptions::default());
    }

    /// The route of `GET path` at `host`.
    pub(crate) fn find(&self, host: &str, path: &str) -> Option<&Route> {
        let request = Request { host: host.as_bytes(), path: path.as_bytes() };
        self.snapshot.router.find(&request).map(|found| &**found.payload)
    }

    /// The route of `GET path` at no host that a route names.
    pub(crate) fn route(&self, path: &str) -> &Route {
        self.find("", path).expect("a route for this path")
    }

    /// Keys of what could not be used, with the paths of the mistakes.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut places = Vec::new();
        for problem in self.builder.problems() {
            places.extend(problem.errors.iter().map(|error| format!("{} {}", problem.key, error.path)));
        }
        places
    }

    /// How many plugin configurations were compiled.
    pub(crate) fn compiled(&self) -> u64 {
        self.registry.shared.get::<Compiled>().0.load(Ordering::Relaxed)
    }
}

/// What the plugins of `chain` leave behind: `text@resource!metadata` each, in the order in which they run.
pub(crate) fn trace(chain: &Chain) -> Vec<String> {
    let bench = Bench::new("GET /");
    let mut exchange = bench.exchange();
    assert_eq!(plugin::testkit::access(chain, &mut exchange), 0);
    exchange.vars.into_iter().map(|(_, value)| String::from_utf8(value).expect("utf-8")).collect()
}

/// All that a request can notice of a route.
pub(crate) fn describe(route: &Route) -> String {
    let upstream = route.upstream.as_ref().map(|upstream| {
        let nodes: Vec<_> = upstream.nodes.iter().map(|node| &node.authority).collect();
        format!("{nodes:?} {:?} {}", upstream.timeouts, upstream.retries())
    });
    // Every compiled form has a serial of its own, which no request notices.
    let RouteInfo { id, name, service_id, service_name, .. } = &route.info;
    format!(
        "{:?} {:?} {upstream:?} {:?} {} {:?}",
        [id, name, service_id, service_name],
        trace(&route.chain),
        route.timeouts,
        route.websocket,
        route.broken
    )
}

pub(crate) fn put(key: &str, value: &Value) -> Change {
    Change::Put(entry(key, &value.to_string()))
}

pub(crate) fn delete(key: &str) -> Change {
    Change::Delete { key: key.into(), revision: 1 }
}

pub(crate) fn entry(key: &str, value: &str) -> Entry {
    Entry {
        key: key.into(),
        value: value.as_bytes().into(),
        create_revision: 1,
        mod_revision: 1,
        expires_at_ms: None,
    }
}

struct Request<'a> {
    host: &'a [u8],
    path: &'a [u8],
}

impl RequestFacts for Request<'_> {
    fn host(&self) -> &[u8] {
        self.host
    }

    fn path(&self) -> &[u8] {
        self.path
    }

    fn method(&self) -> &[u8] {
        b"GET"
    }

    fn remote_ip(&self) -> IpAddr {
        Ipv4Addr::LOCALHOST.into()
    }
}

impl VarSource for Request<'_> {
    fn var(&self, _: &Var) -> Option<Cow<'_, [u8]>> {
        None
    }
}
