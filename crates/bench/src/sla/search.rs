//! The search itself, as a pure state machine: it says which load to try next, and is told how that went.
//!
//! A probe that fails is tried once more before it is believed: on a shared machine a single bad second would otherwise
//! halve the answer. A probe that holds is believed at once, because noise makes latencies longer and hardly ever
//! shorter; the confirming runs catch the rest.

use crate::result::Phase;

/// How close the bisection comes: the loads that held and didn't are at most this far apart, relative to the former.
const TOLERANCE: f64 = 0.02;

/// Fresh runs that confirm a load.
const CONFIRMATIONS: u32 = 3;

/// Confirming runs that may fail before the load is lowered.
const FAILURES_MAX: u32 = 1;

/// The rise begins at this share of the ceiling.
const FIRST_SHARE: f64 = 1.0 / 16.0;

/// How far the load is lowered where it wasn't confirmed.
const STEP_DOWN: f64 = 1.0 - TOLERANCE;

/// A search that can't confirm anything gives up after so many lowerings: below 60 % of what bisection found.
const LOWERINGS_MAX: u32 = 25;

/// The lowest and highest load, and whether loads are whole numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// The lowest load worth asking for; above 0.
    pub lowest: f64,
    /// The highest; infinite where only the server bounds it.
    pub highest: f64,
    /// Connections are whole, rates needn't be.
    pub whole: bool,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Ask how much the server gives when nothing holds the generator back.
    Ceiling,
    /// Try this load.
    Probe(Phase, f64),
    /// It is over: the highest load that was confirmed, if any.
    Done(Option<f64>),
}

/// How a probe went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Report {
    /// Whether all conditions held.
    pub met: bool,
    /// Answers per second; of the ceiling, what the rise is measured by.
    pub achieved: f64,
}

/// A search under way.
#[derive(Debug, Clone)]
pub struct Search {
    range: Range,
    state: State,
    /// The highest load that held, and the lowest that didn't.
    good: Option<f64>,
    bad: Option<f64>,
    /// Whether the load at hand has failed once already.
    doubted: bool,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Ceiling,
    Rise(f64),
    Bisect(f64),
    Confirm { load: f64, held: u32, failed: u32, lowered: u32 },
    Done(Option<f64>),
}

impl Search {
    /// A search over `range`. Where the range has an upper end, the rise needs no ceiling.
    #[must_use]
    pub fn new(range: Range) -> Self {
        let state = if range.highest.is_finite() { State::Rise(range.lowest) } else { State::Ceiling };
        Self { range, state, good: None, bad: None, doubted: false }
    }

    /// What to do next; the same until [`Self::report`] is called.
    #[must_use]
    pub fn step(&self) -> Step {
        match self.state {
            State::Ceiling => Step::Ceiling,
            State::Rise(load) => Step::Probe(Phase::Rise, load),
            State::Bisect(load) => Step::Probe(Phase::Bisect, load),
            State::Confirm { load, .. } => Step::Probe(Phase::Confirm, load),
            State::Done(found) => Step::Done(found),
        }
    }

    /// How the last step went.
    pub fn report(&mut self, report: Report) {
        self.state = match self.state {
            State::Ceiling => {
                // No server does more for a schedule than for clients that never let it rest.
                self.range.highest = (report.achieved * 1.05).max(self.range.lowest);
                State::Rise((report.achieved * FIRST_SHARE).max(self.range.lowest))
            }
            State::Rise(load) | State::Bisect(load) => self.judge(load, report.met),
            State::Confirm { load, held, failed, lowered } => {
                self.confirm(load, held + u32::from(report.met), failed + u32::from(!report.met), lowered)
            }
            done @ State::Done(_) => done,
        };
    }

    fn judge(&mut self, load: f64, met: bool) -> State {
        if !met && !self.doubted {
            self.doubted = true;
            return self.state;
        }
        self.doubted = false;
        if met {
            self.good = Some(self.good.map_or(load, |good| good.max(load)));
        } else {
            self.bad = Some(load);
        }
        match (self.good, self.bad) {
            (Some(good), None) if good >= self.range.highest => confirming(good),
            (Some(good), None) => State::Rise(self.rounded((good * 2.0).min(self.range.highest))),
            (None, Some(bad)) if bad <= self.range.lowest => State::Done(None),
            (None, Some(bad)) => State::Rise(self.rounded((bad / 4.0).max(self.range.lowest))),
            (Some(good), Some(bad)) => {
                let middle = self.rounded((good + bad) / 2.0);
                if bad - good <= good * TOLERANCE || middle <= good || middle >= bad {
                    confirming(good)
                } else {
                    State::Bisect(middle)
                }
            }
            (None, None) => self.state,
        }
    }

