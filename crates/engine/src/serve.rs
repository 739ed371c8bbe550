//! A worker's life: from its start, through changes of the configuration, to its end.

use crate::accept::Accepting;
use crate::clock::TICK;
use crate::config::{EngineConfig, Listen};
use crate::listen::{self, BindError, Listener};
use crate::services::WorkerServices;
use crate::sys::Ticker;
use crate::upstream::Resolver;
use crate::worker::{Context, Parts, Worker};
use files::Variants;
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
        let parts = Parts {
            context: context.clone(),
            resolver: resolver.clone(),
            variants: Arc::clone(variants),
            number: *number,
            token,
            services: Rc::new(WorkerServices::new(Weak::clone(this))),
        };
        Worker::new(config, parts, this)
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
                #[cfg(test)]
                crate::tests::fault::strike(&worker.config().server);
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
    worker.end().await;
    Ok(())
}
