//! Conditions on a run, as users write them: `p99<=5ms`, `errors=0`, `rps>=10000`.

use std::fmt::{self, Display};
use std::str::FromStr;

use crate::load::Outcome;

/// A bound on one figure of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    text: String,
    figure: Figure,
    relation: Relation,
    bound: f64,
    /// What the bound's unit is in the figure's own: `ms` is 1e6 nanoseconds.
    unit: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Figure {
    /// A latency that this share of all is at most, in nanoseconds.
    Quantile(f64),
    Mean,
    Max,
    Errors,
    /// Failed requests among all, 0 to 1.
    ErrorShare,
    /// Complete answers per second.
    Rate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
}

/// The relations as written, longer ones before what they begin with.
const RELATIONS: [(&str, Relation); 7] = [
    ("<=", Relation::LessOrEqual),
    (">=", Relation::GreaterOrEqual),
    ("==", Relation::Equal),
    ("≤", Relation::LessOrEqual),
    ("=", Relation::Equal),
    ("<", Relation::Less),
    (">", Relation::Greater),
];

/// Units of latencies, in nanoseconds; longer ones first.
const TIMES: [(&str, f64); 5] = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];

impl Condition {
    /// The figure that it looks at, in the unit that it is written in.
    #[must_use]
    pub fn observe(&self, outcome: &Outcome) -> f64 {
        let (total, latency) = (&outcome.total, &outcome.total.response);
        let value = match self.figure {
            Figure::Quantile(quantile) => latency.value_at_quantile(quantile) as f64,
            Figure::Mean => latency.mean(),
            Figure::Max => latency.max() as f64,
            Figure::Errors => total.errors_total() as f64,
            Figure::ErrorShare => {
                let all = total.requests + total.drained + total.errors_total();
                total.errors_total() as f64 / all.max(1) as f64
            }
            Figure::Rate => outcome.requests_per_second(),
        };
        value / self.unit
    }

    /// Whether a run meets it. One without an answer meets no bound on its latency.
    #[must_use]
    pub fn holds(&self, outcome: &Outcome) -> bool {
        let on_latency = matches!(self.figure, Figure::Quantile(_) | Figure::Mean | Figure::Max);
        if on_latency && outcome.total.response.is_empty() {
            return false;
        }
        let seen = self.observe(outcome);
        match self.relation {
            Relation::Less => seen < self.bound,
            Relation::LessOrEqual => seen <= self.bound,
            Relation::Equal => (seen - self.bound).abs() < f64::EPSILON,
            Relation::GreaterOrEqual => seen >= self.bound,
            Relation::Greater => seen > self.bound,
        }
    }

    /// Whether it bounds failures: then failures alone are no reason to call a run bad.
    #[must_use]
    pub fn is_about_errors(&self) -> bool {
        matches!(self.figure, Figure::Errors | Figure::ErrorShare)
    }

    /// Whether it bounds latency, as a search needs.
    #[must_use]
    pub fn is_about_latency(&self) -> bool {
        matches!(self.figure, Figure::Quantile(_) | Figure::Mean | Figure::Max)
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = |why: String| format!("{why}; conditions look like p99<=5ms, errors=0 or rps>=10000");
        let compact: String = text.split_whitespace().collect();
        let (at, sign, relation) = RELATIONS
            .iter()
            .filter_map(|(sign, relation)| compact.find(sign).map(|at| (at, *sign, *relation)))
            .min_by_key(|(at, sign, _)| (*at, usize::MAX - sign.len()))
            .ok_or_else(|| refuse(format!("{text:?} compares nothing")))?;
        let (name, bound) = (&compact[..at], &compact[at + sign.len()..]);
        let figure = figure(name).ok_or_else(|| refuse(format!("{name:?} is no figure of a run")))?;
        let (figure, number, unit) = match figure {
            Figure::Quantile(_) | Figure::Mean | Figure::Max => {
                let (suffix, unit) = TIMES
                    .into_iter()
                    .find(|(suffix, _)| bound.ends_with(suffix))
                    .ok_or_else(|| refuse(format!("{bound:?} lacks its unit: us, ms or s")))?;
                (figure, bound.strip_suffix(suffix).unwrap_or(bound), unit)
            }
            Figure::Errors => match bound.strip_suffix('%') {
                Some(percent) => (Figure::ErrorShare, percent, 0.01),
                None => (figure, bound, 1.0),
            },
            Figure::ErrorShare | Figure::Rate => (figure, bound, 1.0),
        };
        let bound = number
            .parse()
            .ok()
            .filter(|bound: &f64| bound.is_finite() && *bound >= 0.0)
            .ok_or_else(|| refuse(format!("{number:?} is no number from 0 on")))?;
        Ok(Self { text: compact, figure, relation, bound, unit })
    }
}

fn figure(name: &str) -> Option<Figure> {
    match name {
        "mean" | "avg" => Some(Figure::Mean),
        "max" => Some(Figure::Max),
        "median" => Some(Figure::Quantile(0.5)),
        "errors" => Some(Figure::Errors),
        "rps" | "requests_per_second" => Some(Figure::Rate),
        _ => {
            let percent: f64 = name.strip_prefix('p')?.parse().ok()?;
            (percent > 0.0 && percent <= 100.0).then_some(Figure::Quantile(percent / 100.0))
        }
    }
}

impl Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{ErrorKind, Outcome, Pace, Tally};

    fn outcome() -> Outcome {
        let mut total = Tally::new(false);
        for i in 1..=1_000u64 {
            total.note_answer(0, 0, i * 10_000, 200, true);
        }
        total.note_fault(2, ErrorKind::Read, String::new);
        Outcome { total, threads: Vec::new(), elapsed_s: 2.0, pace: Pace::Closed, interrupted: false }
    }

    #[test]
    fn conditions_are_read_and_held_against_a_run() {
        let outcome = outcome();
        for (text, holds) in [
            ("p99<=10ms", true),
            ("p99 < 9.8 ms", false),
            ("p99.9<=10.01ms", true),
            ("p50<=5.01ms", true),
            ("p50<5000us", false),
            ("mean<=5.1ms", true),
            ("max<=0.0101s", true),
            ("median>1ms", true),
            ("errors=0", false),
            ("errors=2", true),
            ("errors<=0.3%", true),
            ("errors<0.1%", false),
            ("rps>=500", true),
            ("rps>500", false),
        ] {
            let condition: Condition = text.parse().expect(text);
            assert_eq!(condition.holds(&outcome), holds, "{text}: {}", condition.observe(&outcome));
        }
        let empty = Outcome { total: Tally::new(false), ..outcome };
        assert!(!"p99<=1s".parse::<Condition>().expect("valid").holds(&empty));
    }

    #[test]
    fn what_is_no_condition_says_why() {
        for (text, why) in [
            ("", "compares nothing"),
            ("p99", "compares nothing"),
            ("p99<=5", "unit"),
            ("p99<=ms", "no number"),
            ("p101<=5ms", "no figure"),
            ("px<=5ms", "no figure"),
            ("errors<=-1", "no number"),
            ("rps>=fast", "no number"),
        ] {
            let error = text.parse::<Condition>().expect_err(text);
            assert!(error.contains(why), "{error}");
        }
    }
}
