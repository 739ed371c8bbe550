//! Nodes that stand out by errors or by slowness, put aside for a while by what their own requests came to: for
//! upstreams whose nodes nobody probes.
//!
//! Ejection is a comparison among the nodes of one upstream, so it has a panic threshold: where many nodes fail, it is
//! not the nodes that stand out, and putting them aside would send everything to the few that are left.

use crate::pick::Outcome;

/// A node's mean latency moves by one part in 16 with each request: after 16 requests at another pace it has gone 64 %
/// of the way.
const MEAN_SHIFT: u32 = 4;

/// Requests before a node's mean is compared: fewer say little.
const SAMPLES_MIN: u32 = 32;

/// How often means are compared, in milliseconds.
const COMPARE_MS: u64 = 1_000;

/// Ejections in a row are this many times longer at most: 30 s become 5 minutes.
const LONGER_MAX: u64 = 10;

/// When a node stands out, and for how long it is put aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutlierRules {
    /// Failed requests in a row that eject a node; 0: errors eject none.
    pub errors: u32,
    /// How many times slower than the middle one of the nodes a node has to be; 0: slowness ejects none.
    pub slower: u32,
    /// And by how many microseconds at least: among quick nodes, twice as slow is no trouble.
    pub slower_by_us: u32,
    /// For how long the first ejection lasts, in milliseconds; the second lasts twice as long, and so on.
    pub eject_ms: u64,
    /// The panic threshold: no more than this share of the nodes is ejected at once, in percent. An upstream never
    /// loses its last one.
    pub ejected_percent: u32,
}

/// Why a node is put aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Its requests fail.
    Errors,
    /// Its answers take long.
    Latency,
}

/// A node put aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ejection {
    /// Which one.
    pub node: usize,
    /// Why.
    pub reason: Reason,
    /// Until when, in milliseconds of the caller's clock.
    pub until_ms: u64,
}

/// What is known of the nodes of one upstream. Times are milliseconds since any instant that stays the same.
#[derive(Debug, Clone)]
pub struct Outliers {
    rules: OutlierRules,
    nodes: Box<[Standing]>,
    compared_ms: u64,
    /// From this time on nobody is ejected.
    quiet_from_ms: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Standing {
    errors: u32,
    /// Mean latency in microseconds, shifted left by [`MEAN_SHIFT`].
    mean: u64,
    samples: u32,
    /// It is ejected before this time.
    until_ms: u64,
    /// Ejections, of which none was followed by a time as long in which it did well.
    ejections: u64,
}

impl Outliers {
    /// Begins to watch `nodes` nodes.
    #[must_use]
    pub fn new(rules: OutlierRules, nodes: usize) -> Self {
        Self { rules, nodes: vec![Standing::default(); nodes].into(), compared_ms: 0, quiet_from_ms: 0 }
    }

    /// Takes over what `old`, of the same upstream before a change, knows of the nodes that stay: `former` says of each
    /// node which one it was.
    pub fn inherit(&mut self, old: &Self, former: &[Option<usize>]) {
        for (standing, former) in self.nodes.iter_mut().zip(former) {
            if let Some(known) = former.and_then(|node| old.nodes.get(node)) {
                *standing = *known;
                self.quiet_from_ms = self.quiet_from_ms.max(known.until_ms);
            }
        }
    }

    /// Whether no node is ejected.
    #[must_use]
    #[inline]
    pub fn all_usable(&self, now_ms: u64) -> bool {
        self.quiet_from_ms <= now_ms
    }

    /// Whether the node may be picked.
    #[must_use]
    pub fn usable(&self, node: usize, now_ms: u64) -> bool {
        self.nodes.get(node).is_none_or(|standing| standing.until_ms <= now_ms)
    }

