//! From what the store holds to the snapshot: at the start, after a gap and for one change by the same path.

mod background;
mod earlier;
mod ingredients;

use crate::compiler::Compiler;
use crate::consumers::ConsumerIndex;
use crate::dependents::Dependents;
use crate::link::{Resources, global_chain, link, relink};
use crate::metadata::Metadata;
use crate::protos::Protos;
use crate::resource::Resource;
use crate::revealing::Revealing;
use crate::ssl::Certificates;
use crate::{InPlugins, Problem, Snapshot, StreamRoutes, Upstream};
use discovery::Discovery;
use model::{ConfigError, Kind};
use plugin::{BackgroundTasks, Chain, Registry};
use router::{Mode, Router};
use secrets::Secrets;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use stdx::PersistentMap;
use store::{Change, Entry, File};

/// What holds for every snapshot that one builder makes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BuildOptions {
    /// How hosts take part in the choice of a route (`apisix.router.http`).
    pub router: Mode,
    /// Whether no node's health is checked, whatever upstreams ask for (`apisix.disable_upstream_healthcheck`).
    pub no_health_checks: bool,
    /// Whether values are checked against their schemas, because others than this gateway may have written them.
    pub doubts_values: bool,
}

/// Makes snapshots. Holds every resource compiled, so that a change compiles the changed ones and links the routes that
/// depend on them, and nothing else.
#[derive(Debug)]
pub struct Builder {
    registry: Arc<Registry>,
    options: BuildOptions,
    metadata: Metadata,
    protos: Protos,
    resources: Resources,
    /// What the store holds and could not be used; the version before it may be in `resources`.
    refused: BTreeMap<Arc<str>, Refused>,
    dependents: Dependents,
    router: Router<Arc<crate::Route>>,
    streams: StreamRoutes,
    global: Arc<Chain>,
    consumers: ConsumerIndex,
    upstreams: PersistentMap<Arc<str>, Arc<Upstream>>,
    /// Those of all resources whose nodes are checked.
    checked: PersistentMap<Arc<str>, Arc<Upstream>>,
    /// The background tasks of all resources' plugins.
    background: PersistentMap<Arc<str>, Arc<[Arc<BackgroundTasks>]>>,
    /// Those of all resources whose nodes a service has.
    discovered: BTreeMap<Arc<str>, Arc<Upstream>>,
    discovery: Arc<Discovery>,
    certificates: Certificates,
    routes_linked: u64,
    revealing: Revealing,
    /// Where resources stand, for messages.
    file: Option<Arc<File>>,
    /// While everything is compiled anew: the registry before and what it compiled.
    before: Option<(Arc<Registry>, Resources)>,
}

#[derive(Debug)]
struct Refused {
    value: Arc<[u8]>,
    place: Option<String>,
    errors: Vec<ConfigError>,
}

impl Builder {
    /// A builder that knows of no resource yet.
    #[must_use]
    pub fn new(registry: Arc<Registry>, options: BuildOptions) -> Self {
        Self {
            registry,
            options,
            metadata: Metadata::default(),
            protos: Protos::default(),
            resources: Resources::new(),
            refused: BTreeMap::new(),
            dependents: Dependents::default(),
            router: Router::new(options.router),
            streams: StreamRoutes::default(),
            global: Arc::default(),
            consumers: ConsumerIndex::default(),
            upstreams: PersistentMap::default(),
            checked: PersistentMap::default(),
            background: PersistentMap::default(),
            discovered: BTreeMap::new(),
            discovery: Arc::default(),
            certificates: Certificates::default(),
            routes_linked: 0,
            revealing: Revealing::default(),
            file: None,
            before: None,
        }
    }

    /// The same with the keys to encrypted fields and the values behind references. Without them resources are taken as
    /// the store holds them.
    #[must_use]
    pub fn with_secrets(mut self, secrets: Arc<Secrets>) -> Self {
        self.revealing = Revealing::new(Some(secrets));
        self
    }

    /// The same with the standalone file that the resources come from: what is refused is then shown with its place.
    #[must_use]
    pub fn with_file(mut self, file: Option<Arc<File>>) -> Self {
        self.file = file;
        self
    }

    /// The same with what knows the nodes of services. Without it there are none.
    #[must_use]
    pub fn with_discovery(mut self, discovery: Arc<Discovery>) -> Self {
        self.discovery = discovery;
        self
    }

    /// What knows the nodes of services.
    #[must_use]
    pub fn discovery(&self) -> &Discovery {
        &self.discovery
    }

