//! What SIGHUP and SIGUSR1 do while the gateway runs.
//!
//! A reload makes everything that can fail first, with the functions that the start uses, and only then puts it in
//! force: a file that is refused changes nothing. No connection is closed and no counter starts anew.

use crate::admin_key;
use crate::assemble;
use crate::centre;
use crate::launch::Launch;
use crate::limits;
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::process_plugins::ProcessPlugins;
use admin::{Control, CurrentAdmin, ListenerTls};
use anyhow::Context as _;
use config::Settings;
use delivery::Delivery;
use engine::{Engine, EngineConfig, Mount, Ports};
use observe::error_log::NOTICE;
use observe::{ErrorLog, Metrics};
use snapshot::{Published, Rebuild};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// What the start leaves for reloads.
#[derive(Debug)]
pub struct Started {
    /// How the start was asked for.
    pub launch: Launch,
    /// The settings as the start read them, without what it added: what new ones are compared with.
    pub read: Settings,
    /// The process's error log.
    pub error_log: ErrorLog,
}

/// A gateway that runs, as far as a reload reaches.
#[derive(Debug)]
pub struct Running {
    /// What the start left.
    pub started: Started,
    /// The settings in force.
    pub settings: Settings,
    /// What they came to.
    pub plan: Plan,
    /// The process's metrics.
    pub metrics: Arc<Metrics>,
    /// The Admin API, where there is one.
    pub admin: Option<Arc<CurrentAdmin>>,
    /// TLS of the Admin API's listener.
    pub admin_tls: Arc<ListenerTls>,
    /// The control API, where there is one.
    pub control: Option<Arc<Control>>,
    /// The Admin API on the data ports, where it is there.
    pub mount: Option<Mount>,
    /// What tells this process from others.
    pub own: assemble::Own,
    /// The plugins that have started.
    pub plugins: ProcessPlugins,
    /// Where new snapshots are ordered.
    pub rebuilds: mpsc::Sender<Rebuild>,
    /// The standalone file, where there is one.
    pub file: Option<Arc<store::File>>,
    /// The resources that the command line gives, where it does.
    pub memory: Option<Arc<store::Embedded>>,
    /// What workers go by.
    pub published: Arc<Published>,
}

/// Settings that nothing can refuse any more.
struct Prepared {
    launch: Launch,
    settings: Settings,
    plan: Plan,
    ports: Ports,
}

impl Running {
    /// Opens the logs anew: what log rotation asks for.
    pub fn reopen_logs(&self) {
        for log in [&self.plan.access_log, &self.plan.stream_log] {
            log.open.iter().for_each(|log| log.reopen());
        }
        self.delivery().reopen_files();
        if let Err(error) = self.started.error_log.reopen() {
            tracing::error!(%error, "can't open the error log anew; going on with the old file");
        }
    }

    /// Waits until the lines of the error log are written, for a bounded time.
    pub fn flush_error_log(&self) {
        self.started.error_log.flush();
    }

    /// Reads the configuration again and puts it in force. The error log tells what came of it: every mistake of a
    /// configuration that is refused, or the changes that wait for a restart.
    ///
    /// # Errors
    /// When the configuration is refused; nothing has changed then.
    pub async fn reload(&mut self, engine: &mut Engine) -> anyhow::Result<()> {
        let (prepared, waiting) = match Box::pin(self.prepare(engine)).await {
            Ok(prepared) => prepared,
            Err(error) => {
                // Those that started for the refused one stop again; these have started.
                let _ = self.plugins.start(&self.plan.registry, &self.settings, &self.own);
                tracing::error!("{error:#}");
                tracing::error!("the configuration is refused, nothing changes");
                self.tell(false, format!("{error:#}"));
                return Err(error);
            }
        };
        Box::pin(self.apply(engine, prepared)).await;
        self.reopen_logs();
        if waiting.is_empty() {
            tracing::info!(target: NOTICE, "configuration read again and in force");
            self.tell(true, String::new());
        } else {
            let waiting = waiting.join(", ");
            tracing::warn!("configuration read again and in force; these changes need a restart: {waiting}");
            self.tell(true, format!("these changes need a restart: {waiting}"));
        }
        Ok(())
    }

    /// Tells the `tidegate reload` that waits, where one does.
    fn tell(&self, applied: bool, words: String) {
        if let Err(error) = (Outcome { applied, words }).write(&self.started.launch.data_dir) {
            tracing::warn!(%error, "the outcome of the reload can't be written to the data directory");
        }
    }

