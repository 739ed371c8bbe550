//! What is said of a config source whose contents are refused, and of their acceptance.

use serde::{Deserialize, Serialize};

use crate::Listing;

/// How much of a configuration there is, and where in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// The cluster's id; 0 where it is not known.
    pub cluster: u64,
    /// The revision.
    pub revision: u64,
    /// How many resources there are.
    pub resources: usize,
}

/// A refusal to follow what the config source holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Since when, in milliseconds since 1970.
    pub since_unix_ms: u64,
    /// Why.
    pub reason: String,
    /// What is served.
    pub serving: Facts,
    /// What the source holds instead.
    pub found: Facts,
    /// Whether the source answered when it was last asked.
    pub reachable: bool,
}

/// An operator's decision that a replaced store is the configuration from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acceptance {
    /// The cluster whose contents are accepted.
    pub cluster: u64,
    /// The revision at which they were accepted; what came later is accepted as well.
    pub revision: u64,
    /// When, in milliseconds since 1970.
    pub unix_ms: u64,
    /// Who accepted them.
    pub actor: Option<String>,
}

/// What an acceptance did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// What was served before.
    pub before: Facts,
    /// What the source held when it was accepted.
    pub now: Facts,
    /// Why the other nodes can't know of it; `None` where they do.
    pub not_shared: Option<String>,
}

impl Acceptance {
    /// Whether `found` is what was accepted, or came after it.
    pub(super) fn covers(&self, found: &Listing) -> bool {
        self.cluster == found.cluster && self.revision <= found.revision
    }
}
