//! A search on a real server: each step is a run.

use crate::load::{Outcome, Pace, Plan};
use crate::result::{Histogram, Phase, Probe, Sla, SlaOver, Verdict};
use crate::stats;

use super::condition::Condition;
use super::search::{Range, Report, Search, Step};

/// An open loop that sends less than this share of its schedule doesn't hold its load, whatever its latencies are.
const SENT_MIN: f64 = 0.99;

/// What is varied.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Over {
    /// Requests per second in an open loop; Poisson where asked for.
    Rate {
        /// Random gaps instead of even ones.
        poisson: bool,
    },
    /// Connections in a closed loop, from the first number to the second.
    Connections(usize, usize),
}

/// What a search found.
#[derive(Debug)]
pub struct Hunt {
    /// The record of all probes and the verdict.
    pub sla: Sla,
    /// The runs that confirmed the load, or the last ones that failed to; what a result file keeps in full.
    pub confirming: Vec<(Plan, Outcome)>,
}

/// Makes a run of a plan under a label; nothing where the user has asked for the end.
pub type Run<'a> = dyn FnMut(&Plan, &str) -> Result<Option<Outcome>, String> + 'a;

/// Searches. `run` makes a run and `tell` is given each probe as it ends.
///
/// # Errors
/// When a run can't be made; `None` in its place ends the search early, with what is known so far.
pub fn hunt(
    base: &Plan,
    over: Over,
    conditions: &[Condition],
    run: &mut Run<'_>,
    tell: &mut dyn FnMut(&Probe),
) -> Result<Hunt, String> {
    let (range, sla_over) = match over {
        Over::Rate { .. } => (Range { lowest: 1.0, highest: f64::INFINITY, whole: false }, SlaOver::Rate),
        Over::Connections(lowest, highest) => {
            (Range { lowest: lowest as f64, highest: highest as f64, whole: true }, SlaOver::Connections)
        }
    };
    let mut search = Search::new(range);
    let (mut probes, mut confirming): (Vec<Probe>, Vec<(Plan, Outcome)>) = (Vec::new(), Vec::new());
    let mut confirmed_load = f64::NAN;
    let found = loop {
        let (phase, load) = match search.step() {
            Step::Done(found) => break found,
            Step::Ceiling => (Phase::Ceiling, 0.0),
            Step::Probe(phase, load) => (phase, load),
        };
        let plan = plan_for(base, over, phase, load);
        let Some(outcome) = run(&plan, name(phase))? else { break None };
        if outcome.interrupted {
            break None;
        }
        let probe = probe(phase, load, &outcome, conditions);
        tell(&probe);
        search.report(Report { met: probe.met, achieved: outcome.requests_per_second() });
        probes.push(probe);
        if phase == Phase::Confirm {
            if load != confirmed_load {
                confirming.clear();
                confirmed_load = load;
            }
            confirming.push((plan, outcome));
        }
    };
    let ended = matches!(search.step(), Step::Done(_));
    let verdict = verdict(found, ended, sla_over, conditions, &confirming);
    let conditions = conditions.iter().map(ToString::to_string).collect();
    Ok(Hunt { sla: Sla { conditions, over: sla_over, probes, verdict }, confirming })
}

fn plan_for(base: &Plan, over: Over, phase: Phase, load: f64) -> Plan {
    let mut plan = base.clone();
    match over {
        _ if phase == Phase::Ceiling => plan.pace = Pace::Closed,
        Over::Rate { poisson: true } => plan.pace = Pace::Poisson(load),
        Over::Rate { poisson: false } => plan.pace = Pace::Constant(load),
        Over::Connections(..) => {
            plan.pace = Pace::Closed;
            plan.connections = (load as usize).max(1);
            plan.threads = base.threads.min(plan.connections);
        }
    }
    plan
}

fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Ceiling => "ceiling",
        Phase::Rise => "rise",
        Phase::Bisect => "bisect",
        Phase::Confirm => "confirm",
    }
}

fn probe(phase: Phase, load: f64, outcome: &Outcome, conditions: &[Condition]) -> Probe {
    let kept = outcome.sent_share() >= SENT_MIN;
    let limits: Vec<String> = outcome.client_limits().iter().map(ToString::to_string).collect();
    Probe {
        phase,
        load,
        requests_per_second: outcome.requests_per_second(),
        met: kept && conditions.iter().all(|condition| condition.holds(outcome)),
        observed: conditions.iter().map(|one| (one.to_string(), one.observe(outcome))).collect(),
        latency_ms: Some(Histogram::from(outcome.total.response.clone()).latency()),
        client_limit: (!limits.is_empty()).then(|| limits.join("; ")),
    }
}

fn verdict(
    found: Option<f64>,
    ended: bool,
    over: SlaOver,
    conditions: &[Condition],
    confirming: &[(Plan, Outcome)],
) -> Verdict {
    let rates: Vec<f64> = confirming.iter().map(|(_, outcome)| outcome.requests_per_second()).collect();
    let rate = found.and_then(|_| stats::median(&rates)).unwrap_or_default();
    let held = confirming
        .iter()
        .filter(|(_, outcome)| {
            outcome.sent_share() >= SENT_MIN && conditions.iter().all(|one| one.holds(outcome))
        })
        .count();
    let wanted = conditions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
    let message = match (found, over) {
        (Some(load), SlaOver::Rate) => format!("{wanted} holds up to {load:.0} requests per second"),
        (Some(load), SlaOver::Connections) => {
            format!("{wanted} holds up to {load:.0} connections, with {rate:.0} requests per second")
        }
        (None, _) if ended => format!("{wanted} held at no load that could be confirmed"),
        (None, _) => "the search was ended before its time".into(),
    };
    Verdict {
        met: found.is_some(),
        load: found.unwrap_or_default(),
        requests_per_second: rate,
        confirmed: if found.is_some() { held as u32 } else { 0 },
        message,
    }
}
