//! Starting and stopping the workers.

use crate::config::{EngineConfig, Listen};
use crate::listen::{self, BindError, Listener};
use crate::serve::{self, Order, Phase};
use crate::supervise;
use crate::upstream::{Prober, Resolver};
use crate::worker::Context;
use files::Variants;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// An engine that has its ports and serves nothing yet.
#[derive(Debug)]
pub struct Bound {
    config: Arc<EngineConfig>,
    listeners: Vec<Vec<Listener>>,
}

/// Another set of addresses, of which those that are new are taken and serve nothing yet.
#[derive(Debug)]
pub struct Ports {
    listen: Vec<Listen>,
    /// For each worker.
    added: Vec<Vec<Listener>>,
}

/// A running engine.
#[derive(Debug)]
pub struct Engine {
    listen: Vec<Listen>,
    phase: watch::Sender<Phase>,
    workers: Vec<JoinHandle<()>>,
    orders: Vec<mpsc::UnboundedSender<Order>>,
    prober: Prober,
    resolver: Option<JoinHandle<()>>,
}

impl Bound {
    /// Takes the ports.
    ///
    /// # Errors
    /// The first address that can't be had, with the process that has it where that can be known. No port is kept
    /// then.
    pub fn new(config: EngineConfig) -> Result<Self, BindError> {
        let listeners = listen::bind(&config.listen, &[], config.workers.max(1))?;
        Ok(Self { config: Arc::new(config), listeners })
    }

    /// The addresses taken, ports chosen by the kernel included.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.first().into_iter().flatten().map(|listener| listener.address).collect()
    }

    /// Starts the workers.
    ///
    /// # Errors
    /// When a thread or an event loop can't be had; those started before are stopped again.
    pub fn start(self, context: &Context) -> std::io::Result<Engine> {
        let (phase, watch) = watch::channel(Phase::Serving);
        let (resolver, resolver_thread) = Resolver::start(&self.config.names)?;
        let variants = Arc::new(Variants::default());
        let prober = Prober::start(&context.published, &resolver, &self.config)?;
        let mut engine = Engine {
            listen: self.config.listen.clone(),
            phase,
            workers: Vec::new(),
            orders: Vec::new(),
            prober,
            resolver: Some(resolver_thread),
        };
        for (number, listeners) in self.listeners.into_iter().enumerate() {
            let (order, orders) = mpsc::unbounded_channel();
            let start = serve::Start {
                number,
                config: Arc::clone(&self.config),
                orders,
                context: context.clone(),
                addresses: listeners.iter().map(|listener| (listener.listen, listener.address)).collect(),
                listeners,
                phase: watch.clone(),
                resolver: resolver.clone(),
                variants: Arc::clone(&variants),
            };
            let cores = &self.config.cores;
            let core = number.checked_rem(cores.len()).and_then(|at| cores.get(at)).copied();
            let thread = std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
                core.into_iter().for_each(pin);
                supervise::run(start);
            })?;
            engine.workers.push(thread);
            engine.orders.push(order);
        }
        Ok(engine)
    }
}

/// Has this thread run on one core alone. Where the kernel refuses, it stays where it is.
fn pin(core: usize) {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(core);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &cores) {
        tracing::warn!(core, %error, "a worker can't be pinned to its core");
    }
}

impl Engine {
    /// Takes those ports of `listen` that the engine doesn't have yet, for [`Engine::reconfigure`].
    ///
    /// # Errors
    /// The first address that can't be had, with the process that has it where that can be known. The engine serves
    /// what it did.
    pub fn take_ports(&self, listen: &[Listen]) -> Result<Ports, BindError> {
        let added = listen::bind(listen, &self.listen, self.workers.len())?;
        Ok(Ports { listen: listen.to_vec(), added })
    }

    /// Puts another configuration in force, and returns when it is on every worker: requests that begin later are
    /// served by it, those under way end under the one they began with. Connections stay, also those of ports that are
    /// listened on no more. The number of workers stays as well.
    pub async fn reconfigure(&mut self, config: EngineConfig, ports: Ports) {
        let config = Arc::new(config);
        self.prober.reconfigure(&config);
        self.listen = ports.listen;
        let mut waiting = Vec::new();
        for (orders, added) in self.orders.iter().zip(ports.added) {
            let (done, wait) = oneshot::channel();
            let listen = self.listen.clone();
            // A worker that has ended serves nothing that the configuration could be about.
            if orders.send(Order { config: Arc::clone(&config), listen, added, done }).is_ok() {
                waiting.push(wait);
            }
        }
        for wait in waiting {
            let _ = wait.await;
        }
    }

    /// Stops accepting, lets exchanges in flight end for at most `patience`, and ends the workers. Blocks until then.
    pub fn drain(self, patience: Duration) {
        self.end(Phase::Draining(patience));
    }

    /// Ends the workers at once.
    pub fn stop(self) {
        self.end(Phase::Stopped);
    }

    fn end(mut self, phase: Phase) {
        self.phase.send_replace(phase);
        for worker in self.workers.drain(..) {
            if worker.join().is_err() {
                tracing::error!("a worker ended by a panic");
            }
        }
        self.prober.stop();
        drop(self.resolver.take());
    }
}
