//! Where the configuration comes from: opens what `deployment` names, and says how things stand with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use admin::{Resource, Standalone};
use anyhow::{Context as _, bail};
use document::{Diagnostic, codes};
use model::schema::check_resource;
use model::{ConfigError, Kind};
use observe::Metrics;
use observe::metrics::Metric;
use store::etcd::EtcdTls;
use store::file::Format;
use store::{Cached, Embedded, EmbeddedConfig, Etcd, EtcdConfig, File, Health, Store};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::assemble;
use crate::launch::Launch;
use config::Settings;
use config::settings::provider::{self, Provider};

/// The embedded store's file in the data directory.
const STORE_FILE: &str = "store.redb";

/// What was in force last, of a centre that may be away at the next start.
const KEPT_FILE: &str = "last-known-good";

/// The document of the standalone Admin API.
const STANDALONE_FILE: &str = "standalone.json";

/// A configuration's origin.
pub struct Centre {
    /// Whom the Admin API and the control API ask: what is so now.
    pub store: Arc<dyn Store>,
    /// Whom snapshots follow: it goes on while the centre is away.
    pub followed: Arc<dyn Store>,
    /// The cluster, where it is one.
    pub etcd: Option<Etcd>,
    /// The file, where it is one.
    pub file: Option<Arc<File>>,
    /// What the command line gives, where it gives the configuration.
    pub memory: Option<Arc<Embedded>>,
    /// The document, where it is put through the Admin API.
    pub standalone: Option<Arc<Standalone>>,
    /// What keeps the last good configuration of a source that may go away.
    pub cached: Option<Arc<Cached>>,
    health: Option<watch::Receiver<Health>>,
}

impl Centre {
    /// Opens what the settings name.
    ///
    /// # Errors
    /// What keeps the gateway from starting: a store that can't be opened, a file that can't be used where nothing is
    /// there to go on with. A cluster that is away does not.
    pub fn open(settings: &Settings, launch: &Launch, control: &Handle) -> anyhow::Result<Self> {
        if let Some(given) = &launch.given {
            let memory = control.block_on(given.store())?;
            return Ok(Self { memory: Some(Arc::clone(&memory)), ..Self::plain(memory) });
        }
        let data_dir = &launch.data_dir;
        match &settings.provider {
            Provider::Embedded => {
                let embedded = Embedded::open(EmbeddedConfig::new(data_dir.join(STORE_FILE)))?;
                let health = embedded.health();
                Ok(Self { health, ..Self::plain(Arc::new(embedded)) })
            }
            Provider::Etcd(named) => {
                let etcd = Etcd::new(etcd_config(named, settings, launch)?);
                let store: Arc<dyn Store> = Arc::new(etcd.clone());
                let cached = Cached::new(store, data_dir.join(KEPT_FILE), source(named));
                Ok(Self { etcd: Some(etcd), ..Self::cached(cached) })
            }
            Provider::File(format) => {
                let path = standalone_path(launch, *format);
                let file = File::new(&path, *format, Arc::new(|name| std::env::var(name).ok()))?;
                let source = format!("file {}", path.display());
                let kept = data_dir.join(KEPT_FILE);
                let earlier = Cached::had_resources(kept.clone(), source.clone());
                let file = Arc::new(file.with_earlier(earlier).with_check(Arc::new(check_entries)));
                let store: Arc<dyn Store> = Arc::clone(&file) as Arc<dyn Store>;
                let cached = Cached::new(store, kept, source);
                let read = control.block_on(file.reload());
                match read {
                    Err(error) if !cached.has_saved() => return Err(error.into()),
                    Err(error) => tracing::error!("{error}; looking for what was in force before"),
                    Ok(_) => {}
                }
                Ok(Self { file: Some(file), ..Self::cached(cached) })
            }
            Provider::Standalone => {
                let memory =
                    Arc::new(Embedded::in_memory(EmbeddedConfig::new("the standalone configuration"))?);
                let path = data_dir.join(STANDALONE_FILE);
                let standalone = control.block_on(Standalone::open(Arc::clone(&memory), path))?;
                Ok(Self { standalone: Some(Arc::new(standalone)), ..Self::plain(memory) })
            }
        }
    }

