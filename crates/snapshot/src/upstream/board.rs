//! What is known of the health of an upstream's nodes: shared by all workers and by what probes the nodes, and kept
//! across changes that leave a node and the checks as they are.

use super::{Checks, Node, NodeHost, Upstream};
use balance::health::{Event, Health, HealthCell};
use model::resource::PassHost;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The health of one upstream's nodes.
#[derive(Debug)]
pub struct Board {
    /// By node; nodes that are checked alike share one.
    nodes: Box<[Arc<Watched>]>,
    /// Counts the times that a node became usable or unusable. One for all boards of a resource, since its nodes may be
    /// reported on by requests that began under the board before.
    turns: Arc<AtomicU64>,
}

/// A node that is checked.
#[derive(Debug)]
pub struct Watched {
    /// The store key of the resource whose node it is: `/upstreams/1`.
    pub resource: Arc<str>,
    /// Where it is checked.
    pub target: CheckTarget,
    /// How it is checked.
    pub checks: Arc<Checks>,
    /// The certificate shown to it where it is probed over TLS.
    pub identity: Option<Arc<tls::Identity>>,
    cell: HealthCell,
    turns: Arc<AtomicU64>,
    /// Where its name led last; `None` for an address, and before the first probe.
    resolved: Mutex<Option<IpAddr>>,
}

/// Where a node is checked, and as whom: what makes it the same node after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckTarget {
    /// Where it is.
    pub host: NodeHost,
    /// The port probed.
    pub port: u16,
    /// The name given for probes (`checks.active.host`).
    pub name: Option<String>,
    /// The `Host` of probes and the name expected in the node's certificate.
    pub asked: String,
}

impl Board {
    /// The board of `upstream`, which `resource` defines; `None` where nothing is checked. What `before` knows of nodes
    /// that stay as they are is taken over.
    pub(crate) fn of(upstream: &Upstream, resource: &Arc<str>, before: Option<&Self>) -> Option<Self> {
        let checks = upstream.checks.as_ref()?;
        let turns = before.map_or_else(Arc::default, |before| Arc::clone(&before.turns));
        let identity = upstream.tls.as_ref().and_then(|tls| tls.identity.as_ref());
        let mut nodes: Vec<Arc<Watched>> = Vec::with_capacity(upstream.nodes.len());
        // A map would be larger than the search is slow up to some hundreds of nodes; beyond, a change of an upstream
        // with n checked nodes compares n² short texts: 1,000 nodes, 1,000,000 comparisons, 5 ms on the builder.
        for node in &upstream.nodes {
            let target = CheckTarget::of(node, upstream);
            let same = |watched: &&Arc<Watched>| {
                watched.target == target
                    && watched.checks == *checks
                    && watched.identity.as_ref() == identity
                    && watched.resource == *resource
            };
            let known = nodes.iter().find(same).or_else(|| before?.nodes.iter().find(same));
            let watched = known.map_or_else(
                || {
                    Arc::new(Watched {
                        resource: Arc::clone(resource),
                        target: target.clone(),
                        checks: Arc::clone(checks),
                        identity: identity.cloned(),
                        cell: HealthCell::default(),
                        turns: Arc::clone(&turns),
                        resolved: Mutex::default(),
                    })
                },
                Arc::clone,
            );
            nodes.push(watched);
        }
        Some(Self { nodes: nodes.into(), turns })
    }

    /// The nodes, in the upstream's order. Nodes that are checked alike are the same one.
    #[must_use]
    pub fn nodes(&self) -> &[Arc<Watched>] {
        &self.nodes
    }

    /// The nodes, each once.
    pub fn distinct(&self) -> impl Iterator<Item = &Arc<Watched>> {
        let first = |index: usize, node: &Arc<Watched>| {
            !self.nodes[..index].iter().any(|other| Arc::ptr_eq(other, node))
        };
        self.nodes.iter().enumerate().filter(move |(index, node)| first(*index, node)).map(|(_, node)| node)
    }

    /// How many times a node became usable or unusable: as long as this stays the same, so does
    /// [`Watched::health`]`.state.usable()` of each.
    #[must_use]
    #[inline]
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Acquire)
    }
}

impl Watched {
    /// The node's health now.
    #[must_use]
    pub fn health(&self) -> Health {
        self.cell.get()
    }

    /// Counts what a probe came to. The health before and after it, where it changed anything.
    pub fn probed(&self, event: Event) -> Option<(Health, Health)> {
        let thresholds = &self.checks.active.as_ref()?.thresholds;
        self.report(event, thresholds)
    }

    /// Counts what a client's request came to. The health before and after it, where it changed anything.
    pub fn served(&self, event: Event) -> Option<(Health, Health)> {
        self.report(event, &self.checks.passive.thresholds)
    }

    /// Where the node's name led last; its address where it has one.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        match &self.target.host {
            NodeHost::Ip(ip) => Some(*ip),
            NodeHost::Name(_) => *self.resolved.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Notes where the node's name led.
    pub fn resolved(&self, ip: IpAddr) {
        *self.resolved.lock().unwrap_or_else(PoisonError::into_inner) = Some(ip);
    }

    fn report(&self, event: Event, thresholds: &balance::health::Thresholds) -> Option<(Health, Health)> {
        let (before, after) = self.cell.report(event, thresholds)?;
        if before.state.usable() != after.state.usable() {
            // After the cell: who sees the new count sees the new state.
            self.turns.fetch_add(1, Ordering::Release);
        }
        Some((before, after))
    }
}

