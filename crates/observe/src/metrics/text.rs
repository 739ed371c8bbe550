//! The Prometheus text format, version 0.0.4.
//!
//! Written by hand because the ecosystem's encoder speaks OpenMetrics: it appends `_total` to every counter, and
//! APISIX's counters (`http_status`, `bandwidth`) have none.

use super::cell::{Counter, Histogram};
use super::family::Family;
use super::name::{Described, Kind};
use std::fmt::{Display, Write};

/// An exposition in the making.
pub(super) struct Text<'p> {
    prefix: &'p str,
    out: String,
}

impl<'p> Text<'p> {
    pub(super) fn new(prefix: &'p str) -> Self {
        // A gateway with a few routes fills about this much.
        Self { prefix, out: String::with_capacity(16 * 1024) }
    }

    pub(super) fn finish(self) -> String {
        self.out
    }

    /// The lines that stand before a metric's samples.
    pub(super) fn head(&mut self, metric: &impl Described) {
        let kind = match metric.kind() {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let (prefix, name) = (self.prefix, metric.name());
        self.push(format_args!("# HELP {prefix}{name} {}\n", metric.help()));
        self.push(format_args!("# TYPE {prefix}{name} {kind}\n"));
    }

    /// One sample; `suffix` follows the name.
    pub(super) fn sample(
        &mut self,
        metric: &impl Described,
        suffix: &str,
        labels: &str,
        value: impl Display,
    ) {
        let (prefix, name) = (self.prefix, metric.name());
        if labels.is_empty() {
            self.push(format_args!("{prefix}{name}{suffix} {value}\n"));
        } else {
            self.push(format_args!("{prefix}{name}{suffix}{{{labels}}} {value}\n"));
        }
    }

    /// A family of counters, the workers' cells added up; nothing where it has no series.
    pub(super) fn counters<M: Described>(&mut self, family: &Family<Counter, M>) {
        let (metric, mut first) = (family.metric(), true);
        family.each(|labels, cells| {
            if std::mem::take(&mut first) {
                self.head(metric);
            }
            self.sample(metric, "", labels, cells.map(Counter::value).sum::<u64>());
        });
    }

    /// A family of histograms; `bounds` are the buckets' upper bounds as they are shown, and sums are divided by `scale`.
    pub(super) fn histograms<M: Described>(
        &mut self,
        family: &Family<Histogram, M>,
        bounds: &[f64],
        scale: f64,
    ) {
        let (metric, mut first) = (family.metric(), true);
        let mut counts = vec![0; bounds.len() + 1];
        let mut with_bound = String::new();
        family.each(|labels, cells| {
            if std::mem::take(&mut first) {
                self.head(metric);
            }
            counts.fill(0);
            let sum: u64 = cells.map(|cell| cell.merge_into(&mut counts)).sum();
            let comma = if labels.is_empty() { "" } else { "," };
            let mut total = 0;
            for (at, count) in counts.iter().enumerate() {
                total += count;
                with_bound.clear();
                let written = match bounds.get(at) {
                    Some(bound) => write!(with_bound, "{labels}{comma}le=\"{bound}\""),
                    None => write!(with_bound, "{labels}{comma}le=\"+Inf\""),
                };
                debug_assert!(written.is_ok(), "a String takes everything");
                self.sample(metric, "_bucket", &with_bound, total);
            }
            self.sample(metric, "_count", labels, total);
            self.sample(metric, "_sum", labels, sum as f64 / scale);
        });
    }

    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        let written = self.out.write_fmt(text);
        debug_assert!(written.is_ok(), "a String takes everything");
    }
}
