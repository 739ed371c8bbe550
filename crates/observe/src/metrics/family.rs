//! All series of one metric.

use super::name::Described;
use super::{Metric, SERIES_MAX};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stdx::WorkerToken;

/// What labels after the first say in the series that counts for those that found no place.
const OVERFLOW: &str = "overflow";

/// The series of one metric, each with one cell per worker that counted in it. Looked into when a worker meets a label
/// set for the first time, and by scrapes.
pub(super) struct Family<C, M = Metric> {
    metric: M,
    series_max: usize,
    inner: Mutex<Inner<C>>,
}

struct Inner<C> {
    /// By label text as the exposition shows it; the map's order is the exposition's.
    series: BTreeMap<Box<str>, Vec<(usize, Arc<C>)>>,
    overflowed: u64,
}

impl<C, M: Described> Family<C, M> {
    pub(super) fn new(metric: M, series_max: usize) -> Self {
        Self {
            metric,
            series_max: series_max.clamp(1, SERIES_MAX),
            inner: Mutex::new(Inner { series: BTreeMap::new(), overflowed: 0 }),
        }
    }

    /// The worker's own cell of the series with these label values. Once the family is full a new label set is counted
    /// in one series that keeps the first of several labels (a status, a direction: few values) and nothing else.
    pub(super) fn cell(&self, worker: &WorkerToken, values: &[&str], make: impl FnOnce() -> C) -> Arc<C> {
        let text = self.metric.label_text(values);
        let mut inner = self.lock();
        let text = if inner.series.len() < self.series_max || inner.series.contains_key(text.as_str()) {
            text
        } else {
            inner.overflowed += 1;
            let mut shown = vec![OVERFLOW; values.len()];
            if let [first, _, ..] = values {
                shown[0] = first;
            }
            self.metric.label_text(&shown)
        };
        let cells = inner.series.entry(text.into_boxed_str()).or_default();
        if let Some((_, cell)) = cells.iter().find(|(index, _)| *index == worker.index()) {
            return Arc::clone(cell);
        }
        let cell = Arc::new(make());
        cells.push((worker.index(), Arc::clone(&cell)));
        cell
    }

    /// Runs `f` on each series, in the order of the exposition.
    pub(super) fn each(&self, mut f: impl FnMut(&str, &mut dyn Iterator<Item = &C>)) {
        for (labels, cells) in &self.lock().series {
            f(labels, &mut cells.iter().map(|(_, cell)| cell.as_ref()));
        }
    }

    pub(super) fn metric(&self) -> &M {
        &self.metric
    }

    /// How often a label set found no place of its own.
    pub(super) fn overflowed(&self) -> u64 {
        self.lock().overflowed
    }

    fn lock(&self) -> MutexGuard<'_, Inner<C>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
