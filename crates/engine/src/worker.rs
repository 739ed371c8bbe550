//! A worker: one thread, one event loop, and everything that its connections share.

use crate::accept::Accepting;
use crate::buffers::Buffers;
use crate::capacity::Capacity;
use crate::clock::Clock;
use crate::config::{EngineConfig, Listen};
use crate::handle::Context;
use crate::listen::{self, BindError, Listener};
use crate::merged::MergedChains;
use crate::plugins::WorkerPlugins;
use crate::services::WorkerServices;
use crate::sys::Ticker;
use crate::timer::{TICK, Timers};
use crate::upstream::{Resolver, Upstreams};
use files::{Files, Variants};
use plugin::WorkerPlace;
use snapshot::{Reader, Snapshot};
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use stdx::WorkerToken;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, oneshot, watch};

/// What the workers are to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Serve.
    Serving,
    /// Accept no more, let exchanges end for at most this long.
    Draining(Duration),
    /// End at once.
    Stopped,
}

/// Another configuration for a worker that runs.
pub(crate) struct Order {
    pub(crate) config: Arc<EngineConfig>,
    /// The addresses to listen on from now on.
    pub(crate) listen: Vec<Listen>,
    /// Those of them that are new.
    pub(crate) added: Vec<Listener>,
    /// Told when it is in force.
    pub(crate) done: oneshot::Sender<()>,
}

/// What a worker's thread starts with, and what a worker that replaces one that panicked starts with again.
pub(crate) struct Start {
    /// The worker's number, from 0.
    pub(crate) number: usize,
    /// The one in force.
    pub(crate) config: Arc<EngineConfig>,
    pub(crate) orders: mpsc::UnboundedReceiver<Order>,
    pub(crate) context: Context,
    /// Those that are to be accepted on from the start.
    pub(crate) listeners: Vec<Listener>,
    /// All that are listened on.
    pub(crate) addresses: Vec<(Listen, SocketAddr)>,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) resolver: Resolver,
    /// Compressed files, which workers share.
    pub(crate) variants: Arc<Variants>,
}

/// What the connections of one worker share. Never leaves its thread.
pub(crate) struct Worker {
    pub(crate) token: WorkerToken,
    /// The configuration in force. Exchanges keep the one they begin with.
    pub(crate) config: RefCell<Rc<EngineConfig>>,
    /// Of the configuration: asked for with each response.
    pub(crate) shows_upstream_status: Cell<bool>,
    pub(crate) buffers: Buffers,
    pub(crate) timers: Timers,
    /// What plugins may ask of this worker.
    pub(crate) services: Rc<dyn plugin::Services>,
    plugins: WorkerPlugins,
    pub(crate) clock: Clock,
    pub(crate) upstreams: Upstreams,
    pub(crate) merged: MergedChains,
    pub(crate) files: RefCell<Files>,
    pub(crate) context: Context,
    pub(crate) draining: Cell<bool>,
    /// Open client connections.
    pub(crate) open: Cell<usize>,
    pub(crate) capacity: Capacity,
    /// Errands under way: see `exchange/background.rs`.
    pub(crate) errands: Cell<usize>,
    /// Itself, for tasks that outlive who starts them.
    this: Weak<Self>,
    serial: Cell<u64>,
    snapshot: RefCell<(Reader, Current)>,
}

/// A snapshot in use. The outer count is the worker's own, so that using a snapshot is no atomic operation on memory
/// that all workers share.
pub(crate) type Current = Rc<Arc<Snapshot>>;

impl Worker {
    fn new(
        config: &EngineConfig,
        context: Context,
        resolver: Resolver,
        variants: Arc<Variants>,
        number: usize,
        token: WorkerToken,
        this: &Weak<Self>,
    ) -> Self {
        let mut reader = context.published.reader();
        let current = Rc::new(Arc::clone(reader.current()));
        let clock = Clock::new(&config.server);
        Self {
            upstreams: Upstreams::new(resolver, config, token.index() as u64),
            merged: MergedChains::default(),
            files: RefCell::new(Files::new(variants, Capacity::files_max(config.workers))),
            token,
            shows_upstream_status: Cell::new(config.show_upstream_status),
            config: RefCell::new(Rc::new(config.clone())),
            buffers: Buffers::default(),
            timers: Timers::new(clock.now()),
            clock,
            services: Rc::new(WorkerServices::new(Weak::clone(this))),
            plugins: WorkerPlugins::of_worker(number),
            this: Weak::clone(this),
            context,
            draining: Cell::new(false),
            open: Cell::new(0),
            capacity: Capacity::new(config.workers),
            errands: Cell::new(0),
            serial: Cell::new(0),
            snapshot: RefCell::new((reader, current)),
        }
    }

    /// The worker, for a task that outlives who starts it; `None` once it ends.
    pub(crate) fn this(&self) -> Option<Rc<Self>> {
        self.this.upgrade()
    }

    /// The configuration in force, to be kept for a whole exchange.
    pub(crate) fn config(&self) -> Rc<EngineConfig> {
        Rc::clone(&self.config.borrow())
    }

    /// Whether `config` is the one in force.
    #[inline]
    pub(crate) fn runs(&self, config: &Rc<EngineConfig>) -> bool {
        Rc::ptr_eq(&self.config.borrow(), config)
    }

    /// Puts another configuration in force: for connections that wait, with their next request.
    fn reconfigure(&self, config: &EngineConfig) {
        // What was written for the log before belongs there.
        self.flush_log();
        self.clock.set_server(&config.server);
        self.upstreams.reconfigure(config);
        self.shows_upstream_status.set(config.show_upstream_status);
        *self.config.borrow_mut() = Rc::new(config.clone());
    }

