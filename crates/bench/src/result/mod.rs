//! The result file: what was measured, and where, as versioned JSON.
//!
//! One file is one measurement on one machine. It holds one [`Series`] a server and scenario (a gateway and the peer that
//! ran interleaved with it are two series of one file), each with its repeated [`Run`]s and their raw histograms, so that
//! every figure of a report can be computed again. Figures that somebody else published have no runs: they say so
//! ([`Provenance::Published`]) and name their source.
//!
//! The form: times in seconds with the unit in the name (`_s`), histograms in nanoseconds, latency summaries in
//! milliseconds (`_ms`), rates per second. Fields that a reader does not know are ignored; what would change the meaning of
//! a known one raises [`SCHEMA`], and a file of a newer schema is refused.

mod environment;
mod file;
mod histogram;
mod published;
mod run;
mod series;
mod sla;
mod validate;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use environment::{Environment, Machine, Pin};
pub use file::{FileError, MAX_FILE_BYTES};
pub use histogram::{HIGHEST_NS, Histogram, HistogramError, LatencyMs};
pub use published::{Published, Relative};
pub use run::{Client, Errors, Load, Run, Schedule, Settings};
pub use series::{Series, Target, Tls};
pub use sla::{Phase, Probe, Sla, SlaOver, Verdict};

/// The schema that this version writes, and the newest it reads.
pub const SCHEMA: u32 = 1;

/// A whole result file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultFile {
    /// The form of this file, from 1: see [`SCHEMA`].
    pub schema: u32,
    /// What wrote the file.
    pub tool: Tool,
    /// When the measurement began, RFC 3339 in UTC. Of published figures: when they were published, or nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// Where the figures are from.
    pub provenance: Provenance,
    /// The machine and its state. Published figures say what their source says.
    #[serde(default)]
    pub environment: Environment,
    /// The measured servers and scenarios, in the order in which a report lists them; at least one.
    pub series: Vec<Series>,
    /// What a reader should know and no field says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The program that wrote a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// `tidegate`; of published figures the load generator that their source names.
    pub name: String,
    /// Its version; empty where the source names none.
    #[serde(default)]
    pub version: String,
}

/// Where figures are from. A report never shows the two kinds without telling them apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Provenance {
    /// Measured by the tool that wrote the file.
    Measured,
    /// Taken from a publication; not measured, so without spread and without histograms.
    Published {
        /// Title, author and publisher.
        source: String,
        /// The date of publication, `YYYY-MM-DD`, where the source says it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        date: Option<String>,
        /// Where it can be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
    },
}

impl ResultFile {
    /// A file of this version of the tool with nothing measured yet. `started` is RFC 3339 in UTC.
    pub fn measured(started: impl Into<String>, environment: Environment) -> ResultFile {
        ResultFile {
            schema: SCHEMA,
            tool: Tool { name: "tidegate".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() },
            started: Some(started.into()),
            provenance: Provenance::Measured,
            environment,
            series: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Whether the figures are a publication's.
    pub fn is_published(&self) -> bool {
        matches!(self.provenance, Provenance::Published { .. })
    }
}

/// Names and texts, in the order of the names.
pub type Texts = BTreeMap<String, String>;