impl CheckTarget {
    fn of(node: &Node, upstream: &Upstream) -> Self {
        let active = upstream.checks.as_ref().and_then(|checks| checks.active.as_ref());
        let name = active.and_then(|active| active.host.clone());
        let shown = node.host.in_authority();
        // No client asked, so whom the node is for is told by the configuration alone: `upstream_host` where it is
        // pinned, else the node's own name, else the name given for checks.
        let pinned = upstream.upstream_host.as_ref().filter(|_| upstream.pass_host == PassHost::Rewrite);
        let own = matches!(node.host, NodeHost::Name(_)).then(|| shown.clone());
        let asked = pinned.cloned().or(own).or_else(|| name.clone()).unwrap_or(shown);
        let port = active.and_then(|active| active.port).unwrap_or(node.port);
        Self { host: node.host.clone(), port, name, asked }
    }
}

impl std::fmt::Display for CheckTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host.in_authority(), self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use balance::health::State;
    use serde_json::{Value, json};

    fn upstream(nodes: &Value, active: &Value) -> Upstream {
        let written = json!({ "nodes": nodes, "checks": { "active": active } });
        Upstream::compile(&serde_json::from_value(written).expect("an upstream")).expect("valid")
    }

    fn fail(watched: &Watched) {
        for _ in 0..2 {
            watched.probed(Event::TcpFailure);
        }
        assert_eq!(watched.health().state, State::Unhealthy);
    }

    fn states(board: &Board) -> Vec<bool> {
        board.nodes().iter().map(|node| node.health().state.usable()).collect()
    }

    #[test]
    fn nodes_that_stay_keep_their_health() {
        let first = upstream(&json!({ "10.0.0.1:80": 1, "10.0.0.2:80": 1 }), &json!({}));
        let board = Board::of(&first, &"/upstreams/1".into(), None).expect("checked");
        fail(&board.nodes()[0]);
        assert_eq!((states(&board), board.turns()), (vec![false, true], 1));
        let cases: &[(Value, Value, &[bool])] = &[
            (json!({ "10.0.0.1:80": 5, "10.0.0.3:80": 1 }), json!({}), &[false, true]),
            (json!({ "10.0.0.0:80": 1, "10.0.0.1:80": 1 }), json!({}), &[true, false]),
            (json!({ "10.0.0.1:81": 1 }), json!({}), &[true]),
            // Whoever changes the checks wants them to begin anew.
            (json!({ "10.0.0.1:80": 1 }), json!({ "http_path": "/other" }), &[true]),
            (json!({ "10.0.0.1:80": 1 }), json!({ "host": "a.example" }), &[true]),
        ];
        for (nodes, active, expected) in cases {
            let next =
                Board::of(&upstream(nodes, active), &"/upstreams/1".into(), Some(&board)).expect("checked");
            assert_eq!(states(&next), *expected, "{nodes} {active}");
        }
    }

    /// A request that began before a change tells all workers what it found.
    #[test]
    fn reports_on_the_board_before_are_seen_on_the_next() {
        let nodes = json!({ "10.0.0.1:80": 1 });
        let before = Board::of(&upstream(&nodes, &json!({})), &"/routes/1".into(), None).expect("checked");
        let wider = upstream(&json!({ "10.0.0.1:80": 1, "10.0.0.2:80": 1 }), &json!({}));
        let next = Board::of(&wider, &"/routes/1".into(), Some(&before)).expect("checked");
        let seen = next.turns();
        fail(&before.nodes()[0]);
        assert_eq!((next.turns(), states(&next)), (seen + 1, vec![false, true]));
    }

    #[test]
    fn nodes_that_are_checked_alike_are_one() {
        let node =
            |priority: i32| json!({ "host": "10.0.0.1", "port": 80, "weight": 1, "priority": priority });
        let twice = upstream(&json!([node(0), node(1)]), &json!({}));
        let board = Board::of(&twice, &"/upstreams/1".into(), None).expect("checked");
        assert_eq!((board.nodes().len(), board.distinct().count()), (2, 1));
    }

    #[test]
    fn probes_ask_for_whom_the_configuration_names() {
        let cases: &[(Value, &str, &str)] = &[
            (json!({ "nodes": { "10.0.0.1:81": 1 } }), "10.0.0.1:81", "10.0.0.1"),
            (json!({ "nodes": { "[::1]:81": 1 } }), "[::1]:81", "[::1]"),
            (json!({ "nodes": { "a.example:81": 1 } }), "a.example:81", "a.example"),
            (
                json!({ "nodes": { "10.0.0.1:81": 1 }, "pass_host": "rewrite", "upstream_host": "b.example" }),
                "10.0.0.1:81",
                "b.example",
            ),
        ];
        for (written, place, asked) in cases {
            let mut written = written.clone();
            written["checks"] = json!({ "active": {} });
            let upstream = Upstream::compile(&serde_json::from_value(written).expect("readable"));
            let board = Board::of(&upstream.expect("valid"), &"/upstreams/1".into(), None).expect("checked");
            let target = &board.nodes()[0].target;
            assert_eq!((target.to_string().as_str(), target.asked.as_str()), (*place, *asked));
        }
        let named = upstream(&json!({ "10.0.0.1:81": 1 }), &json!({ "host": "c.example", "port": 9 }));
        let board = Board::of(&named, &"/upstreams/1".into(), None).expect("checked");
        let target = &board.nodes()[0].target;
        assert_eq!((target.to_string().as_str(), target.asked.as_str()), ("10.0.0.1:9", "c.example"));
    }
}