    /// What sends loggers' entries, as long as the process lives.
    pub fn delivery(&self) -> Arc<Delivery> {
        self.plan.registry.shared.get()
    }

    /// The data plane's configuration.
    pub fn engine_config(&self) -> EngineConfig {
        assemble::engine(&self.settings, &self.plan, &self.own, self.mount.clone())
    }

    /// Everything that can fail: the new settings, what they come to, and the changes that wait for a restart.
    async fn prepare(&mut self, engine: &Engine) -> anyhow::Result<(Prepared, Vec<&'static str>)> {
        let Started { launch, read, .. } = &self.started;
        let launch = launch.again()?;
        let loaded = launch.settings().map_err(|report| {
            report.entries().for_each(|entry| tracing::error!("{entry}"));
            anyhow::anyhow!("the configuration has {}", report.summary())
        })?;
        loaded.warnings.entries().for_each(|entry| tracing::warn!("{entry}"));
        let mut settings = loaded.settings;
        let waiting = read.needs_restart(&settings);
        if let Some(generated) = admin_key::ensure(&mut settings, &launch.data_dir)?.filter(|key| key.new) {
            tracing::warn!("an Admin API key was made; it is in {}", generated.path.display());
        }
        centre::lay_over(&mut settings, self.file.as_deref());
        let plan = Plan::make(&settings, &launch, Some(&self.plan))?;
        self.plugins.start(&plan.registry, &settings, &self.own)?;
        if let Some(given) = &launch.given {
            let report = given.errors(Arc::clone(&plan.registry)).await;
            report.entries().for_each(|entry| tracing::error!("{entry}"));
            anyhow::ensure!(report.is_empty(), "the configuration has {}", report.summary());
            given.refused.iter().for_each(|note| tracing::warn!("{note}"));
        }
        let ports = engine.take_ports(&assemble::listen(&settings))?;
        Ok((Prepared { launch, settings, plan, ports }, waiting))
    }

    async fn apply(&mut self, engine: &mut Engine, prepared: Prepared) {
        let Prepared { launch, settings, plan, ports } = prepared;
        let rebuild = !plan.builds_like(&self.plan);
        // Dropped at the end, when no worker writes to a log of it any more.
        let before = std::mem::replace(&mut self.plan, plan);
        self.settings = settings;
        self.started.launch = launch;
        self.started.error_log.set_level(self.settings.logs.level);
        self.metrics.set_prefix(&self.settings.metrics.prefix);
        if let (_, Some(warning)) = limits::raise_open_files(self.settings.process.open_files) {
            tracing::warn!("{warning}");
        }
        if rebuild && let Err(error) = self.rebuild().await {
            tracing::error!("{error:#}");
        }
        if let Err(error) = self.take_given().await {
            tracing::error!("{error:#}");
        }
        // After the snapshot: what the Admin API accepts, the workers know.
        if let (Some(current), Some(admin)) = (&self.admin, &self.settings.admin) {
            let registry = Arc::clone(&self.plan.registry);
            current.replace(current.get().with(registry, assemble::admin(&self.settings, admin)));
        }
        self.admin_tls.replace(self.plan.admin_tls.clone());
        if let Some(control) = &self.control {
            control.replace(Arc::clone(&self.plan.registry), assemble::explain(&self.settings));
        }
        engine.reconfigure(self.engine_config(), ports).await;
        // Closing a log waits for its last lines.
        let _ = tokio::task::spawn_blocking(move || drop(before)).await;
    }

    /// Puts the resources that the command line gives in the place of those before.
    async fn take_given(&self) -> anyhow::Result<()> {
        let (Some(memory), Some(given)) = (&self.memory, &self.started.launch.given) else { return Ok(()) };
        let revision = given.fill(memory).await?;
        let mut applied = self.published.applied();
        applied.wait_for(|applied| *applied >= revision).await.context("the snapshot's builder has ended")?;
        Ok(())
    }

    /// Has another builder take orders from now on, which are those that come out of this.
    pub fn expect_orders(&mut self) -> mpsc::Receiver<Rebuild> {
        let (rebuilds, orders) = mpsc::channel(1);
        self.rebuilds = rebuilds;
        orders
    }

    /// Has every route compiled anew and published at once.
    async fn rebuild(&self) -> anyhow::Result<()> {
        let (done, published) = oneshot::channel();
        let order = Rebuild { registry: Arc::clone(&self.plan.registry), options: self.plan.build, done };
        self.rebuilds.send(order).await.context("nobody builds snapshots any more")?;
        published.await.context("the snapshot's builder has ended")
    }
}
