//! One row from one series: everything that needs no other row.

use super::model::{LatencyKind, Row, Strength};
use bench::result::{ResultFile, Series};
use bench::stats::Summary;

/// Points of a percentile curve: even steps of "one in how many is slower", because that is the curve's axis.
const CURVE_POINTS: u32 = 60;

/// The curve ends here at the latest: one in 100,000.
const CURVE_DECADES: f64 = 5.0;

impl Row {
    pub(super) fn of(file: &str, result: &ResultFile, series: &Series) -> Row {
        let latency = series.latency().filter(|histogram| histogram.count() > 0);
        let published = series.published.as_ref();
        let summary = Summary::of(&series.rates());
        let relative = published.and_then(|figures| figures.relative.as_ref());
        let latency_ms = latency.as_ref().map(|histogram| histogram.latency());
        Row {
            name: series.name.clone(),
            file: file.to_owned(),
            published: result.is_published(),
            runs: series.runs.len(),
            requests_per_second: summary.map(|summary| summary.median),
            interval: summary.and_then(|summary| summary.interval),
            spread: summary.filter(|summary| summary.count > 1).map(|summary| summary.spread),
            relative: None,
            derived: relative.and_then(|relative| relative.derived.clone()),
            test: None,
            mean_latency_ms: match published {
                Some(figures) => figures.mean_latency_ms,
                None => latency_ms.map(|latency| latency.mean),
            },
            latency_ms,
            latency_kind: match (result.is_published(), series.has_response_times()) {
                (true, _) => LatencyKind::NotStated,
                (false, true) => LatencyKind::Response,
                (false, false) => LatencyKind::Service,
            },
            errors: (!result.is_published())
                .then(|| series.runs.iter().fold(0, |sum: u64, run| sum.saturating_add(run.errors.total()))),
            client_limits: series.runs.iter().filter_map(|run| run.client.limit.clone()).collect(),
            price: None,
            million_requests_per_usd: None,
            relative_price_performance: None,
            sla: series.sla.clone(),
            target: series.target.clone(),
            curve: latency.map(|histogram| curve(&histogram)).unwrap_or_default(),
            strength: match (summary, relative) {
                (Some(summary), _) if summary.median > 0.0 => Some(Strength::Rate(summary.median)),
                (None, Some(relative)) => {
                    Some(Strength::Ratio { to: relative.to.clone(), throughput: relative.throughput })
                }
                _ => None,
            },
            rates: series.rates(),
        }
    }
}

/// The percentile curve as far as the count supports it: a percentile that less than one request lies beyond is the maximum
/// over and over.
fn curve(histogram: &bench::result::Histogram) -> Vec<(f64, f64)> {
    let decades = (histogram.count() as f64).log10().min(CURVE_DECADES);
    (0..=CURVE_POINTS)
        .map(|step| {
            let share = 1.0 - 10f64.powf(-decades * f64::from(step) / f64::from(CURVE_POINTS));
            (share, histogram.quantile_ms(share))
        })
        .collect()
}
