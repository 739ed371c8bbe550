//! Upstreams as one worker sees them: balancer state, idle connections, names and their addresses.

mod connect;
mod health;
mod multiplexed;
mod pool;
mod probe;
mod prober;
mod resolve;
mod secure;

pub(crate) use connect::{Connection, connect, pool_of};
pub(crate) use pool::{AddrPool, Pools, Protocol};
pub(crate) use prober::Prober;
pub(crate) use resolve::{Names, Resolver};
pub(crate) use secure::pool as secure_pool;

use crate::config::EngineConfig;
use crate::error::ProxyError;
use balance::{Balancer, Outcome, Pick, RetryBudget};
use health::Sight;
use secure::Configs;
use snapshot::{Keepalive, NodeHost, Upstream};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;
use std::sync::Arc;

/// What a worker knows of all upstreams it was asked for.
pub(crate) struct Upstreams {
    states: RefCell<HashMap<u64, Rc<State>, BuildHasherDefault<UidHasher>>>,
    pools: Pools,
    pub(crate) names: Names,
    /// Of upstreams that have no setting of their own.
    keepalive: Cell<Keepalive>,
    /// What TLS is spoken.
    tls: RefCell<Arc<tls::Upstreams>>,
    configs: Configs,
    /// Differs between workers, so that they don't all start with the same node.
    seed: u64,
}

/// What a worker knows of one upstream.
pub(crate) struct State {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) nodes: Vec<NodeState>,
    balancer: RefCell<Balancer>,
    /// Which nodes may be picked, where their health is checked.
    sight: Sight,
    /// Clients' requests so far.
    requests: Cell<u64>,
    budget: RefCell<RetryBudget>,
}

/// What a worker knows of one node.
pub(crate) struct NodeState {
    /// The `Host` of `pass_host: node`.
    pub(crate) authority: Rc<str>,
    pub(crate) target: Target,
}

/// Where a node's connections are.
pub(crate) enum Target {
    /// At a fixed address.
    Addr(Rc<AddrPool>),
    /// At the addresses of a name.
    Name { name: String, port: u16, keepalive: Keepalive, protocol: Protocol },
}

impl Upstreams {
    pub(crate) fn new(resolver: Resolver, config: &EngineConfig, seed: u64) -> Self {
        Self {
            states: RefCell::default(),
            pools: Pools::default(),
            names: Names::new(resolver),
            keepalive: Cell::new(config.keepalive),
            tls: RefCell::new(Arc::clone(&config.upstream_tls)),
            configs: Configs::default(),
            seed,
        }
    }

    /// The state of `upstream`, made at its first request.
    #[inline]
    pub(crate) fn state(&self, upstream: &Arc<Upstream>) -> Rc<State> {
        if let Some(state) = self.states.borrow().get(&upstream.uid) {
            return Rc::clone(state);
        }
        let state = Rc::new(self.make(upstream));
        self.states.borrow_mut().insert(upstream.uid, Rc::clone(&state));
        state
    }

    fn make(&self, upstream: &Arc<Upstream>) -> State {
        let keepalive = upstream.keepalive.unwrap_or(self.keepalive.get());
        let protocol = if upstream.scheme.is_http2() { Protocol::Http2 } else { Protocol::Http1 };
        let nodes = upstream.nodes.iter().map(|node| {
            let port = node.port;
            let target = match &node.host {
                NodeHost::Ip(ip) => {
                    Target::Addr(self.pools.at((*ip, port).into(), keepalive, None, protocol))
                }
                NodeHost::Name(name) => Target::Name { name: name.clone(), port, keepalive, protocol },
            };
            NodeState { authority: (*node.authority).into(), target }
        });
        State {
            upstream: Arc::clone(upstream),
            nodes: nodes.collect(),
            balancer: RefCell::new(upstream.balancer(self.seed)),
            sight: Sight::default(),
            requests: Cell::new(0),
            budget: RefCell::default(),
        }
    }

    /// Keeps connections by the rules of `config` from now on, where an upstream has none of its own. Those that idle
    /// in pools of the rules before stay there until they are too old. New connections trust whom `config` trusts.
    pub(crate) fn reconfigure(&self, config: &EngineConfig) {
        *self.tls.borrow_mut() = Arc::clone(&config.upstream_tls);
        self.configs.clear();
        if self.keepalive.replace(config.keepalive) != config.keepalive {
            // Made anew with the next request; balancing starts from the beginning.
            self.states.borrow_mut().retain(|_, state| state.upstream.keepalive.is_some());
        }
    }