    fn plain(store: Arc<dyn Store>) -> Self {
        let followed = Arc::clone(&store);
        Self {
            store,
            followed,
            etcd: None,
            file: None,
            memory: None,
            standalone: None,
            cached: None,
            health: None,
        }
    }

    fn cached(cached: Cached) -> Self {
        let cached = Arc::new(cached);
        let followed = Arc::clone(&cached) as Arc<dyn Store>;
        let store: Arc<dyn Store> = Arc::new(cached.guarded());
        let health = Some(cached.health());
        Self { followed, health, cached: Some(cached), ..Self::plain(store) }
    }

    /// How things stand, now and later; `None` for a store in memory.
    pub fn health(&self) -> Option<watch::Receiver<Health>> {
        self.health.clone()
    }

    /// Whether a start may wait for the centre; without, there is nobody to come.
    pub fn may_wait(&self) -> bool {
        self.etcd.is_some()
    }

    /// Starts what goes on beside: the look at the file, the metric that says whether the centre answers.
    pub fn attend(&self, control: &Handle, metrics: &Arc<Metrics>) {
        if let Some(file) = self.file.clone() {
            control.spawn(async move { file.follow().await });
        }
        if let (Some(mut health), true) = (self.health(), self.etcd.is_some()) {
            let metrics = Arc::clone(metrics);
            control.spawn(async move {
                loop {
                    let (reachable, rejected) = match &*health.borrow_and_update() {
                        Health::Following => (true, false),
                        Health::Rejected(rejection) => (rejection.reachable, true),
                        _ => (false, false),
                    };
                    metrics.set(Metric::EtcdReachable, &[], f64::from(u8::from(reachable)));
                    metrics.set(Metric::ConfigSourceRejected, &[], f64::from(u8::from(rejected)));
                    if health.changed().await.is_err() {
                        return;
                    }
                }
            });
        }
    }

    /// The revision that this node's workers have of what the source holds: 0 while the source is rejected, since nothing
    /// that is written to it reaches them.
    pub fn applied(&self, control: &Handle, mut published: watch::Receiver<u64>) -> watch::Receiver<u64> {
        let Some(mut health) = self.cached.as_ref().map(|cached| cached.health()) else { return published };
        let (applied, receiver) = watch::channel(0);
        control.spawn(async move {
            loop {
                let revision = *published.borrow_and_update();
                let rejected = matches!(&*health.borrow_and_update(), Health::Rejected(_));
                applied.send_replace(if rejected { 0 } else { revision });
                let changed = tokio::select! {
                    changed = published.changed() => changed,
                    changed = health.changed() => changed,
                    () = applied.closed() => return,
                };
                if changed.is_err() {
                    return;
                }
            }
        });
        receiver
    }

    /// Writes to the disk what a next start may need.
    pub fn flush(&self) {
        if let Some(cached) = &self.cached {
            cached.flush();
        }
    }
}

/// Lays over the settings what the standalone file says of plugins.
pub fn lay_over(settings: &mut Settings, file: Option<&File>) {
    let Some(named) = file.and_then(|file| file.plugins().borrow().clone()) else { return };
    let (streams, http): (Vec<_>, Vec<_>) = named.into_iter().partition(|plugin| plugin.stream);
    settings.plugins = Some(http.into_iter().map(|plugin| plugin.name).collect());
    settings.stream_plugins = Some(streams.into_iter().map(|plugin| plugin.name).collect());
    for (all, named) in [(plugins::all(), &settings.plugins), (plugins::stream(), &settings.stream_plugins)] {
        let missing = assemble::plugins(all, Vec::new(), named.as_ref()).missing;
        if !missing.is_empty() {
            tracing::warn!("plugins that are not built in are left out: {}", missing.join(", "));
        }
    }
}

