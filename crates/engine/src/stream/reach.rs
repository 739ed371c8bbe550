//! From an upstream to a node that takes the session.

use crate::error::{ErrorKind, ProxyError, Side};
use crate::timer::Timer;
use crate::upstream::{AddrPool, NodeState, Served, State, discovered_form, pool_of};
use crate::worker::Worker;
use plugin::Session;
use snapshot::Upstream;
use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::Moment;

/// A node that a session goes to; counted as busy until it is dropped.
pub(super) struct Reached<'w, T> {
    /// What leads there.
    pub(super) way: T,
    worker: &'w Worker,
    state: Rc<State>,
    node: usize,
    latency: Duration,
    error: Cell<Option<ProxyError>>,
}

impl<T> Reached<'_, T> {
    /// The node did not serve the session.
    pub(super) fn failed(&self, error: ProxyError) {
        self.error.set(Some(error));
    }
}

impl<T> Drop for Reached<'_, T> {
    fn drop(&mut self) {
        let served = served(self.error.get(), self.latency);
        self.state.finished(self.node, &served, self.worker.clock.now_ms());
    }
}

fn served(error: Option<ProxyError>, latency: Duration) -> Served {
    Served { status: 0, broke_off: false, error, latency }
}

/// Tries nodes of `upstream` until `open` makes a way to one. Nothing of the client's was sent to those that failed, so
/// any may be followed by another.
///
/// # Errors
/// What the last node did, where no further one may be tried.
pub(super) async fn reach<'w, T>(
    worker: &'w Worker,
    upstream: &Arc<Upstream>,
    session: &mut Session<'_>,
    timer: &Timer,
    open: impl AsyncFn(Rc<AddrPool>) -> Result<T, ProxyError>,
) -> Result<Reached<'w, T>, ProxyError> {
    let discovered = match &upstream.discovered {
        None => None,
        Some(discovered) => discovered_form(discovered, timer.within(upstream.timeouts.connect)).await,
    };
    let upstream = discovered.as_ref().unwrap_or(upstream);
    let state = worker.upstreams.state(upstream);
    state.begin();
    session.upstream.scheme = upstream.scheme.as_str();
    let (mut tried, mut tried_at) = (Vec::new(), Vec::new());
    let mut tries = 0;
    let mut last = ProxyError::new(Side::Upstream, ErrorKind::NoNode, "no valid upstream node");
    loop {
        let picked = state.pick(&upstream.hashed(&*session), worker.clock.now_ms(), &tried);
        let Some(node) = picked else { return Err(last) };
        let begun = Moment::now();
        let names = NameLimit { timer, timeout: upstream.timeouts.connect };
        let error = match way(worker, &state.nodes[node], &mut tried_at, session, names, &open).await {
            Ok(way) => {
                let latency = begun.elapsed();
                session.upstream.time = Some(latency);
                return Ok(Reached { way, worker, state, node, latency, error: Cell::new(None) });
            }
            Err(error) => error,
        };
        state.finished(node, &served(Some(error), begun.elapsed()), worker.clock.now_ms());
        tracing::error!(upstream = session.upstream.addr(), client = %session.client.addr, "{}", error.reason);
        if !error.retry || !upstream.may_retry(tries, session.started.elapsed()) {
            return Err(error);
        }
        tries += 1;
        last = error;
        // A lone node is asked again, as with requests.
        if state.nodes.len() > 1 {
            tried.push(node);
        }
    }
}

/// How long a name may take to be resolved.
struct NameLimit<'n> {
    timer: &'n Timer,
    timeout: Duration,
}

async fn way<T>(
    worker: &Worker,
    node: &NodeState,
    tried_at: &mut Vec<IpAddr>,
    session: &mut Session<'_>,
    names: NameLimit<'_>,
    open: &impl AsyncFn(Rc<AddrPool>) -> Result<T, ProxyError>,
) -> Result<T, ProxyError> {
    let pool = pool_of(&worker.upstreams, &node.target, tried_at, names.timer, names.timeout).await?;
    session.upstream.addr = Some(Rc::clone(&pool.text));
    session.upstream.ip_len = pool.ip_len;
    session.upstream.node = Some(Rc::clone(&node.authority));
    open(pool).await
}