    /// Takes in how a request went; a node that is put aside for it, which may be another one.
    pub fn finished(&mut self, node: usize, outcome: Outcome, now_ms: u64) -> Option<Ejection> {
        let standing = self.nodes.get_mut(node)?;
        if outcome.failed {
            standing.errors = standing.errors.saturating_add(1);
            if self.rules.errors > 0 && standing.errors >= self.rules.errors {
                return self.eject(node, Reason::Errors, now_ms);
            }
            return None;
        }
        standing.took(outcome);
        if self.rules.slower == 0 || now_ms < self.compared_ms.saturating_add(COMPARE_MS) {
            return None;
        }
        self.compared_ms = now_ms;
        let slowest = self.slowest(now_ms)?;
        self.eject(slowest, Reason::Latency, now_ms)
    }

    /// The slowest node in use, where it stands out.
    fn slowest(&self, now_ms: u64) -> Option<usize> {
        let known = |standing: &&Standing| standing.samples >= SAMPLES_MIN && standing.until_ms <= now_ms;
        let mut means: Vec<u64> = self.nodes.iter().filter(known).map(Standing::mean_us).collect();
        means.sort_unstable();
        // Of two nodes the quicker one: otherwise none of them could stand out.
        let middle = *means.get(means.len().checked_sub(1)? / 2)?;
        let (slowest, standing) =
            self.nodes.iter().enumerate().filter(|(_, s)| known(s)).max_by_key(|(_, s)| s.mean)?;
        let mean = standing.mean_us();
        let stands_out = mean >= middle.saturating_mul(u64::from(self.rules.slower))
            && mean - middle >= u64::from(self.rules.slower_by_us);
        stands_out.then_some(slowest)
    }

    fn eject(&mut self, node: usize, reason: Reason, now_ms: u64) -> Option<Ejection> {
        let ejected = self.nodes.iter().filter(|standing| standing.until_ms > now_ms).count();
        let share = self.nodes.len() * self.rules.ejected_percent.min(100) as usize / 100;
        let most = share.min(self.nodes.len().saturating_sub(1));
        let eject_ms = self.rules.eject_ms;
        let standing = self.nodes.get_mut(node)?;
        // Requests may end after their node was ejected.
        if standing.until_ms > now_ms || ejected >= most {
            return None;
        }
        let length_ms = eject_ms.saturating_mul(standing.ejections.clamp(1, LONGER_MAX));
        let did_well = now_ms.saturating_sub(standing.until_ms) > length_ms;
        standing.ejections = if did_well { 1 } else { standing.ejections + 1 };
        let until_ms = now_ms.saturating_add(eject_ms.saturating_mul(standing.ejections.min(LONGER_MAX)));
        self.quiet_from_ms = self.quiet_from_ms.max(until_ms);
        // What it does afterwards is judged by itself.
        *standing = Standing { until_ms, ejections: standing.ejections, ..Standing::default() };
        Some(Ejection { node, reason, until_ms })
    }
}

impl Standing {
    fn took(&mut self, outcome: Outcome) {
        self.errors = 0;
        self.samples = self.samples.saturating_add(1);
        let micros = u64::try_from(outcome.latency.as_micros()).unwrap_or(u64::MAX >> MEAN_SHIFT);
        let micros = micros.min(u64::MAX >> (MEAN_SHIFT + 1));
        self.mean = match self.samples {
            1 => micros << MEAN_SHIFT,
            _ => self.mean - (self.mean >> MEAN_SHIFT) + micros,
        };
    }

