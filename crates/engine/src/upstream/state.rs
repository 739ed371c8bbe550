//! One upstream as one worker sees it: its nodes, whose turn it is, and what became of the requests.

use super::health::{self, Sight};
use super::outliers;
use super::pool::{AddrPool, Protocol};
use crate::error::ProxyError;
use balance::outlier::Outliers;
use balance::{Balancer, Outcome, Pick, RetryBudget};
use snapshot::{Keepalive, Upstream};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// What a worker knows of one upstream.
pub(crate) struct State {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) nodes: Vec<NodeState>,
    balancer: RefCell<Balancer>,
    /// Which nodes may be picked, where their health is checked.
    sight: Sight,
    /// Which nodes are put aside, where any may be.
    outliers: Option<RefCell<Outliers>>,
    /// Clients' requests so far.
    requests: Cell<u64>,
    budget: RefCell<RetryBudget>,
    /// What took this one's place, and is told how requests went that began here.
    heir: OnceCell<Rc<Self>>,
}

/// What became of a request to a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Served {
    /// The status that the node answered with; 0 where it has not.
    pub(crate) status: u16,
    /// Whether it ended the connection within its answer.
    pub(crate) broke_off: bool,
    /// Why the request failed, if it did.
    pub(crate) error: Option<ProxyError>,
    /// From asking the node to the end of its answer.
    pub(crate) latency: Duration,
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

impl State {
    /// What is known at first: nothing.
    pub(super) fn new(upstream: &Arc<Upstream>, nodes: Vec<NodeState>, seed: u64) -> Self {
        Self {
            upstream: Arc::clone(upstream),
            nodes,
            balancer: RefCell::new(upstream.balancer(seed)),
            sight: Sight::default(),
            outliers: upstream.outliers.map(|rules| RefCell::new(Outliers::new(rules, upstream.nodes.len()))),
            requests: Cell::new(0),
            budget: RefCell::default(),
            heir: OnceCell::new(),
        }
    }

    /// Takes over what `before`, the state of the same upstream before a change, knows of the nodes that stay.
    pub(super) fn inherit(&mut self, before: &Self) {
        let (balancer, old) = (self.balancer.get_mut(), before.balancer.borrow());
        let former = balancer.former(&old);
        balancer.inherit(&old, &former);
        if let (Some(outliers), Some(old)) = (&mut self.outliers, &before.outliers) {
            outliers.get_mut().inherit(&old.borrow(), &former);
        }
        self.requests.set(before.requests.get());
        self.budget.get_mut().clone_from(&before.budget.borrow());
    }

    /// Hears of its requests no more: `heir` has taken its place.
    pub(super) fn end(&self, heir: &Rc<Self>) {
        // It may have one already, from a request that began before the last but one change.
        let _ = self.heir.set(Rc::clone(heir));
    }

    /// Counts a client's request.
    #[inline]
    pub(crate) fn begin(&self) {
        self.requests.set(self.requests.get() + 1);
    }

    /// The node to ask, `tried` ones left out.
    #[inline]
    pub(crate) fn pick(&self, key: &[u8], now_ms: u64, tried: &[usize]) -> Option<usize> {
        let pick = Pick { key, now_ms, tried, usable: None };
        if self.upstream.shared.board.is_some() || self.outliers.is_some() {
            return self.pick_usable(&pick);
        }
        self.balancer.borrow_mut().pick(&pick)
    }

    /// The same among the nodes that are healthy and not put aside. One that is put aside serves before one that is
    /// unhealthy does.
    #[inline(never)]
    fn pick_usable(&self, pick: &Pick<'_>) -> Option<usize> {
        if let Some(outliers) = &self.outliers
            && let outliers = outliers.borrow()
            && !outliers.all_usable(pick.now_ms)
        {
            let in_place = |node| outliers.usable(node, pick.now_ms);
            if let Some(node) = self.pick_healthy(&Pick { usable: Some(&in_place), ..*pick }) {
                return Some(node);
            }
        }
        let picked = self.pick_healthy(pick).or_else(|| self.pick_weightless(pick.tried));
        picked.or_else(|| pick.tried.is_empty().then(|| self.balancer.borrow_mut().pick(pick)).flatten())
    }

    /// The same among those of the nodes asked for that are healthy.
    fn pick_healthy(&self, pick: &Pick<'_>) -> Option<usize> {
        let mut balancer = self.balancer.borrow_mut();
        let Some(board) = &self.upstream.shared.board else { return balancer.pick(pick) };
        self.sight.pick(board, |healthy| match (healthy, pick.usable) {
            (Some(healthy), Some(usable)) => {
                balancer.pick(&Pick { usable: Some(&|node| healthy(node) && usable(node)), ..*pick })
            }
            (one, other) => balancer.pick(&Pick { usable: one.or(other), ..*pick }),
        })
    }

    /// A node for the time in which no healthy one has a weight: these in turn, as in APISIX, whose balancers see the
    /// healthy nodes alone.
    #[cold]
    fn pick_weightless(&self, tried: &[usize]) -> Option<usize> {
        self.upstream.shared.board.as_ref()?;
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

    /// Takes in how a request went for which `node` was picked.
    #[inline]
    pub(crate) fn finished(&self, node: usize, served: &Served, now_ms: u64) {
        if let Some(watched) = self.upstream.shared.board.as_ref().and_then(|board| board.nodes().get(node)) {
            health::served(watched, served);
        }
        if self.heir.get().is_some() {
            return self.finished_by_heir(node, served, now_ms);
        }
        let outcome = Outcome { latency: served.latency, failed: served.error.is_some() };
        self.balancer.borrow_mut().finished(node, outcome, now_ms);
        if let Some(outliers) = &self.outliers {
            let ejection = outliers::finished(&mut outliers.borrow_mut(), node, served, now_ms);
            if let Some(ejection) = ejection {
                outliers::tell(self, ejection, now_ms);
            }
        }
    }

    /// Tells whoever knows of the node now.
    #[cold]
    fn finished_by_heir(&self, node: usize, served: &Served, now_ms: u64) {
        let balancer = self.balancer.borrow();
        let (Some(heir), Some(identity)) = (self.heir.get(), balancer.identity(node)) else { return };
        let outcome = Outcome { latency: served.latency, failed: served.error.is_some() };
        let (mut state, mut index) = (heir, heir.balancer.borrow().index_of(identity));
        while let Some(next) = state.heir.get() {
            (state, index) = (next, next.balancer.borrow().index_of(identity));
        }
        if let Some(node) = index {
            state.balancer.borrow_mut().finished(node, outcome, now_ms);
        }
    }

    /// Takes one retry from those that the upstream's requests may have; whether there was one.
    pub(crate) fn may_send_again(&self, now_ms: u64) -> bool {
        self.budget.borrow_mut().retry(self.requests.get(), now_ms)
    }
}
