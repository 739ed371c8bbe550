//! Puts the gateway together from settings and runs it until it is told to end.
//!
//! The order is the point: everything that can fail (store, ports, threads) comes before anything is served, so a
//! start is refused as a whole and nothing is half-started.

use crate::assemble;
use crate::builder_thread::BuilderThread;
use crate::centre::{self, Centre};
use crate::daemon::Announcement;
use crate::encryption;
use crate::health::NodesHealth;
use crate::key_file;
use crate::limits;
use crate::notify::{State, notify};
use crate::plan::Plan;
use crate::process_plugins::ProcessPlugins;
use crate::reload::{Running, Started};
use crate::servers::{self, AdminOnDataPort};
use crate::signals::{Event, Shutdown, Signals};
use crate::status::{self, Readiness};
use admin::{Admin, Control, CurrentAdmin, ListenerTls, Server};
use anyhow::{Context as _, anyhow};
use config::Settings;
use discovery::Discovery;
use engine::{Bound, Engine, Mount};
use observe::Metrics;
use observe::error_log::NOTICE;
use observe::metrics::Metric;
use plugin::Reloads;
use secrets::Secrets;
use snapshot::{Builder, FollowStatus, InPlugins, Published, Rebuild, Snapshot};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use store::Health;
use store::etcd::{Fleet, Member};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{mpsc, watch};

/// How long the first configuration may take to load: 100,000 routes take about a second.
const FIRST_LOAD: Duration = Duration::from_secs(120);

/// How long collectors of logs may take for what is left at the end.
const LAST_LOGS: Duration = Duration::from_secs(3);

/// How long after a reload that takes plugins away it is looked for whether they are still in use, and again.
const PLUGINS_CHECK: Duration = Duration::from_millis(500);

/// The file in the data directory that tells this node from the others of its fleet.
const NODE_ID_FILE: &str = "node.id";

/// Runs the gateway. Returns when it has ended; an error means that it did not start or broke down.
///
/// `ready` is used once every listener is open. The settings hold an admin key where one is needed, and the data
/// directory is claimed.
///
/// # Errors
/// Whatever kept it from starting.
pub fn run(mut settings: Settings, started: Started, ready: Announcement) -> anyhow::Result<()> {
    let control = runtime("control")?;
    let centre = standing_back(|| Centre::open(&settings, &started.launch, control.handle()))?;
    centre::lay_over(&mut settings, centre.file.as_deref());
    let plan = Plan::make(&settings, &started.launch, None)?;
    let parts = Parts::make(&settings, &plan, centre)?;
    let node_id = key_file::read_or_make(started.launch.data_dir.join(NODE_ID_FILE), "the node's id")?
        .key
        .into_string();
    let own = assemble::Own { seed: seed(), node_id: node_id.clone() };
    let mut plugins = ProcessPlugins::default();
    plugins.start(&plan.registry, &settings, &own)?;
    let sealing = encryption::sealing(&settings, &started.launch.data_dir)?;
    let secrets = encryption::secrets(&settings, &sealing);
    let admin = settings.admin.as_ref().map(|admin| {
        let (store, registry) = (Arc::clone(&parts.centre.store), Arc::clone(&plan.registry));
        let admin = Admin::new(store, registry, assemble::admin(&settings, admin), parts.published.applied())
            .with_sealing(Arc::clone(&sealing))
            .with_standalone(parts.centre.standalone.clone())
            .with_source(parts.centre.cached.clone())
            .with_fleet(parts.centre.etcd.clone().map(|etcd| Arc::new(etcd) as Arc<dyn Fleet>));
        Arc::new(CurrentAdmin::new(Arc::new(admin)))
    });
    let (rebuilds, orders) = mpsc::channel(1);
    let mount = mount(&settings, admin.as_ref(), control.handle());
    let metrics = Arc::clone(&parts.metrics);
    let api = settings.control.map(|_| Arc::new(parts.control_api(&plan, &settings)));
    let admin_tls = Arc::new(ListenerTls::new(plan.admin_tls.clone()));
    let mut running = Running {
        started,
        settings,
        plan,
        metrics,
        admin,
        admin_tls,
        control: api,
        mount,
        own,
        plugins,
        rebuilds,
        file: parts.centre.file.clone(),
        memory: parts.centre.memory.clone(),
        published: Arc::clone(&parts.published),
    };
    let bound = Bound::new(running.engine_config())?;
    let (stop, stopped) = watch::channel(());
    control.block_on(serve_control(&running, &parts, stopped.clone()))?;
    parts.centre.attend(control.handle(), &parts.metrics);
    let mut builder = BuilderThread::new(runtime("builder")?);
    parts.load(&running.plan, &control, orders, &secrets, &mut builder)?;
    let engine = bound.start(&engine::Context {
        published: Arc::clone(&parts.published),
        metrics: Arc::clone(&parts.metrics),
    })?;
    for index in 0..assemble::workers(&running.settings) {
        parts.readiness.mark(index);
    }
    parts.join_fleet(node_id, control.handle(), stopped);
    ready.ready()?;
    tracing::info!(target: NOTICE, version = env!("CARGO_PKG_VERSION"), "tidegate is ready");
    let end = control.block_on(until_told(&mut running, engine, &parts, &secrets, &mut builder));
    running.plugins.end(&running.settings, &running.own);
    running.delivery().finish(LAST_LOGS);
    // Admin requests at hand are answered before the store closes.
    drop(stop);
    builder.end();
    parts.centre.flush();
    control.shutdown_timeout(Duration::from_secs(1));
    end
}

