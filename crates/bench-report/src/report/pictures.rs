//! Which pictures a group has, and what is in them.

use super::bars::{self, Bar};
use super::curves::{self, Curve};
use super::model::{Group, Row};
use super::number;
use super::svg::Picture;

/// Requests a second with their intervals; nothing where there are ratios alone.
pub(super) fn throughput(group: &Group) -> Option<Picture> {
    let bars = bars(group, |row| {
        let value = row.requests_per_second?;
        Some((value, number::rate(value), row.interval))
    })?;
    Some(bars::chart(id(group, "throughput"), &heading(group, "throughput"), "requests/s", &bars, None))
}

/// Throughput over the baseline's.
pub(super) fn relative(group: &Group) -> Option<Picture> {
    let bars = bars(group, |row| {
        row.relative.map(|ratio| (ratio.value, number::ratio(ratio.value), ratio.interval))
    })?;
    let heading = heading(group, "relative performance");
    Some(bars::chart(id(group, "relative"), &heading, &format!("{} = 1", group.baseline), &bars, Some(1.0)))
}

/// Requests for a price over the baseline's.
pub(super) fn price_performance(group: &Group) -> Option<Picture> {
    let bars =
        bars(group, |row| row.relative_price_performance.map(|value| (value, number::ratio(value), None)))?;
    let heading = heading(group, "relative price-performance");
    Some(bars::chart(
        id(group, "price-performance"),
        &heading,
        &format!("{} = 1", group.baseline),
        &bars,
        Some(1.0),
    ))
}

/// Percentile curves of what was measured, else bars of published means.
pub(super) fn latency(group: &Group) -> Option<Picture> {
    let indexed = group.rows.iter().enumerate().filter(|(_, row)| !row.curve.is_empty());
    let curves: Vec<Curve<'_>> = indexed
        .map(|(index, row)| Curve { label: number::name(row), points: &row.curve, colour: index })
        .collect();
    if !curves.is_empty() {
        return Some(curves::chart(id(group, "latency"), &heading(group, "latency by percentile"), &curves));
    }
    let bars = bars(group, |row| row.mean_latency_ms.map(|ms| (ms, format!("{} ms", number::ms(ms)), None)))?;
    Some(bars::chart(id(group, "latency"), &heading(group, "mean latency"), "ms", &bars, None))
}

/// The rows that have the figure; nothing unless two can be compared or one is all there is.
fn bars(
    group: &Group,
    figure: impl Fn(&Row) -> Option<(f64, String, Option<bench::stats::Interval>)>,
) -> Option<Vec<Bar>> {
    let bars: Vec<Bar> = group
        .rows
        .iter()
        .enumerate()
        .filter_map(|(index, row)| {
            let (value, text, interval) = figure(row)?;
            let (label, published) = (number::name(row), row.published);
            Some(Bar { label, value, text, interval, colour: index, published })
        })
        .collect();
    (!bars.is_empty() && bars.len() >= group.rows.len().min(2)).then_some(bars)
}

fn heading(group: &Group, what: &str) -> String {
    format!("{}: {what}", group.title())
}

/// The picture's id, which is its file's name too.
fn id(group: &Group, what: &str) -> String {
    format!("{what}-{}", group.slug)
}
