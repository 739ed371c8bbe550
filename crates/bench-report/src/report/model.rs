//! What a report says, before it has a form. `report --json` prints this.

use serde::Serialize;

use crate::prices::Price;
use bench::result::{Environment, LatencyMs, Sla, Target};
use bench::stats::{Interval, MannWhitney};

/// A whole report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// One group a scenario, in the order in which the files have them.
    pub groups: Vec<Group>,
    /// The files, in the order of the command line.
    pub sources: Vec<Source>,
    /// What a reader must know before believing the figures.
    pub warnings: Vec<String>,
}

/// Everything measured in one scenario.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// The scenario's name; nothing of plain runs.
    pub scenario: Option<String>,
    /// The scenario's name as part of a file's name: letters, digits and hyphens, unique within the report.
    #[serde(skip)]
    pub(super) slug: String,
    /// The row that the others are compared to.
    pub baseline: String,
    /// The rows, the order of the command line.
    pub rows: Vec<Row>,
}

/// One server in one scenario.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its name, made unique within the group.
    pub name: String,
    /// The file that it is from.
    pub file: String,
    /// Whether the figures are a publication's.
    pub published: bool,
    /// Runs that the figures rest on; 0 of published ones.
    pub runs: usize,
    /// Requests a second, the median of the runs; nothing where a publication gives ratios alone.
    pub requests_per_second: Option<f64>,
    /// Where that median lies with 95 %.
    pub interval: Option<Interval>,
    /// The distance between the quartiles of the runs' rates.
    pub spread: Option<f64>,
    /// Throughput over the baseline's.
    pub relative: Option<Ratio>,
    /// How the ratio follows from what a publication states.
    pub derived: Option<String>,
    /// Whether the runs' rates differ from the baseline's.
    pub test: Option<MannWhitney>,
    /// The mean latency in milliseconds.
    pub mean_latency_ms: Option<f64>,
    /// The latency of all runs together.
    pub latency_ms: Option<LatencyMs>,
    /// What the latency counts from.
    pub latency_kind: LatencyKind,
    /// Failed requests of all runs together; nothing of published figures.
    pub errors: Option<u64>,
    /// Why the client was the limit, of each run in which it was.
    pub client_limits: Vec<String>,
    /// The price, comparable within the group.
    pub price: Option<Price>,
    /// Million requests for a USD at that price.
    pub million_requests_per_usd: Option<f64>,
    /// Requests for a price over the baseline's.
    pub relative_price_performance: Option<f64>,
    /// The search under conditions, where there was one.
    pub sla: Option<Sla>,
    /// What was asked.
    pub target: Target,
    /// `(share of requests, milliseconds)` for the curve, growing.
    #[serde(skip)]
    pub curve: Vec<(f64, f64)>,
    /// Throughput in a unit that the group shares: requests a second, or the publication's ratio.
    #[serde(skip)]
    pub(super) strength: Option<Strength>,
    /// The runs' rates.
    #[serde(skip)]
    pub(super) rates: Vec<f64>,
}

/// Throughput that can be compared with figures of the same kind.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Strength {
    Rate(f64),
    Ratio { to: String, throughput: f64 },
}

impl Strength {
    /// This over `other`; nothing if they are not of one kind.
    pub(super) fn over(&self, other: &Strength) -> Option<f64> {
        let ratio = match (self, other) {
            (Strength::Rate(this), Strength::Rate(that)) => this / that,
            (Strength::Ratio { to, throughput }, Strength::Ratio { to: base, throughput: that })
                if to == base =>
            {
                throughput / that
            }
            _ => return None,
        };
        ratio.is_finite().then_some(ratio)
    }
}

/// A ratio to the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// 1 is level.
    pub value: f64,
    /// Where it lies with 95 %, from two runs a side on.
    pub interval: Option<Interval>,
}

/// What a latency counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencyKind {
    /// The moment a request was due.
    Response,
    /// The moment a request was sent.
    Service,
    /// A publication that does not say.
    NotStated,
}

/// A file that a report was made from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Source {
    /// Its path as given.
    pub file: String,
    /// `tidegate 0.1.0`, measured when; or the publication.
    pub origin: String,
    /// Where a publication can be read.
    pub url: Option<String>,
    /// Whether the figures are a publication's.
    pub published: bool,
    /// The machine.
    pub environment: Environment,
    /// The file's notes.
    pub notes: Vec<String>,
}

impl Group {
    /// The scenario's name as a heading.
    pub(super) fn title(&self) -> String {
        match self.scenario.as_deref() {
            Some("single-upstream") => "Single upstream".to_owned(),
            Some("two-plugins") => "Single upstream + two plugins".to_owned(),
            Some("static-tls") => "Static file over TLS".to_owned(),
            Some(other) => other.to_owned(),
            None => "Plain runs".to_owned(),
        }
    }
}
