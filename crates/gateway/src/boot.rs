//! Puts the gateway together from settings and runs it until it is told to end.
//!
//! The order is the point: everything that can fail (store, ports, threads) comes before anything is served, so a
//! start is refused as a whole and nothing is half-started.

use crate::assemble;
use crate::config::Settings;
use crate::daemon::Announcement;
use crate::launch::Launch;
use crate::reload::Reload;
use crate::servers::{self, AdminOnDataPort};
use crate::signals::{Event, Shutdown, Signals};
use crate::status::{self, Readiness};
use admin::Admin;
use anyhow::{Context as _, anyhow};
use engine::{Bound, Engine, Mount};
use observe::{AccessLog, Metrics};
use plugin::Registry;
use snapshot::{BuildOptions, Builder, FollowStatus, Published, Snapshot};
use std::sync::Arc;
use std::time::Duration;
use store::{Embedded, EmbeddedConfig, Store};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::watch;

/// How long the first configuration may take to load: 100,000 routes take about a second.
const FIRST_LOAD: Duration = Duration::from_secs(120);

/// The store's file in the data directory.
const STORE_FILE: &str = "store.redb";

/// Runs the gateway. Returns when it has ended; an error means that it did not start or broke down.
///
/// `ready` is used once every listener is open. The settings hold an admin key where one is needed, and the data
/// directory is claimed.
///
/// # Errors
/// Whatever kept it from starting.
pub fn run(settings: &Settings, mut reload: Reload, ready: Announcement) -> anyhow::Result<()> {
    let control = runtime("control")?;
    let parts = Parts::make(settings, &reload.launch)?;
    let admin = settings.admin.as_ref().map(|admin| {
        let (store, registry) = (Arc::clone(&parts.store), Arc::clone(&parts.registry));
        Arc::new(Admin::new(store, registry, assemble::admin(admin), parts.published.applied()))
    });
    let mount = mount(settings, admin.as_ref(), control.handle());
    let bound = Bound::new(assemble::engine(settings, seed(), mount))?;
    let (stop, stopped) = watch::channel(());
    control.block_on(serve_control(settings, &parts, admin, stopped))?;
    let builder_runtime = parts.follow(settings, &control)?;
    let engine = bound.start(&engine::Context {
        published: Arc::clone(&parts.published),
        access_log: parts.access_log.clone(),
        metrics: Arc::clone(&parts.metrics),
    })?;
    for index in 0..assemble::workers(settings) {
        parts.readiness.mark(index);
    }
    ready.ready()?;
    tracing::warn!(version = env!("CARGO_PKG_VERSION"), "tidegate is ready");
    reload.access_log = parts.access_log.clone();
    control.block_on(until_told(settings.process.shutdown_timeout, &reload, engine))?;
    // Admin requests at hand are answered before the store closes.
    drop(stop);
    builder_runtime.shutdown_timeout(Duration::from_secs(1));
    control.shutdown_timeout(Duration::from_secs(1));
    Ok(())
}

/// What the parts of the gateway have in common.
struct Parts {
    store: Arc<dyn Store>,
    registry: Arc<Registry>,
    metrics: Arc<Metrics>,
    access_log: Option<Arc<AccessLog>>,
    published: Arc<Published>,
    status: Arc<FollowStatus>,
    readiness: Readiness,
}

impl Parts {
    fn make(settings: &Settings, launch: &Launch) -> anyhow::Result<Self> {
        let (plugins, missing) = assemble::plugins(settings);
        if !missing.is_empty() {
            tracing::warn!("plugins that are not built in are left out: {}", missing.join(", "));
        }
        let registry = Registry::new(&plugins, settings.plugin_attr.clone())?;
        let metrics = Arc::new(Metrics::new(&assemble::metrics(settings)));
        registry.shared.insert(Arc::clone(&metrics));
        let access_log = assemble::access_log(settings, launch)
            .map(|config| {
                let opened = AccessLog::open(&config);
                opened.with_context(|| format!("the access log {} can't be opened", config.path.display()))
            })
            .transpose()?;
        let first = Snapshot {
            revision: 0,
            router: router::Router::new(assemble::router_mode(settings)?),
            global: Arc::default(),
        };
        Ok(Self {
            store: Arc::new(Embedded::open(EmbeddedConfig::new(launch.data_dir.join(STORE_FILE)))?),
            registry: Arc::new(registry),
            metrics,
            access_log: access_log.map(Arc::new),
            published: Arc::new(Published::new(Arc::new(first))),
            status: Arc::default(),
            readiness: Readiness::new(assemble::workers(settings)),
        })
    }