/// What the parts of the gateway have in common, and what stays as it is until the process ends.
struct Parts {
    centre: Centre,
    metrics: Arc<Metrics>,
    published: Arc<Published>,
    health: NodesHealth,
    status: Arc<FollowStatus>,
    discovery: Arc<Discovery>,
    readiness: Readiness,
}

impl Parts {
    fn make(settings: &Settings, plan: &Plan, centre: Centre) -> anyhow::Result<Self> {
        let metrics = Arc::new(Metrics::new(&assemble::metrics(settings)));
        metrics.set(Metric::NodeInfo, &[&assemble::hostname(), env!("CARGO_PKG_VERSION")], 1.0);
        plan.registry.shared.insert(Arc::clone(&metrics));
        let router = router::Router::new(plan.build.router);
        let registry = Arc::clone(&plan.registry);
        let first = Snapshot { router, registry, ..Snapshot::default() };
        let readiness = Readiness::new(assemble::workers(settings)).with_centre(centre.health());
        let discovery =
            Discovery::start(settings.discovery.clone()).context("service discovery can't start")?;
        let discovery = Arc::new(discovery);
        plan.registry.shared.insert(Arc::new(InPlugins::new(Arc::clone(&discovery))));
        let published = Arc::new(Published::new(Arc::new(first)));
        let key_prefix = assemble::key_prefix(settings).to_owned();
        let health = NodesHealth { published: Arc::clone(&published), key_prefix };
        let counted = health.clone();
        metrics.before_scrapes(move |metrics| counted.count(metrics));
        Ok(Self { centre, metrics, published, health, status: Arc::default(), discovery, readiness })
    }

    fn control_api(&self, plan: &Plan, settings: &Settings) -> Control {
        let (store, published) = (Arc::clone(&self.centre.store), Arc::clone(&self.published));
        let setting = assemble::explain(settings);
        Control::new(store, published, Arc::clone(&plan.registry), setting, Arc::new(self.health.clone()))
            .with_status(Arc::clone(&self.status))
            .with_source(self.centre.health())
            .with_discovery(Arc::clone(&self.discovery))
            .with_key_prefix(&self.health.key_prefix)
    }