    fn mean_us(&self) -> u64 {
        self.mean >> MEAN_SHIFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const RULES: OutlierRules =
        OutlierRules { errors: 5, slower: 4, slower_by_us: 50_000, eject_ms: 30_000, ejected_percent: 50 };
    const FAILED: Outcome = Outcome { latency: Duration::ZERO, failed: true };

    fn took(ms: u64) -> Outcome {
        Outcome { latency: Duration::from_millis(ms), failed: false }
    }

    /// Fails so often that the node is ejected, or would be.
    fn fail(outliers: &mut Outliers, node: usize, now_ms: u64) -> Option<Ejection> {
        (0..5).filter_map(|_| outliers.finished(node, FAILED, now_ms)).next()
    }

    #[test]
    fn errors_in_a_row_eject_and_a_success_forgives() {
        let mut outliers = Outliers::new(RULES, 3);
        for _ in 0..4 {
            assert_eq!(outliers.finished(1, FAILED, 10), None);
        }
        outliers.finished(1, took(1), 10);
        let ejection = fail(&mut outliers, 1, 10);
        assert_eq!(ejection, Some(Ejection { node: 1, reason: Reason::Errors, until_ms: 30_010 }));
        assert_eq!([0, 1, 2].map(|node| outliers.usable(node, 30_009)), [true, false, true]);
        assert!(outliers.usable(1, 30_010));
        assert_eq!(fail(&mut outliers, 9, 10), None, "an unknown node");
    }

    #[test]
    fn who_fails_again_is_away_for_longer() {
        let mut outliers = Outliers::new(RULES, 2);
        let mut now_ms = 0;
        for times in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10] {
            now_ms = fail(&mut outliers, 0, now_ms).map_or(0, |ejection| {
                assert_eq!(ejection.until_ms - now_ms, times * 30_000);
                ejection.until_ms
            });
        }
        now_ms += 300_001;
        let ejection = fail(&mut outliers, 0, now_ms).expect("ejected");
        assert_eq!(ejection.until_ms - now_ms, 30_000, "it did well for as long as it was away");
    }

    #[test]
    fn no_more_than_the_panic_threshold_are_ejected() {
        for (nodes, percent, expected) in
            [(1, 100, 0), (2, 100, 1), (1, 50, 0), (2, 50, 1), (3, 50, 1), (4, 50, 2), (10, 30, 3), (4, 0, 0)]
        {
            let rules = OutlierRules { ejected_percent: percent, ..RULES };
            let mut outliers = Outliers::new(rules, nodes);
            let ejected = (0..nodes).filter_map(|node| fail(&mut outliers, node, 5)).count();
            assert_eq!(ejected, expected, "{nodes} {percent}");
        }
    }

    #[test]
    fn a_slow_node_stands_out() {
        for (latencies_ms, expected) in [
            ([10, 10, 100], Some(2)),
            ([10, 100, 10], Some(1)),
            // Not slow enough, or all alike, or by too little.
            ([10, 10, 39], None),
            ([500, 500, 500], None),
            ([1, 1, 40], None),
        ] {
            let mut outliers = Outliers::new(RULES, 3);
            let mut found = None;
            for round in 0..50 {
                for (node, ms) in latencies_ms.into_iter().enumerate() {
                    found = found.or(outliers.finished(node, took(ms), round * 100));
                }
            }
            assert_eq!(
                found.map(|ejection| (ejection.node, ejection.reason)),
                expected.map(|n| (n, Reason::Latency))
            );
        }
    }

    #[test]
    fn nodes_that_stay_are_still_ejected_after_a_change() {
        let mut before = Outliers::new(RULES, 3);
        assert!(before.all_usable(0));
        fail(&mut before, 1, 10);
        for (former, usable) in [
            (vec![Some(1), None], [false, true]),
            (vec![Some(0), Some(1)], [true, false]),
            (vec![None, Some(2)], [true, true]),
        ] {
            let mut after = Outliers::new(RULES, 2);
            after.inherit(&before, &former);
            assert_eq!([0, 1].map(|node| after.usable(node, 20)), usable, "{former:?}");
            assert_eq!(after.all_usable(20), usable == [true, true]);
            assert!(after.all_usable(30_010), "its time is over");
        }
    }

    #[test]
    fn no_latency_overflows() {
        let mut outliers = Outliers::new(RULES, 2);
        for _ in 0..100 {
            outliers.finished(0, Outcome { latency: Duration::MAX, failed: false }, u64::MAX);
        }
        assert!(outliers.usable(0, 0));
    }
}