/// Beside `config.yaml`, where APISIX has it, or else in the data directory.
pub fn standalone_path(launch: &Launch, format: Format) -> PathBuf {
    let name = match format {
        Format::Yaml => "apisix.yaml",
        Format::Json => "apisix.json",
    };
    let folder = launch.config.as_deref().and_then(Path::parent).unwrap_or(Path::new("conf"));
    let beside = std::path::absolute(folder.join(name)).unwrap_or_else(|_| folder.join(name));
    let in_data = launch.data_dir.join(name);
    if !beside.exists() && in_data.exists() { in_data } else { beside }
}

/// What tells one cluster's configuration from another's: its members may come and go, its prefix stays.
fn source(etcd: &provider::Etcd) -> String {
    let mut members: Vec<&str> = etcd.endpoints.iter().map(|endpoint| endpoint.authority.as_str()).collect();
    members.sort_unstable();
    format!("etcd {} {}", etcd.prefix, members.join(","))
}

/// What is wrong with the resources of a file and is not seen when they are compiled: references to others that do not
/// exist, and secret managers, which nobody reads before they are asked.
fn check_entries(entries: &BTreeMap<String, Arc<[u8]>>) -> Vec<Diagnostic> {
    let resource = |(key, value): (&String, &Arc<[u8]>)| {
        // A field that refers to another resource ends in `_id`; of 100,000 routes without one, none is parsed.
        let refers = value.windows(REFERENCE_END.len()).any(|end| end == REFERENCE_END);
        let fields = refers.then(|| serde_json::from_slice(value).ok()).flatten().unwrap_or_default();
        Resource { key: key.clone(), fields }
    };
    let mut found = admin::lint::dangling(&entries.iter().map(resource).collect::<Vec<_>>());
    let managers = Kind::Secret.key("");
    for (key, value) in entries.range(managers.clone()..).take_while(|(key, _)| key.starts_with(&managers)) {
        let value = serde_json::from_slice(value).unwrap_or_default();
        let errors = check_resource(Kind::Secret, &value).errors.into_iter();
        found.extend(errors.map(|ConfigError { path, message }| {
            Diagnostic::error(codes::INVALID_RESOURCE, message).resource(key).path(path)
        }));
    }
    found
}

/// The end of the name of a field that refers to another resource, in JSON.
const REFERENCE_END: &[u8] = b"_id\"";

/// Reads the files that the source of the configuration needs.
///
/// # Errors
/// One that can't be used.
pub fn check_files(settings: &Settings, launch: &Launch) -> anyhow::Result<()> {
    match &settings.provider {
        Provider::Etcd(named) => etcd_config(named, settings, launch).map(drop),
        _ => Ok(()),
    }
}

fn etcd_config(etcd: &provider::Etcd, settings: &Settings, launch: &Launch) -> anyhow::Result<EtcdConfig> {
    let tls = if etcd.endpoints.iter().any(|endpoint| endpoint.tls) {
        let trusted = assemble::upstream_tls(settings, launch)?;
        let identity = match &etcd.certificate {
            None => None,
            Some((cert, key)) => {
                let read = |path: &Path| {
                    let path = launch.resolve(path);
                    stdx::file::read_text(&path, stdx::file::CREDENTIALS_BYTES_MAX)
                        .with_context(|| format!("deployment.etcd.tls: {} can't be read", path.display()))
                };
                Some(tls::Identity::from_pem(&read(cert)?, &read(key)?).context("deployment.etcd.tls")?)
            }
        };
        let verify = if etcd.verify { tls::Verify::Name } else { tls::Verify::Nothing };
        let config = trusted.config(verify, identity.as_ref(), &["h2"]).context("deployment.etcd.tls")?;
        Some(EtcdTls { config, server_name: etcd.server_name.clone() })
    } else {
        if etcd.certificate.is_some() {
            bail!("deployment.etcd.tls names a certificate, and no host is spoken to over https");
        }
        None
    };
    Ok(EtcdConfig {
        endpoints: etcd.endpoints.clone(),
        prefix: etcd.prefix.clone(),
        timeout: etcd.timeout,
        user: etcd.user.clone(),
        tls,
    })
}
