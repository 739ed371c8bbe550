//! Figures of a publication: means without spread, sometimes only a ratio.

use serde::{Deserialize, Serialize};

/// What a publication says of one series. At least one of `requests_per_second` and `relative` is there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Published {
    /// Requests a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<f64>,
    /// The mean latency in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_latency_ms: Option<f64>,
    /// Throughput as a ratio, where the source gives no rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relative: Option<Relative>,
}

/// A ratio to another series of the same source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Relative {
    /// The series that is 1.
    pub to: String,
    /// Throughput over that series' throughput. Above 0.
    pub throughput: f64,
    /// How the ratio follows from what the source states, where the source does not state it itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub derived: Option<String>,
}