    /// Loads the configuration, and has the builder follow the store from then on.
    fn load(
        &self,
        plan: &Plan,
        control: &Runtime,
        orders: mpsc::Receiver<Rebuild>,
        secrets: &Arc<Secrets>,
        builder: &mut BuilderThread,
    ) -> anyhow::Result<()> {
        let mut applied = self.published.applied();
        applied.mark_unchanged();
        builder.run(self.follow(plan, orders, secrets));
        let loaded = control.block_on(async {
            tokio::select! {
                message = builder.panicked() => {
                    Err(anyhow!("the builder of the configuration panicked: {message}"))
                }
                loaded = tokio::time::timeout(FIRST_LOAD, applied.changed()) => Ok(loaded),
            }
        })?;
        loaded.map_err(|_| {
            let why = match self.centre.health().map(|health| health.borrow().clone()) {
                Some(Health::Starting(Some(why))) => format!(": {why}"),
                _ => String::new(),
            };
            anyhow!("the configuration could not be loaded within {} s{why}", FIRST_LOAD.as_secs())
        })??;
        control.spawn(count_skipped(applied, Arc::clone(&self.status), Arc::clone(&self.metrics)));
        Ok(())
    }

    /// Keeps the snapshot equal to the store, as `plan` has it built.
    fn follow(
        &self,
        plan: &Plan,
        orders: mpsc::Receiver<Rebuild>,
        secrets: &Arc<Secrets>,
    ) -> impl Future<Output = Infallible> + Send + use<> {
        let builder = Builder::new(Arc::clone(&plan.registry), plan.build)
            .with_secrets(Arc::clone(secrets))
            .with_file(self.centre.file.clone())
            .with_discovery(Arc::clone(&self.discovery));
        let (store, published) = (Arc::clone(&self.centre.followed), Arc::clone(&self.published));
        snapshot::follow(store, builder, published, Arc::clone(&self.status), orders)
    }

    /// Tells the fleet how far this node is, from now until it stops.
    fn join_fleet(&self, node_id: String, control: &Handle, mut stopped: watch::Receiver<()>) {
        let Some(etcd) = self.centre.etcd.clone() else { return };
        let member = Member {
            id: node_id,
            host: assemble::hostname(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            revision: 0,
        };
        let applied = self.centre.applied(control, self.published.applied());
        let stop = async move { while stopped.changed().await.is_ok() {} };
        control.spawn(async move { etcd.attend(member, applied, stop).await });
    }
}

/// Keeps the count of stored values that can't be used, with every snapshot.
async fn count_skipped(mut applied: watch::Receiver<u64>, status: Arc<FollowStatus>, metrics: Arc<Metrics>) {
    loop {
        metrics.set(Metric::ConfigValuesSkipped, &[], status.problems().len() as f64);
        if applied.changed().await.is_err() {
            return;
        }
    }
}

/// A runtime with one thread of its own.
fn runtime(name: &str) -> anyhow::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).thread_name(name).enable_all().on_thread_start(yield_to_workers);
    builder.build().context("no event loop can be had")
}

/// What `make` makes, on a thread that lets the workers go first: so do the threads it starts, the store's writer say.
fn standing_back<T: Send>(make: impl FnOnce() -> T + Send) -> T {
    let made = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                yield_to_workers();
                make()
            })
            .join()
    });
    made.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Lets the workers go first where cores are few: a change may take effect a little later, a request must not.
fn yield_to_workers() {
    if let Err(error) = stdx::priority::stand_back() {
        tracing::debug!(%error, "a control thread has the workers' priority");
    }
}

/// Random bits that make this process's request ids its own.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// The Admin API on the data ports, where the settings ask for it.
fn mount(settings: &Settings, admin: Option<&Arc<CurrentAdmin>>, control: &Handle) -> Option<Mount> {
    let admin = admin.filter(|_| settings.admin.as_ref().is_some_and(|admin| admin.on_data_ports))?;
    Some(Mount {
        prefix: "/apisix/admin".to_owned(),
        loopback_only: true,
        max_body_bytes: admin.get().settings().body_limit,
        handler: Arc::new(AdminOnDataPort { admin: Arc::clone(admin), control: control.clone() }),
    })
}

