//! A node as the balancers see it.

use model::resource::Scheme;

/// One node to balance over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node<'a> {
    /// The address or name that stands for the node. `chash` hashes it: APISIX puts the address here to which a name
    /// resolved, so a caller that wants its answers does the same. IPv6 with or without brackets.
    pub host: &'a str,
    /// The port, already filled in from the scheme where the configuration names none.
    pub port: u16,
    /// Share of requests; 0 takes none as long as a node of the same priority weighs more.
    pub weight: u32,
    /// Nodes of a lower priority are picked only when no higher one is left.
    pub priority: i32,
}

impl<'a> Node<'a> {
    /// The node as configured; `scheme` gives the port where it has none.
    #[must_use]
    pub fn configured(node: &'a model::resource::Node, scheme: Scheme) -> Self {
        Self {
            host: &node.host,
            port: node.port.unwrap_or_else(|| scheme.default_port()),
            weight: node.weight,
            priority: node.priority,
        }
    }

    /// What the node is recognised by.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity { host: self.host.into(), port: self.port, priority: self.priority }
    }
}

/// What a node is recognised by when the nodes of an upstream change. One address may stand in two priorities, and is
/// then two nodes, as in APISIX.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// [`Node::host`].
    pub host: Box<str>,
    /// [`Node::port`].
    pub port: u16,
    /// [`Node::priority`].
    pub priority: i32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_port_is_the_schemes() {
        let mut node =
            model::resource::Node { host: "a.example".into(), port: None, weight: 1, priority: -1 };
        assert_eq!(Node::configured(&node, Scheme::Http).port, 80);
        assert_eq!(Node::configured(&node, Scheme::Https).port, 443);
        node.port = Some(8080);
        let seen = Node::configured(&node, Scheme::Https);
        assert_eq!(seen, Node { host: "a.example", port: 8080, weight: 1, priority: -1 });
        assert_eq!(seen.identity(), Identity { host: "a.example".into(), port: 8080, priority: -1 });
    }
}