    fn confirm(&self, load: f64, held: u32, failed: u32, lowered: u32) -> State {
        if failed > FAILURES_MAX {
            let lower = self.rounded(load * STEP_DOWN).min(if self.range.whole { load - 1.0 } else { load });
            if lower < self.range.lowest || lowered == LOWERINGS_MAX {
                return State::Done(None);
            }
            return State::Confirm { load: lower, held: 0, failed: 0, lowered: lowered + 1 };
        }
        if held >= CONFIRMATIONS {
            return State::Done(Some(load));
        }
        State::Confirm { load, held, failed, lowered }
    }

    fn rounded(&self, load: f64) -> f64 {
        if self.range.whole { load.round() } else { load }
    }
}

fn confirming(load: f64) -> State {
    State::Confirm { load, held: 0, failed: 0, lowered: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server whose p99 rises slowly up to its knee and steeply beyond it, with noise; 5 ms is met up to the knee.
    struct Simulated {
        knee: f64,
        capacity: f64,
        noise: f64,
        random: u64,
    }

    impl Simulated {
        fn uniform(&mut self) -> f64 {
            self.random =
                self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.random >> 11) as f64 / (1u64 << 53) as f64
        }

        fn probe(&mut self, load: f64) -> Report {
            let over = load / self.knee;
            let p99 = if over < 1.0 { 1.0 + 4.0 * over.powi(8) } else { 5.0 * over.powi(12) };
            let mut factor = 1.0 + self.noise * (self.uniform() + self.uniform() - 1.0);
            // Now and then the machine's neighbours take a second for themselves.
            if self.uniform() < 0.05 {
                factor *= 4.0;
            }
            Report { met: p99 * factor <= 5.0, achieved: load.min(self.capacity) }
        }
    }

    fn search(range: Range, server: &mut Simulated) -> (Option<f64>, usize) {
        let mut search = Search::new(range);
        for probes in 0..200 {
            let report = match search.step() {
                Step::Done(found) => return (found, probes),
                Step::Ceiling => Report { met: false, achieved: server.capacity },
                Step::Probe(_, load) => server.probe(load),
            };
            search.report(report);
        }
        panic!("the search does not end: {search:?}");
    }

    const RATES: Range = Range { lowest: 1.0, highest: f64::INFINITY, whole: false };

    #[test]
    fn the_knee_is_found_within_five_percent_in_nine_of_ten_noisy_runs() {
        for knee in [500.0, 12_345.0, 90_000.0] {
            let close = (0..100)
                .filter(|seed| {
                    let mut server = Simulated { knee, capacity: knee * 1.3, noise: 0.2, random: *seed };
                    let (found, _) = search(RATES, &mut server);
                    found.is_some_and(|found| (found / knee - 1.0).abs() <= 0.05)
                })
                .count();
            assert!(close >= 90, "knee {knee}: {close} of 100");
        }
    }

    #[test]
    fn without_noise_it_is_within_the_tolerance_and_takes_few_probes() {
        for knee in [3.0, 700.0, 12_345.0, 1e6] {
            let mut server = Simulated { knee, capacity: knee * 2.0, noise: 0.0, random: 1 };
            let mut exact = Search::new(RATES);
            let mut probes = 0;
            let found = loop {
                let report = match exact.step() {
                    Step::Done(found) => break found.expect("a knee"),
                    Step::Ceiling => Report { met: false, achieved: server.capacity },
                    Step::Probe(_, load) => {
                        server.random = 1;
                        Report { met: load <= knee, achieved: load }
                    }
                };
                exact.report(report);
                probes += 1;
            };
            assert!(found <= knee && found >= knee * 0.98, "{found} of {knee}");
            assert!(probes <= 30, "{probes}");
        }
    }

    #[test]
    fn connections_are_whole_and_stay_in_their_range() {
        let range = Range { lowest: 16.0, highest: 1_024.0, whole: true };
        for (knee, expected) in
            [(100.0, Some(98.0..=100.0)), (5_000.0, Some(1_024.0..=1_024.0)), (10.0, None)]
        {
            let mut search = Search::new(range);
            let found = loop {
                match search.step() {
                    Step::Done(found) => break found,
                    Step::Ceiling => panic!("a bounded range needs none"),
                    Step::Probe(_, load) => {
                        assert!(load.fract() == 0.0 && (16.0..=1_024.0).contains(&load), "{load}");
                        search.report(Report { met: load <= knee, achieved: load });
                    }
                }
            };
            assert_eq!(found.is_some(), expected.is_some());
            assert!(
                found.zip(expected).is_none_or(|(found, expected)| expected.contains(&found)),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_server_that_never_meets_it_ends_the_search() {
        let mut search = Search::new(RATES);
        for _ in 0..200 {
            if let Step::Done(found) = search.step() {
                assert_eq!(found, None);
                return;
            }
            search.report(Report { met: false, achieved: 10_000.0 });
        }
        panic!("no end");
    }
}