    /// Gives the upstreams of the snapshot the nodes that their services have now; whether any were others. No route is
    /// put together anew for it.
    pub fn refresh_services(&self) -> bool {
        // Each of them, not up to the first.
        let changed = self.discovered.values().filter(|upstream| upstream.refresh()).count();
        self.registry.shared.get::<InPlugins>().refresh() || changed > 0
    }

    /// The secrets that it builds with.
    #[must_use]
    pub fn secrets(&self) -> Option<&Arc<Secrets>> {
        self.revealing.secrets()
    }

    /// Makes the snapshot of the same resources under another registry and other options, as a new builder would that
    /// loads them. Plugins and upstreams that come out the same are carried over with their state.
    pub fn renew(&mut self, revision: u64, registry: Arc<Registry>, options: BuildOptions) -> Arc<Snapshot> {
        let held = self.held();
        let before = std::mem::replace(self, Self::new(registry, options));
        self.routes_linked = before.routes_linked;
        self.revealing = before.revealing;
        self.file = before.file;
        self.discovery = before.discovery;
        self.before = Some((before.registry, before.resources));
        let snapshot = self.apply(revision, &held);
        self.before = None;
        snapshot
    }

    /// Makes the snapshot of `entries`, the whole configuration at `revision`. What they don't name is forgotten, what
    /// they don't change is kept as it is, so this is the way back after a gap in the sequence of changes as well.
    pub fn load<'e>(&mut self, revision: u64, entries: impl IntoIterator<Item = &'e Entry>) -> Arc<Snapshot> {
        self.load_after(revision, &[], entries)
    }

    /// The same with versions before those of `entries`, which are used where the newer ones can't be.
    pub fn load_after<'e>(
        &mut self,
        revision: u64,
        earlier: &[Entry],
        entries: impl IntoIterator<Item = &'e Entry>,
    ) -> Arc<Snapshot> {
        let mut gone = self.keys();
        let mut changes = Vec::new();
        let mut earlier = self.unknown(earlier);
        for entry in entries {
            gone.remove(&*entry.key);
            changes.extend(earlier.remove(&*entry.key).into_iter().flatten());
            if self.stored(&entry.key) != Some(&entry.value) {
                changes.push(Change::Put(entry.clone()));
            }
        }
        changes.extend(gone.into_iter().map(|key| Change::Delete { key, revision }));
        self.apply(revision, &changes)
    }

    /// Makes the snapshot after `changes`, in their order, which lead to `revision`. A resource that can't be used is
    /// left out, or stays as it was, and is listed in [`Builder::problems`]; keys of other programs mean nothing here.
    pub fn apply<'c>(
        &mut self,
        revision: u64,
        changes: impl IntoIterator<Item = &'c Change>,
    ) -> Arc<Snapshot> {
        self.revealing.begin();
        let mut changed = BTreeSet::new();
        let (mut renewed, mut redefined) = (BTreeSet::new(), BTreeSet::new());
        let mut resources = Vec::new();
        // Metadata and definitions go first: they are ingredients of the resources that come with them.
        for change in changes {
            match Kind::parse_key(change.key()) {
                Some((Kind::Secret, id)) => self.revealing.change_manager(id, change),
                Some((Kind::PluginMetadata, plugin)) => {
                    renewed.extend(self.change_metadata(plugin, change).then_some(plugin));
                }
                Some((Kind::Proto, id)) => {
                    redefined.extend(self.change_proto(id, change).then_some(id));
                }
                Some((kind, _)) if Compiler::takes(kind) => resources.push((kind, change)),
                _ => {}
            }
        }
        for (kind, change) in resources {
            if self.change_resource(kind, change) {
                changed.insert(Arc::clone(change.key()));
            }
        }
        if !renewed.is_empty() || !redefined.is_empty() {
            self.recompile(&Vec::from_iter(renewed), &Vec::from_iter(redefined), &mut changed);
        }
        self.relink(&changed);
        self.revealing.end();
        self.snapshot(revision)
    }

    /// Makes the snapshot after values of references have changed: what was compiled with them is compiled again. `None`
    /// where nothing was.
    pub fn renew_references(&mut self, revision: u64) -> Option<Arc<Snapshot>> {
        self.revealing.begin_at_once();
        let mut changed = BTreeSet::new();
        let keys = self.revealing.take_outdated();
        self.compile_again(keys, &mut changed);
        if changed.is_empty() {
            return None;
        }
        self.relink(&changed);
        self.revealing.end();
        Some(self.snapshot(revision))
    }

    /// What the store holds and could not be used, in the order of keys.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let problem = |(key, refused): (&Arc<str>, &Refused)| Problem {
            key: key.to_string(),
            place: refused.place.clone(),
            errors: refused.errors.clone(),
            earlier_in_use: self.used(key).is_some(),
            revision_in_use: None,
        };
        self.refused.iter().map(problem).collect()
    }

    /// How many times a route was put together since the builder was made: the work that changes caused.
    #[must_use]
    pub fn routes_linked(&self) -> u64 {
        self.routes_linked
    }

    fn snapshot(&self, revision: u64) -> Arc<Snapshot> {
        Arc::new(Snapshot {
            revision,
            router: self.router.clone(),
            streams: self.streams.clone(),
            global: Arc::clone(&self.global),
            consumers: self.consumers.consumers.clone(),
            consumer_plugins: self.consumers.plugins.clone(),
            upstreams: self.upstreams.clone(),
            checked: self.checked.clone(),
            background: self.background.clone(),
            registry: Arc::clone(&self.registry),
            tls: self.certificates.sites.clone(),
        })
    }

    /// All keys of the store that left something behind here.
    fn keys(&self) -> HashSet<Arc<str>> {
        let metadata = self.metadata.plugins().map(|plugin| Kind::PluginMetadata.key(plugin).into());
        let protos = self.protos.ids().map(|id| Kind::Proto.key(id).into());
        let managers = self.revealing.managers();
        self.resources
            .keys()
            .chain(self.refused.keys())
            .chain(managers)
            .map(Arc::clone)
            .chain(metadata)
            .chain(protos)
            .collect()
    }

    /// What the store held for `key` when it was last heard of; `None` where nothing is known.
    fn stored(&self, key: &str) -> Option<&Arc<[u8]>> {
        self.refused.get(key).map(|refused| &refused.value).or_else(|| self.used(key))
    }

    /// The value that is in use for `key`.
    fn used(&self, key: &str) -> Option<&Arc<[u8]>> {
        match Kind::parse_key(key)? {
            (Kind::PluginMetadata, plugin) => self.metadata.stored(plugin),
            (Kind::Proto, id) => self.protos.get(id).map(|proto| &proto.stored),
            (Kind::Secret, _) => self.revealing.manager(key),
            _ => self.resources.get(key).map(|resource| &resource.value),
        }
    }

    /// All that is known of the store, as changes that lead there: of each key the value in use, then the one refused.
    fn held(&self) -> Vec<Change> {
        let mut held = Vec::new();
        for key in self.keys() {
            let refused = self.refused.get(&key).map(|refused| &refused.value);
            for value in [self.used(&key), refused].into_iter().flatten() {
                held.push(Change::Put(Entry {
                    key: Arc::clone(&key),
                    value: Arc::clone(value),
                    create_revision: 0,
                    mod_revision: 0,
                    expires_at_ms: None,
                }));
            }
        }
        held
    }

    /// Takes in a change of a resource; whether it is another than before.
    fn change_resource(&mut self, kind: Kind, change: &Change) -> bool {
        match change {
            Change::Put(entry) => {
                self.revealing.clear(&entry.key);
                match self.compile(kind, &entry.key, &entry.value) {
                    Ok(resource) => {
                        self.refused.remove(&entry.key);
                        self.put(&entry.key, resource);
                        true
                    }
                    Err(errors) => {
                        // What stays in use goes on depending on its references.
                        if let Some(in_use) = self.resources.get(&entry.key) {
                            self.revealing.reveal(kind, &entry.key, &in_use.value);
                        }
                        self.refuse(&entry.key, &entry.value, errors);
                        false
                    }
                }
            }
            Change::Delete { key, .. } => {
                self.refused.remove(key);
                self.revealing.clear(key);
                let gone = self.resources.remove(key);
                gone.iter().flat_map(Resource::references).for_each(|to| self.dependents.remove(key, to));
                gone.is_some()
            }
        }
    }

    fn compile(&mut self, kind: Kind, key: &str, value: &Arc<[u8]>) -> Result<Resource, Vec<ConfigError>> {
        let revealed = self.revealing.reveal(kind, key, value);
        let (before, registry_before) = match (self.resources.get(key), &self.before) {
            (None, Some((registry, resources))) => (resources.get(key), Some(&**registry)),
            (before, _) => (before, None),
        };
        let health_checks = !self.options.no_health_checks;
        Compiler {
            registry: &self.registry,
            metadata: &self.metadata,
            protos: &self.protos,
            key,
            before,
            registry_before,
            health_checks,
            doubts_values: self.options.doubts_values,
            discovery: &self.discovery,
        }
        .compile(kind, &revealed)
        .map(|resource| Resource { value: Arc::clone(value), ..resource })
    }

    fn put(&mut self, key: &Arc<str>, resource: Resource) {
        if let Some(before) = self.resources.get(key) {
            before.references().for_each(|to| self.dependents.remove(key, to));
        }
        resource.references().for_each(|to| self.dependents.add(key, to));
        self.resources.insert(Arc::clone(key), resource);
    }

    fn refuse(&mut self, key: &Arc<str>, value: &Arc<[u8]>, errors: Vec<ConfigError>) {
        let place = self.file.as_ref().and_then(|file| file.place(key));
        for error in &errors {
            tracing::error!(key = &**key, place, path = error.path, "not used: {}", error.message);
        }
        self.refused.insert(Arc::clone(key), Refused { value: Arc::clone(value), place, errors });
    }

    fn compile_again(&mut self, keys: BTreeSet<Arc<str>>, changed: &mut BTreeSet<Arc<str>>) {
        for key in keys {
            let Some((kind, _)) = Kind::parse_key(&key) else { continue };
            if !Compiler::takes(kind) {
                continue;
            }
            let waiting = self.refused.get(&key).map(|refused| Arc::clone(&refused.value));
            let in_use = self.resources.get(&key).map(|resource| Arc::clone(&resource.value));
            for value in [&waiting, &in_use].into_iter().flatten() {
                match self.compile(kind, &key, value) {
                    Ok(resource) => {
                        if waiting.as_ref() == Some(value) {
                            self.refused.remove(&key);
                        }
                        self.put(&key, resource);
                        changed.insert(Arc::clone(&key));
                        break;
                    }
                    Err(errors) => {
                        if waiting.as_ref().is_none_or(|waiting| waiting == value) {
                            self.refuse(&key, value, errors);
                        }
                    }
                }
            }
        }
    }

    /// Puts together anew the routes that depend on what changed, the entries of consumers that did, and the global rules
    /// if one did.
    fn relink(&mut self, changed: &BTreeSet<Arc<str>>) {
        let (mut global_changed, mut streams_changed) = (false, false);
        for key in changed {
            self.relink_watched(key);
            self.relink_background(key);
        }
        for key in self.dependents.closure(changed.clone()) {
            match Kind::parse_key(&key) {
                Some((Kind::Route, id)) => self.relink_route(&key, id, changed.contains(&key)),
                Some((Kind::StreamRoute, _)) => streams_changed = true,
                Some((Kind::GlobalRule, _)) => global_changed = true,
                Some((Kind::Upstream, id)) => self.relink_upstream(&key, id),
                Some((Kind::Ssl, id)) => self.certificates.relink(id, self.resources.get(&key)),
                Some((kind @ (Kind::Consumer | Kind::Credential | Kind::ConsumerGroup), id)) => {
                    self.consumers.relink(kind, &key, id, &self.resources);
                }
                _ => {}
            }
        }
        if global_changed {
            self.global = Arc::new(global_chain(&self.resources));
        }
        if streams_changed {
            self.streams = StreamRoutes::link(&self.resources);
        }
    }

    /// A route that did not change itself keeps its place in the router, unless its hosts are its service's and those
    /// did: that spares the router most of the work when a service or an upstream of many routes changes.
    fn relink_route(&mut self, key: &str, id: &str, changed: bool) {
        if !changed
            && let Some(hosts) = self.router.hosts(id)
            && let Some(resource) = self.resources.get(key)
            && let Some(route) = relink(id, resource, &self.resources, hosts)
        {
            self.routes_linked += 1;
            self.router.replace(id, route);
            return;
        }
        let entry = self.resources.get(key).and_then(|resource| link(id, resource, &self.resources));
        match entry {
            Some(entry) => {
                self.routes_linked += 1;
                self.router.insert(entry);
            }
            None => {
                self.router.remove(id);
            }
        }
    }

    fn relink_upstream(&mut self, key: &str, id: &str) {
        match self.resources.get(key).and_then(|resource| resource.upstream.as_ref()) {
            Some(upstream) => self.upstreams.insert(id.into(), Arc::clone(upstream)),
            None => self.upstreams.remove(id),
        };
    }

    fn relink_watched(&mut self, key: &Arc<str>) {
        let upstream = self.resources.get(key).and_then(|resource| resource.upstream.as_ref());
        match upstream.filter(|upstream| upstream.discovered.is_some()) {
            Some(upstream) => self.discovered.insert(Arc::clone(key), Arc::clone(upstream)),
            None => self.discovered.remove(key),
        };
        match upstream.filter(|upstream| upstream.shared.board.is_some()) {
            Some(upstream) => {
                self.checked.insert(Arc::clone(key), Arc::clone(upstream));
            }
            None if self.checked.get(key).is_some() => {
                self.checked.remove(key);
            }
            None => {}
        }
    }
}
