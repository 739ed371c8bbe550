//! Active health checks: a thread of its own probes the nodes of every upstream in the snapshot that asks for it.
//!
//! Away from the workers, so that a probe waits for no request and costs none, and away from the control plane, so that
//! the building of a large configuration makes no node look slow. What it finds out goes into the nodes' shared words.

use super::health::tell;
use super::probe;
use super::resolve::Resolver;
use crate::config::EngineConfig;
use snapshot::{ActiveChecks, Published, Snapshot, Upstream, Watched};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle as Task;
use tokio::time::Instant;

/// How long the first probes of one upstream's nodes are spread over, so that a thousand nodes are not a thousand
/// connections at once; well within the shortest interval.
const SPREAD: Duration = Duration::from_millis(200);

/// The thread that probes; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Prober {
    config: watch::Sender<Arc<EngineConfig>>,
    thread: Option<JoinHandle<()>>,
}

impl Prober {
    /// Starts it.
    ///
    /// # Errors
    /// When a thread or an event loop can't be had.
    pub(crate) fn start(
        published: &Arc<Published>,
        resolver: &Resolver,
        config: &Arc<EngineConfig>,
    ) -> io::Result<Self> {
        let (sender, receiver) = watch::channel(Arc::clone(config));
        let (published, resolver) = (Arc::clone(published), resolver.clone());
        let thread = std::thread::Builder::new().name("health".to_owned()).spawn(move || {
            // Nodes stay as healthy as they were where there is no event loop.
            match Builder::new_current_thread().enable_all().build_local(LocalOptions::default()) {
                Ok(runtime) => runtime.block_on(follow(published, resolver, receiver)),
                Err(error) => tracing::error!(%error, "no health is checked: no event loop can be had"),
            }
        })?;
        Ok(Self { config: sender, thread: Some(thread) })
    }

    /// Probes by another configuration from now on.
    pub(crate) fn reconfigure(&self, config: &Arc<EngineConfig>) {
        self.config.send_replace(Arc::clone(config));
    }

    /// Ends it, and waits until it has.
    pub(crate) fn stop(self) {
        drop(self.config);
        if self.thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that checks health ended by a panic");
        }
    }
}

/// What all probes use.
struct Shared {
    resolver: Resolver,
    tls: RefCell<Arc<tls::Upstreams>>,
}

/// The probes of one resource's nodes.
struct Running {
    upstream: Arc<Upstream>,
    nodes: Vec<(Arc<Watched>, Task<()>)>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.nodes.iter().for_each(|(_, task)| task.abort());
    }
}

/// Keeps the probes to what the snapshot asks for.
async fn follow(
    published: Arc<Published>,
    resolver: Resolver,
    mut config: watch::Receiver<Arc<EngineConfig>>,
) {
    let tls = Arc::clone(&config.borrow_and_update().upstream_tls);
    let shared = Rc::new(Shared { resolver, tls: RefCell::new(tls) });
    let mut applied = published.applied();
    let mut running = HashMap::new();
    loop {
        applied.mark_unchanged();
        reconcile(&mut running, &published.current(), &shared);
        tokio::select! {
            changed = config.changed() => {
                if changed.is_err() {
                    return;
                }
                let tls = Arc::clone(&config.borrow_and_update().upstream_tls);
                *shared.tls.borrow_mut() = tls;
            }
            changed = applied.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}

fn reconcile(running: &mut HashMap<Arc<str>, Running>, snapshot: &Snapshot, shared: &Rc<Shared>) {
    running.retain(|key, _| snapshot.checked.get(key).is_some());
    for (key, upstream) in snapshot.checked.iter() {
        let (known, upstream) = (running.get(key), upstream.latest());
        if known.is_some_and(|known| Arc::ptr_eq(&known.upstream, &upstream)) {
            continue;
        }
        let fresh = start(&upstream, running.remove(key), shared);
        running.insert(Arc::clone(key), fresh);
    }
}

/// Probes the nodes of `upstream`; those that `before` probes already go on at their pace.
fn start(upstream: &Arc<Upstream>, before: Option<Running>, shared: &Rc<Shared>) -> Running {
    let mut left = before.map(|mut before| std::mem::take(&mut before.nodes)).unwrap_or_default();
    let mut nodes = Vec::new();
    let active = upstream.checks.as_ref().and_then(|checks| checks.active.as_ref());
    if let (Some(board), Some(active)) = (&upstream.shared.board, active) {
        let slots = Rc::new(Semaphore::new(active.concurrency));
        let count = u32::try_from(board.nodes().len()).unwrap_or(u32::MAX).max(1);
        for (node, number) in board.distinct().zip(0..) {
            let kept = left.iter().position(|(known, _)| Arc::ptr_eq(known, node));
            nodes.push(kept.map(|at| left.swap_remove(at)).unwrap_or_else(|| {
                let probing =
                    probe_on(Arc::clone(node), Rc::clone(&slots), SPREAD / count * number, Rc::clone(shared));
                (Arc::clone(node), tokio::task::spawn_local(probing))
            }));
        }
    }
    left.iter().for_each(|(_, task)| task.abort());
    Running { upstream: Arc::clone(upstream), nodes }
}

/// Probes one node until it is told to end, `slots` probes of its upstream at once.
async fn probe_on(node: Arc<Watched>, slots: Rc<Semaphore>, first_after: Duration, shared: Rc<Shared>) {
    let Some(active) = &node.checks.active else { return };
    tokio::time::sleep(first_after).await;
    loop {
        let began = Instant::now();
        if active.interval(node.health().state.usable()).is_some() {
            probe_once(&node, active, &slots, &shared).await;
        }
        if !until_due(&node, active, began).await {
            return;
        }
    }
}

async fn probe_once(node: &Arc<Watched>, active: &ActiveChecks, slots: &Semaphore, shared: &Shared) {
    // Closed by nobody.
    let Ok(_slot) = slots.acquire().await else { return };
    let tls = Arc::clone(&shared.tls.borrow());
    match probe::run(node, active, &shared.resolver, &tls).await {
        Ok(Some(event)) => tell(node, "a probe", node.probed(event)),
        Ok(None) => {}
        Err((event, why)) => {
            let change = node.probed(event);
            // One line a change: a node that is down for a day is not a line a second.
            if change.is_some() {
                let resource = &*node.resource;
                tracing::warn!(upstream = resource, node = %node.target, "a health check failed: {why}");
            }
            tell(node, "a probe", change);
        }
    }
}

/// Waits until the next probe is due; `false` where none ever is. Requests may turn the node over meanwhile, and with
/// it the interval that counts, so it is looked at again after the shorter one.
async fn until_due(node: &Watched, active: &ActiveChecks, began: Instant) -> bool {
    let intervals = [active.healthy_interval, active.unhealthy_interval];
    let Some(step) = intervals.into_iter().flatten().min() else { return false };
    loop {
        let due = active.interval(node.health().state.usable()).map(|interval| began + interval);
        let now = Instant::now();
        match due {
            Some(due) if due <= now => return true,
            Some(due) => tokio::time::sleep_until(due.min(now + step)).await,
            None => tokio::time::sleep(step).await,
        }
    }
}
