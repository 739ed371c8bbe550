//! A latency histogram as it stands in the file: readable figures beside the whole distribution.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer as HdrDeserializer, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

/// The longest time a histogram need hold, in nanoseconds: an hour.
pub const HIGHEST_NS: u64 = 3_600_000_000_000;

/// Three digits: a time is known to 0.1 %, far below the noise of any network.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Times in nanoseconds. In the file: count and percentiles for people and `jq`, and under `hdr` the whole distribution in
/// HdrHistogram's V2 form (deflated, base64), which any HdrHistogram reads. Only `hdr` counts when the file is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Histogram(hdrhistogram::Histogram<u64>);

/// Latency at a glance, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatencyMs {
    /// The smallest.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub stdev: f64,
    /// The median.
    pub p50: f64,
    /// Three quarters are at most this.
    pub p75: f64,
    /// 90 %.
    pub p90: f64,
    /// 95 %.
    pub p95: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p99_9: f64,
    /// 99.99 %.
    pub p99_99: f64,
    /// The largest.
    pub max: f64,
}

/// Why a stored histogram is none.
#[derive(Debug, thiserror::Error)]
pub enum HistogramError {
    /// The text is not base64.
    #[error("`hdr` is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// The bytes are not a histogram.
    #[error("`hdr` is not an HdrHistogram in V2 form: {0}")]
    Form(String),
}

impl Histogram {
    /// An empty one, up to [`HIGHEST_NS`]; what is longer is counted there.
    pub fn new() -> Histogram {
        Histogram(
            hdrhistogram::Histogram::new_with_bounds(1, HIGHEST_NS, SIGNIFICANT_DIGITS).expect(
                "bounds and digits are in the library's range: 1 <= low, 2 * low <= high, digits <= 5",
            ),
        )
    }

    /// Counts one time.
    pub fn record_ns(&mut self, nanoseconds: u64) {
        self.0.saturating_record(nanoseconds);
    }

    /// Adds another's counts, for threads and repeated runs. Times above this one's range are counted at its end.
    pub fn add(&mut self, other: &Histogram) {
        for step in other.0.iter_recorded() {
            self.0.saturating_record_n(step.value_iterated_to(), step.count_at_value());
        }
    }

    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time that the share `quantile` (0 to 1) of all is at most, in milliseconds; 0 of an empty one.
    pub fn quantile_ms(&self, quantile: f64) -> f64 {
        ms(self.0.value_at_quantile(quantile) as f64)
    }

    /// The usual figures. All 0 of an empty one.
    pub fn latency(&self) -> LatencyMs {
        if self.0.is_empty() {
            return LatencyMs::default();
        }
        LatencyMs {
            min: ms(self.0.min() as f64),
            mean: ms(self.0.mean()),
            stdev: ms(self.0.stdev()),
            p50: self.quantile_ms(0.5),
            p75: self.quantile_ms(0.75),
            p90: self.quantile_ms(0.9),
            p95: self.quantile_ms(0.95),
            p99: self.quantile_ms(0.99),
            p99_9: self.quantile_ms(0.999),
            p99_99: self.quantile_ms(0.9999),
            max: ms(self.0.max() as f64),
        }
    }

    /// The library's own histogram, in nanoseconds.
    pub fn inner(&self) -> &hdrhistogram::Histogram<u64> {
        &self.0
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

/// Takes a histogram of nanoseconds as the generator's threads fill it.
impl From<hdrhistogram::Histogram<u64>> for Histogram {
    fn from(inner: hdrhistogram::Histogram<u64>) -> Histogram {
        Histogram(inner)
    }
}

/// The form in the file.
#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(default)]
    count: u64,
    #[serde(default)]
    latency_ms: LatencyMs,
    hdr: String,
}

impl From<Histogram> for Stored {
    fn from(histogram: Histogram) -> Stored {
        let mut bytes = Vec::new();
        // Writing into memory fails on nothing but a histogram too large for its own form, which none of ours is; a reader
        // would then be told that `hdr` is not a histogram.
        let written = V2DeflateSerializer::new().serialize(&histogram.0, &mut bytes);
        let hdr = written.map(|_| STANDARD.encode(&bytes)).unwrap_or_default();
        Stored { count: histogram.count(), latency_ms: histogram.latency(), hdr }
    }
}

impl TryFrom<Stored> for Histogram {
    type Error = HistogramError;

    fn try_from(stored: Stored) -> Result<Histogram, HistogramError> {
        let bytes = STANDARD.decode(stored.hdr.as_bytes())?;
        HdrDeserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map(Histogram)
            .map_err(|error| HistogramError::Form(error.to_string()))
    }
}

fn ms(nanoseconds: f64) -> f64 {
    nanoseconds / 1e6
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(times: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        for time in times {
            histogram.record_ns(*time);
        }
        histogram
    }

    #[test]
    fn the_file_holds_readable_figures_and_the_whole_distribution() {
        let histogram = of(&[1_000_000, 2_000_000, 2_000_000, 40_000_000]);
        let json = serde_json::to_value(&histogram).unwrap();
        assert_eq!(json["count"], 4);
        assert!((json["latency_ms"]["p50"].as_f64().unwrap() - 2.0).abs() < 0.002);
        assert_eq!(serde_json::from_value::<Histogram>(json).unwrap(), histogram);
    }

    #[test]
    fn an_empty_one_has_zeros() {
        let histogram = Histogram::new();
        assert_eq!(histogram.latency(), LatencyMs::default());
        assert_eq!(
            serde_json::from_str::<Histogram>(&serde_json::to_string(&histogram).unwrap()).unwrap().count(),
            0
        );
    }

    #[test]
    fn what_is_none_says_why() {
        for (hdr, why) in [("~", "not base64"), ("", "not an HdrHistogram"), ("AAAA", "not an HdrHistogram")]
        {
            let error = serde_json::from_str::<Histogram>(&format!("{{\"hdr\":\"{hdr}\"}}")).unwrap_err();
            assert!(error.to_string().contains(why), "{hdr}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_file_gives_back_what_was_counted(times in proptest::collection::vec(0u64..HIGHEST_NS, 0..200)) {
            let histogram = of(&times);
            let again: Histogram = serde_json::from_str(&serde_json::to_string(&histogram).unwrap()).unwrap();
            prop_assert_eq!(again, histogram);
        }

        #[test]
        fn adding_keeps_counts(left in proptest::collection::vec(1u64..10_000_000, 0..50),
                               right in proptest::collection::vec(1u64..10_000_000, 0..50)) {
            let mut sum = of(&left);
            sum.add(&of(&right));
            let all: Vec<u64> = left.iter().chain(&right).copied().collect();
            prop_assert_eq!(sum, of(&all));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Histogram::try_from(Stored { count: 0, latency_ms: LatencyMs::default(), hdr: STANDARD.encode(bytes) });
        }
    }
}
