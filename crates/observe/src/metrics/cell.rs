//! Numbers that one worker writes and a scrape reads.
//!
//! There is one writer, so a plain load and a plain store make an addition: no locked instruction. A scrape may see one
//! cell of a request and not yet another; Prometheus expects no more.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter. Alone on its cache line: the next cell may be another worker's.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Counter(AtomicU64);

/// Counts by upper bound, and the sum of what was observed.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Histogram {
    sum: AtomicU64,
    /// By bound, not cumulative; the last one is for values above all bounds.
    counts: Box<[AtomicU64]>,
}

/// The place of a value among the counts of a histogram.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket(usize);

/// Adds without a locked instruction; only for cells with one writer.
#[inline]
pub(super) fn bump(cell: &AtomicU64, by: u64) {
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

impl Counter {
    #[inline]
    pub(super) fn add(&self, by: u64) {
        bump(&self.0, by);
    }

    /// Takes back what this cell was given: what is counted so is a gauge.
    pub(super) fn take(&self, by: u64) {
        bump(&self.0, by.wrapping_neg());
    }

    pub(super) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Bucket {
    /// The bucket of `value`; `bounds` are ascending.
    #[inline]
    pub(super) fn of(bounds: &[u64], value: u64) -> Self {
        // Most requests fall into the first few buckets, where a scan beats a binary search.
        Self(bounds.iter().position(|bound| value <= *bound).unwrap_or(bounds.len()))
    }
}

impl Histogram {
    pub(super) fn new(bounds: usize) -> Self {
        Self { sum: AtomicU64::new(0), counts: (0..=bounds).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Counts `value`; `bounds` are ascending and as many as the histogram was made for.
    #[inline]
    pub(super) fn observe(&self, bounds: &[u64], value: u64) {
        self.count(Bucket::of(bounds, value), value);
    }

    /// Counts `value`, whose bucket is known.
    #[inline]
    pub(super) fn count(&self, bucket: Bucket, value: u64) {
        if let Some(count) = self.counts.get(bucket.0) {
            bump(count, 1);
        }
        bump(&self.sum, value);
    }

    /// Adds this histogram's numbers to `counts` (one longer than the bounds) and returns its sum.
    pub(super) fn merge_into(&self, counts: &mut [u64]) -> u64 {
        for (total, count) in counts.iter_mut().zip(&self.counts) {
            *total += count.load(Ordering::Relaxed);
        }
        self.sum.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fall_into_the_bucket_whose_bound_they_do_not_exceed() {
        let histogram = Histogram::new(2);
        for value in [0, 10, 11, 20, 21, 1_000] {
            histogram.observe(&[10, 20], value);
        }
        let mut counts = [0; 3];
        assert_eq!(histogram.merge_into(&mut counts), 1_062);
        assert_eq!(counts, [2, 2, 2]);
    }
}