    /// Loads the configuration and follows the store from then on, on a thread of its own: building a snapshot takes
    /// as long as it takes, and nobody else waits for it.
    fn follow(&self, settings: &Settings, control: &Runtime) -> anyhow::Result<Runtime> {
        let options = BuildOptions { router: assemble::router_mode(settings)? };
        let builder = Builder::new(Arc::clone(&self.registry), options);
        let runtime = runtime("builder")?;
        let mut applied = self.published.applied();
        applied.mark_unchanged();
        runtime.spawn(snapshot::follow(
            Arc::clone(&self.store),
            builder,
            Arc::clone(&self.published),
            Arc::clone(&self.status),
        ));
        let loaded = control.block_on(async { tokio::time::timeout(FIRST_LOAD, applied.changed()).await });
        loaded.map_err(|_| {
            anyhow!("the configuration could not be loaded within {} s", FIRST_LOAD.as_secs())
        })??;
        Ok(runtime)
    }
}

/// A runtime with one thread of its own.
fn runtime(name: &str) -> anyhow::Result<Runtime> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name(name).enable_all().build();
    runtime.context("no event loop can be had")
}

/// Random bits that make this process's request ids its own.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// The Admin API on the data ports, where the settings ask for it.
fn mount(settings: &Settings, admin: Option<&Arc<Admin>>, control: &Handle) -> Option<Mount> {
    let admin = admin.filter(|_| settings.admin.as_ref().is_some_and(|admin| admin.on_data_ports))?;
    Some(Mount {
        prefix: "/apisix/admin".to_owned(),
        loopback_only: true,
        max_body_bytes: admin.settings().body_limit,
        handler: Arc::new(AdminOnDataPort { admin: Arc::clone(admin), control: control.clone() }),
    })
}

/// Takes the control plane's ports, all of them, and then serves them.
async fn serve_control(
    settings: &Settings,
    parts: &Parts,
    admin: Option<Arc<Admin>>,
    stopped: watch::Receiver<()>,
) -> anyhow::Result<()> {
    let mut apps = Vec::new();
    if let Some(address) = settings.status {
        let listener = servers::bind("/status (apisix.status)", address).await?;
        apps.push((listener, status::server(parts.readiness.clone())));
    }
    if let Some(address) = settings.metrics.listen {
        let listener = servers::bind("metrics (plugin_attr.prometheus.export_addr)", address).await?;
        apps.push((listener, servers::metrics(&settings.metrics.uri, Arc::clone(&parts.metrics))));
    }
    let admin_listener = match (&admin, &settings.admin) {
        (Some(admin), Some(settings)) => {
            let purpose = "the Admin API (deployment.admin.admin_listen)";
            Some((Arc::clone(admin), servers::bind(purpose, settings.listen).await?))
        }
        _ => None,
    };
    let until =
        move |mut stopped: watch::Receiver<()>| async move { while stopped.changed().await.is_ok() {} };
    if let Some((admin, listener)) = admin_listener {
        tokio::spawn(admin::serve(admin, listener, until(stopped.clone())));
    }
    for (listener, app) in apps {
        tokio::spawn(axum::serve(listener, app).with_graceful_shutdown(until(stopped.clone())).into_future());
    }
    Ok(())
}

/// Runs until a signal ends the gateway. Requests in flight then have `patience` to be answered.
async fn until_told(patience: Duration, reload: &Reload, engine: Engine) -> anyhow::Result<()> {
    let mut signals = Signals::listen().context("signals can't be received")?;
    let how = loop {
        match signals.next().await {
            Event::Reload => reload.run(),
            Event::ReopenLogs => reload.reopen_logs(),
            Event::Shutdown(how) => break how,
        }
    };
    tracing::warn!(?how, "ending");
    if how == Shutdown::Fast {
        engine.stop();
        return Ok(());
    }
    let drained = tokio::task::spawn_blocking(move || engine.drain(patience));
    tokio::select! {
        _ = drained => {}
        // A second signal ends at once: the process goes, and its workers with it.
        () = ended(&mut signals) => std::process::exit(0),
    }
    Ok(())
}

async fn ended(signals: &mut Signals) {
    while !matches!(signals.next().await, Event::Shutdown(_)) {}
}