    /// The pool of one resolved address.
    pub(crate) fn pool(
        &self,
        address: std::net::SocketAddr,
        keepalive: Keepalive,
        protocol: Protocol,
    ) -> Rc<AddrPool> {
        self.pools.at(address, keepalive, None, protocol)
    }

    fn tls(&self) -> Arc<tls::Upstreams> {
        Arc::clone(&self.tls.borrow())
    }

    /// Lets go of what is no longer used. Called with every tick.
    pub(crate) fn sweep(&self, now_ms: u64) {
        self.pools.sweep(now_ms);
        self.configs.sweep();
        // Only this worker's own count left: no snapshot in use has the upstream any more.
        self.states
            .borrow_mut()
            .retain(|_, state| Arc::strong_count(&state.upstream) > 1 || Rc::strong_count(state) > 1);
    }
}

impl State {
    /// Counts a client's request.
    #[inline]
    pub(crate) fn begin(&self) {
        self.requests.set(self.requests.get() + 1);
    }

    /// The node to ask, `tried` ones left out.
    #[inline]
    pub(crate) fn pick(&self, key: &[u8], now_ms: u64, tried: &[usize]) -> Option<usize> {
        let pick = Pick { key, now_ms, tried, usable: None };
        if self.upstream.shared.board.is_some() {
            return self.pick_healthy(&pick);
        }
        self.balancer.borrow_mut().pick(&pick)
    }

    /// The same among the healthy nodes.
    #[inline(never)]
    fn pick_healthy(&self, pick: &Pick<'_>) -> Option<usize> {
        let board = self.upstream.shared.board.as_ref()?;
        let mut balancer = self.balancer.borrow_mut();
        let picked = self.sight.pick(board, |usable| balancer.pick(&Pick { usable, ..*pick }));
        let picked = picked.or_else(|| self.pick_weightless(pick.tried));
        picked.or_else(|| pick.tried.is_empty().then(|| balancer.pick(pick)).flatten())
    }

    /// A node for the time in which no healthy one has a weight: these in turn, as in APISIX, whose balancers see the
    /// healthy nodes alone.
    #[cold]
    fn pick_weightless(&self, tried: &[usize]) -> Option<usize> {
        let nodes = &self.upstream.nodes;
        let healthy: Vec<usize> = (0..nodes.len()).filter(|&node| self.sight.allows(node)).collect();
        if healthy.iter().any(|&node| nodes[node].weight > 0) {
            return None;
        }
        let highest = healthy.iter().map(|&node| nodes[node].priority).max()?;
        let open = |node: &usize| nodes[*node].priority == highest && !tried.contains(node);
        let open: Vec<usize> = healthy.into_iter().filter(open).collect();
        let turn = usize::try_from(self.requests.get()).unwrap_or_default();
        open.get(turn % open.len().max(1)).copied()
    }

    /// Tells the balancer how it went.
    #[inline]
    pub(crate) fn finished(&self, node: usize, outcome: Outcome, now_ms: u64) {
        self.balancer.borrow_mut().finished(node, outcome, now_ms);
    }

    /// Tells the health checks how it went, where there are any: the `status` that the node answered with, or why it
    /// did not. `broke_off` says that it ended the connection within its answer.
    #[inline]
    pub(crate) fn served(&self, node: usize, status: u16, broke_off: bool, error: Option<ProxyError>) {
        if let Some(watched) = self.upstream.shared.board.as_ref().and_then(|board| board.nodes().get(node)) {
            health::served(watched, status, broke_off, error);
        }
    }

    /// Takes one retry from those that the upstream's requests may have; whether there was one.
    pub(crate) fn may_send_again(&self, now_ms: u64) -> bool {
        self.budget.borrow_mut().retry(self.requests.get(), now_ms)
    }
}

/// Upstream uids are unique numbers already: spreading their bits is all a table needs.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct UidHasher(u64);

impl Hasher for UidHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, uid: u64) {
        // Fibonacci hashing: 2^64 divided by the golden ratio.
        self.0 = (self.0 ^ uid).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
