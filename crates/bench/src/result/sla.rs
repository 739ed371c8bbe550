//! The search for the highest load that still meets the conditions: every probe, and what came of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::LatencyMs;

/// A search and its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sla {
    /// The conditions as they were written: `p99<=5ms`, `errors=0`. All must hold.
    pub conditions: Vec<String>,
    /// What was varied.
    pub over: SlaOver,
    /// Every probe, in the order in which they ran.
    pub probes: Vec<Probe>,
    /// What came of it.
    pub verdict: Verdict,
}

/// What a search varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlaOver {
    /// Requests a second in an open loop.
    Rate,
    /// Connections in a closed loop.
    Connections,
}

/// One try at one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// The step of the search that it belongs to.
    pub phase: Phase,
    /// The load: requests a second or connections, as [`Sla::over`] says.
    pub load: f64,
    /// Answers a second that came of it.
    pub requests_per_second: f64,
    /// Whether every condition held.
    pub met: bool,
    /// What each condition looked at, by condition, in the condition's own unit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub observed: BTreeMap<String, f64>,
    /// Its latency: response time in an open loop, service time in a closed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<LatencyMs>,
    /// Why the client, not the server, was the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_limit: Option<String>,
}

/// The steps of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// What the server gives without any condition.
    Ceiling,
    /// Growing until a condition breaks.
    Rise,
    /// Halving the distance between a load that held and one that did not.
    Bisect,
    /// Fresh runs at the load found; these are the series' runs too.
    Confirm,
}

/// What came of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether any load met the conditions and was confirmed.
    pub met: bool,
    /// The highest load that did, in the unit of [`Sla::over`]; 0 if none did.
    pub load: f64,
    /// Answers a second at that load, the median of the confirming runs.
    pub requests_per_second: f64,
    /// Confirming runs that held.
    pub confirmed: u32,
    /// One sentence for people.
    pub message: String,
}
