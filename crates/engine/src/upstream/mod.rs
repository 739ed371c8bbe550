//! Upstreams as one worker sees them: balancer state, idle connections, names and their addresses.

mod connect;
mod discovered;
mod health;
mod multiplexed;
mod names;
mod outliers;
mod pool;
mod probe;
mod prober;
mod pulse;
mod resolve;
mod secure;
mod state;

pub(crate) use connect::{Connection, connect, open_after, pool_of};
pub(crate) use discovered::form as discovered_form;
pub(crate) use multiplexed::REFUSALS_MAX;
pub(crate) use names::Names;
pub(crate) use pool::{AddrPool, Pools, Protocol};
pub(crate) use prober::Prober;
pub(crate) use pulse::Pulse;
pub(crate) use resolve::Resolver;
pub(crate) use secure::pool as secure_pool;
pub(crate) use state::{NodeState, Served, State, Target};

use crate::config::EngineConfig;
use model::resource::Scheme;
use secure::Configs;
use snapshot::{Keepalive, NodeHost, Upstream};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;
use std::sync::Arc;

/// What a worker knows of all upstreams it was asked for.
pub(crate) struct Upstreams {
    /// By line.
    states: RefCell<HashMap<u64, Rc<State>, BuildHasherDefault<LineHasher>>>,
    pools: Pools,
    pub(crate) names: Names,
    /// Of upstreams that have no setting of their own.
    keepalive: Cell<Keepalive>,
    /// What TLS is spoken.
    tls: RefCell<Arc<tls::Upstreams>>,
    configs: Configs,
    /// How often what is trusted has changed. Connections were verified by the trust of their time: they are part of
    /// pools of that generation alone.
    trust: Cell<u64>,
    /// Differs between workers, so that they don't all start with the same node.
    seed: u64,
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
            trust: Cell::new(0),
            seed,
        }
    }

    /// The state of `upstream`, made at the first request after each change with what was known before it. A request
    /// that began before a change which others have seen already goes where they go.
    #[inline]
    pub(crate) fn state(&self, upstream: &Arc<Upstream>) -> Rc<State> {
        let states = self.states.borrow();
        match states.get(&upstream.line()) {
            Some(state) if state.upstream.uid >= upstream.uid => Rc::clone(state),
            before => {
                let before = before.cloned();
                drop(states);
                self.succeed(before, upstream)
            }
        }
    }

    #[inline(never)]
    fn succeed(&self, before: Option<Rc<State>>, upstream: &Arc<Upstream>) -> Rc<State> {
        let mut state = self.make(upstream);
        if let Some(before) = &before {
            state.inherit(before);
        }
        let state = Rc::new(state);
        if let Some(before) = before {
            before.end(&state);
        }
        self.states.borrow_mut().insert(upstream.line(), Rc::clone(&state));
        state
    }

    fn make(&self, upstream: &Arc<Upstream>) -> State {
        let keepalive = upstream.keepalive.unwrap_or(self.keepalive.get());
        let protocol = match upstream.scheme {
            scheme if scheme.is_http2() => Protocol::Http2,
            Scheme::Tcp | Scheme::Tls | Scheme::Udp => Protocol::Opaque,
            _ => Protocol::Http1,
        };
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
        State::new(upstream, nodes.collect(), self.seed)
    }

    /// Keeps connections by the rules of `config` from now on, where an upstream has none of its own. Those that idle
    /// in pools of the rules before stay there until they are too old. Requests from now on reach upstreams that `config`
    /// trusts: connections to others carry the requests under way, and no further ones.
    pub(crate) fn reconfigure(&self, config: &EngineConfig) {
        if !self.tls.borrow().trusts_as(&config.upstream_tls) {
            *self.tls.borrow_mut() = Arc::clone(&config.upstream_tls);
            self.configs.clear();
            self.trust.set(self.trust.get() + 1);
            self.pools.keep_trusted(self.trust.get());
        }
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
        // Only this worker's own count left: no snapshot in use has the upstream any more, nor what came after it.
        self.states
            .borrow_mut()
            .retain(|_, state| !state.upstream.is_last_of_its_line() || Rc::strong_count(state) > 1);
    }
}

/// The names of lines are unique numbers already: spreading their bits is all a table needs.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct LineHasher(u64);

impl Hasher for LineHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, line: u64) {
        // Fibonacci hashing: 2^64 divided by the golden ratio.
        self.0 = (self.0 ^ line).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