    /// Hands over what was recorded since the last time.
    fn flush_log(&self) {
        let config = self.config.borrow();
        for log in [&config.access_log, &config.streams.access_log].into_iter().flatten() {
            log.tick(&self.token);
        }
    }

    /// The current snapshot, to be kept for a whole exchange. Counting it is no atomic: the worker has its own count.
    #[inline]
    pub(crate) fn snapshot(&self) -> Current {
        let mut slot = self.snapshot.borrow_mut();
        let (reader, kept) = &mut *slot;
        let current = reader.current();
        if Arc::ptr_eq(current, kept) {
            return Rc::clone(kept);
        }
        *kept = Rc::new(Arc::clone(current));
        drop(slot);
        self.adopted()
    }

    /// Starts what the current snapshot has of plugins' that does not run yet.
    fn start_plugins(&self) {
        let config = self.config();
        self.plugins.adopt(self.place(&config.gateway), || self.snapshot());
    }

    /// The worker as plugins' lifecycle hooks see it.
    fn place<'a>(&'a self, gateway: &'a plugin::Gateway) -> WorkerPlace<'a> {
        WorkerPlace { gateway, worker: &self.token, services: &self.services }
    }

    /// The current snapshot, once plugins have started what it has of theirs.
    #[cold]
    #[inline(never)]
    fn adopted(&self) -> Current {
        self.start_plugins();
        Rc::clone(&self.snapshot.borrow().1)
    }

    fn tick(&self) {
        #[cfg(test)]
        crate::supervise::fault::strike(&self.config.borrow().server);
        self.clock.tick();
        self.timers.sweep();
        self.upstreams.sweep(self.clock.now_ms());
        self.capacity.look_for_room(self.open.get(), self.config.borrow().worker_connections);
        // Taken here as well, so that an idle worker lets go of old snapshots.
        self.merged.forget_others(&self.snapshot());
        self.plugins.sweep(self.place(&self.config().gateway));
        self.flush_log();
    }

    /// The next connection's serial number: unique in the process.
    pub(crate) fn next_serial(&self) -> u64 {
        let serial = self.serial.get();
        self.serial.set(serial + 1);
        serial * stdx::worker::WORKERS_MAX as u64 + self.token.index() as u64 + 1
    }
}

impl Start {
    /// Takes the addresses again that a worker lost when it panicked.
    pub(crate) fn listen_again(&mut self) -> Result<(), BindError> {
        let mut taken = listen::bind_again(&self.addresses)?;
        self.listeners.append(&mut taken);
        Ok(())
    }

    /// Returns whether the worker is to serve.
    pub(crate) fn is_serving(&self) -> bool {
        *self.phase.borrow() == Phase::Serving
    }
}

/// Runs a worker until it is told to end.
pub(crate) fn run(start: &mut Start) {
    // Deadlines of connections come from one timer descriptor. The time driver serves plugins, and the libraries that
    // they use; without such a timer each wait of the loop reads the clock once more and looks at an empty wheel: 300
    // instructions.
    let runtime =
        Builder::new_current_thread().enable_io().enable_time().build_local(LocalOptions::default());
    match runtime {
        Ok(runtime) => {
            if let Err(error) = runtime.block_on(serve(start)) {
                tracing::error!(%error, "a worker could not start");
            }
        }
        Err(error) => tracing::error!(%error, "a worker has no event loop"),
    }
}

async fn serve(start: &mut Start) -> io::Result<()> {
    let Start { number, config, orders, context, listeners, addresses, phase, resolver, variants } = start;
    let ticker = Ticker::start(TICK)?;
    let token = WorkerToken::claim().ok_or_else(|| io::Error::other("too many workers"))?;
    let worker = Rc::new_cyclic(|this| {
        Worker::new(config, context.clone(), resolver.clone(), Arc::clone(variants), *number, token, this)
    });
    worker.start_plugins();
    let mut accepting = Accepting::default();
    accepting.begin(&worker, std::mem::take(listeners))?;
    let mut ends_at_ms = None;
    loop {
        tokio::select! {
            biased;
            changed = phase.changed() => {
                let now = if changed.is_ok() { *phase.borrow_and_update() } else { Phase::Stopped };
                match now {
                    Phase::Serving => continue,
                    Phase::Stopped => break,
                    Phase::Draining(patience) => {
                        accepting.keep(&[]);
                        worker.draining.set(true);
                        worker.timers.wake_idle();
                        ends_at_ms = Some(worker.clock.deadline_ms(patience));
                    }
                }
            }
            Some(Order { config: next, listen, added, done }) = orders.recv() => {
                addresses.retain(|(held, _)| listen.contains(held));
                addresses.extend(added.iter().map(|listener| (listener.listen, listener.address)));
                *config = next;
                worker.reconfigure(config);
                accepting.keep(&listen);
                if let Err(error) = accepting.begin(&worker, added) {
                    tracing::error!(%error, "a worker does not listen on a new address");
                }
                // Nobody may be waiting for it.
                let _ = done.send(());
            }
            ticked = ticker.tick() => {
                ticked?;
                worker.tick();
            }
        }
        if let Some(ends_at_ms) = ends_at_ms {
            worker.timers.wake_idle();
            if worker.open.get() == 0 || worker.clock.now_ms() >= ends_at_ms {
                break;
            }
        }
    }
    worker.plugins.end(worker.place(&worker.config().gateway)).await;
    worker.flush_log();
    Ok(())
}
