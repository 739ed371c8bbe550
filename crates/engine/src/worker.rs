//! A worker: one thread, one event loop, and everything that its connections share.

use crate::buffers::Buffers;
use crate::capacity::Capacity;
use crate::clock::Clock;
use crate::config::EngineConfig;
use crate::merged::MergedChains;
use crate::plugins::WorkerPlugins;
use crate::timer::Timers;
use crate::upstream::{Resolver, Upstreams};
use files::{Files, Variants};
use observe::Metrics;
use plugin::WorkerPlace;
use snapshot::{Published, Reader, Snapshot};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use stdx::WorkerToken;

/// What workers are given besides their configuration.
#[derive(Clone)]
pub struct Context {
    /// Where snapshots are published.
    pub published: Arc<Published>,
    /// The process's metrics, of which the engine counts connections and requests.
    pub metrics: Arc<Metrics>,
}

/// What a worker is made of besides its configuration.
pub(crate) struct Parts {
    pub(crate) context: Context,
    pub(crate) resolver: Resolver,
    /// Compressed files, which workers share.
    pub(crate) variants: Arc<Variants>,
    /// The worker's number, from 0.
    pub(crate) number: usize,
    pub(crate) token: WorkerToken,
    pub(crate) services: Rc<dyn plugin::Services>,
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
    pub(crate) fn new(config: &EngineConfig, parts: Parts, this: &Weak<Self>) -> Self {
        let Parts { context, resolver, variants, number, token, services } = parts;
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
            services,
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
    pub(crate) fn reconfigure(&self, config: &EngineConfig) {
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
    pub(crate) fn start_plugins(&self) {
        let config = self.config();
        self.plugins.adopt(self.place(&config.gateway), || self.snapshot());
    }

    /// Ends what plugins have running, and hands over what was recorded.
    pub(crate) async fn end(&self) {
        self.plugins.end(self.place(&self.config().gateway)).await;
        self.flush_log();
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

    pub(crate) fn tick(&self) {
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
