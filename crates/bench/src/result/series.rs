//! One server in one scenario, and all that was measured of it.

use serde::{Deserialize, Serialize};

use super::{Histogram, Published, Run, Sla};
use crate::stats;

/// One server in one scenario. A report compares series of the same scenario and chooses the baseline by `name`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What a table calls it: `tidegate`, `nginx`, `T2A`. Not empty.
    pub name: String,
    /// `single-upstream`, `two-plugins`, `static-tls`; nothing for a plain `tidegate bench URL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// What was asked.
    #[serde(default)]
    pub target: Target,
    /// The repeated runs, in the order in which they ran. A run that only looked for a load is a probe of `sla` instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<Run>,
    /// The search for the highest load that meets the conditions, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sla: Option<Sla>,
    /// A publication's figures; only in files of published provenance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
}

impl Series {
    /// Requests a second of every run; of published figures, of the publication.
    pub fn rates(&self) -> Vec<f64> {
        match &self.published {
            Some(published) => published.requests_per_second.into_iter().collect(),
            None => self.runs.iter().map(|run| run.requests_per_second).collect(),
        }
    }

    /// The median of [`rates`](Series::rates).
    pub fn requests_per_second(&self) -> Option<f64> {
        stats::median(&self.rates())
    }

    /// The latency of all runs together: response time where every run has it, else service time.
    pub fn latency(&self) -> Option<Histogram> {
        let mut all = self.runs.iter().map(|run| match self.has_response_times() {
            true => run.response_time.as_ref(),
            false => run.service_time.as_ref(),
        });
        let mut sum = all.next()??.clone();
        for histogram in all {
            sum.add(histogram?);
        }
        Some(sum)
    }

    /// Whether every run was an open loop, so that latency counts from the intended start.
    pub fn has_response_times(&self) -> bool {
        !self.runs.is_empty() && self.runs.iter().all(|run| run.response_time.is_some())
    }
}

/// The server and how it was spoken to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Target {
    /// The URL asked for; empty where the source does not say it.
    pub url: String,
    /// The address that its name stood for, or the unix socket's path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// `HTTP/1.1` or `HTTP/2`, as spoken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The `Server` header of its first answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Worker processes or threads of the server, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// What the handshake agreed on; nothing in the clear.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

/// What a TLS handshake agreed on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tls {
    /// `TLSv1.3`.
    pub version: String,
    /// The cipher suite's name in the registry of IANA.
    pub suite: String,
    /// The group of the key exchange (`X25519`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The protocol chosen by ALPN (`h2`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpn: Option<String>,
}