/// Takes the control plane's ports, all of them, and then serves them.
async fn serve_control(running: &Running, parts: &Parts, stopped: watch::Receiver<()>) -> anyhow::Result<()> {
    let Running { settings, admin, admin_tls, control, .. } = running;
    let most = limits::control_connections();
    let mut servers = Vec::new();
    if let Some(address) = settings.status {
        let listener = servers::bind("/status (apisix.status)", address)?;
        servers.push((
            listener,
            Server::new("the status server", status::server(parts.readiness.clone()), most),
        ));
    }
    if let Some(address) = settings.metrics.listen {
        let listener = servers::bind("metrics (plugin_attr.prometheus.export_addr)", address)?;
        let app = servers::metrics(&settings.metrics.uri, Arc::clone(&parts.metrics));
        servers.push((listener, Server::new("the metrics server", app, most)));
    }
    if let (Some(control), Some(address)) = (control, settings.control) {
        let listener = servers::bind("the control API (apisix.control)", address)?;
        let app = admin::control::server(Arc::clone(control));
        servers.push((listener, Server::new("the control API", app, most).without_pages()));
    }
    if let (Some(admin), Some(settings)) = (admin, &settings.admin) {
        let listener = servers::bind("the Admin API (deployment.admin.admin_listen)", settings.listen)?;
        let server = admin::server(Arc::clone(admin), most).with_tls(Arc::clone(admin_tls));
        servers.push((listener, server));
    }
    for (listener, server) in servers {
        let mut stopped = stopped.clone();
        tokio::spawn(server.serve(listener, async move { while stopped.changed().await.is_ok() {} }));
    }
    Ok(())
}

/// Runs until a signal ends the gateway, or until the builder of snapshots panics and can't be replaced: from then on no
/// change of the configuration would take effect. Requests in flight are answered in both cases.
async fn until_told(
    running: &mut Running,
    mut engine: Engine,
    parts: &Parts,
    secrets: &Arc<Secrets>,
    builder: &mut BuilderThread,
) -> anyhow::Result<()> {
    let mut end = Ok(());
    let mut signals = Signals::listen().context("signals can't be received")?;
    let mut plugins = running.file.as_ref().map(|file| file.plugins());
    let mut reloads = running.plan.registry.shared.get::<Reloads>().accept();
    let how = loop {
        let event = tokio::select! {
            event = signals.next() => event,
            () = tokio::time::sleep(PLUGINS_CHECK), if running.plugins.has_leftovers() => {
                running.plugins.stop_unused(&running.settings, &running.own);
                continue;
            }
            Some(order) = reloads.recv() => {
                let result = running.reload(&mut engine).await;
                order.done(result.map_err(|error| format!("{error:#}")));
                continue;
            }
            // The standalone file names other plugins.
            () = changed(&mut plugins) => Event::Reload,
            message = builder.panicked() => {
                let exits = running.settings.process.exits_on_panic;
                if !exits && builder.may_restart() {
                    tracing::error!("the builder of the configuration panicked: {message}; it is restarted");
                    let orders = running.expect_orders();
                    builder.run(parts.follow(&running.plan, orders, secrets));
                    continue;
                }
                tracing::error!("the builder of the configuration panicked: {message}; the gateway ends");
                end = Err(anyhow!("the builder of the configuration panicked: {message}"));
                Event::Shutdown(Shutdown::Graceful)
            }
        };
        match event {
            // What is refused is in the log, and the gateway runs on.
            Event::Reload => drop(running.reload(&mut engine).await),
            Event::ReopenLogs => running.reopen_logs(),
            Event::Shutdown(how) => break how,
        }
    };
    tracing::info!(target: NOTICE, ?how, "ending");
    notify(State::Stopping);
    if how == Shutdown::Fast {
        engine.stop();
        return end;
    }
    // The time that requests in flight have to be answered.
    let patience = running.settings.process.shutdown_timeout;
    let drained = tokio::task::spawn_blocking(move || engine.drain(patience));
    tokio::select! {
        _ = drained => {}
        // A second signal ends at once: the process goes, and its workers with it.
        () = ended(&mut signals) => {
            running.flush_error_log();
            std::process::exit(0)
        }
    }
    end
}

/// Waits for another value; for ever where there is none to come.
async fn changed<T>(value: &mut Option<watch::Receiver<T>>) {
    if let Some(value) = value
        && value.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

async fn ended(signals: &mut Signals) {
    while !matches!(signals.next().await, Event::Shutdown(_)) {}
}
