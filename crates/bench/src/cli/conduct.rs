//! Runs against a URL, from the first question whether anybody answers to the exit code.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::options::LoadArgs;
use super::outcome::{Ended, Refusal, complain, failure, say};
use super::print;
use super::record::{rfc3339_now, run_of, target_of};
use crate::live::{Interrupt, View};
use crate::load::{Control, ErrorKind, Outcome, Pace, Plan, Tally, run};
use crate::machine;
use crate::result::{Environment, ResultFile, Series};
use crate::sla::{Condition, hunt};

/// Makes runs, shows them while they last, and lets Ctrl-C end them.
#[derive(Debug)]
pub struct Session {
    interrupt: Interrupt,
    view: View,
}

impl Session {
    /// One for this process; `quiet`: nothing is shown while a run lasts.
    #[must_use]
    pub fn new(quiet: bool) -> Self {
        Self { interrupt: Interrupt::watch(), view: View::new(quiet) }
    }

    /// Whether the user has asked for the end.
    #[must_use]
    pub fn interrupted(&self) -> bool {
        self.interrupt.requested()
    }

    /// Makes one run and shows it under `label`.
    ///
    /// # Errors
    /// When its threads can't be started.
    pub fn run(&self, plan: &Plan, label: &str) -> Result<Outcome, String> {
        let control = Control::new(plan.threads);
        std::thread::scope(|scope| {
            let running = scope.spawn(|| run(plan, &control));
            let mut shown = self.view.begin(plan, label);
            while !running.is_finished() {
                if self.interrupted() {
                    control.stop.store(true, Relaxed);
                }
                shown.tick(&control);
            }
            shown.end();
            running.join().unwrap_or_else(|_| Err("a run ended in a panic".into()))
        })
    }

    /// Asks once on one connection, so that a server that can't be measured is told in one clear line before anything
    /// else happens: the first of `plans` that answers, and what was learned of the server.
    ///
    /// # Errors
    /// The words for what is wrong.
    pub fn ask_once(&self, plans: &[Plan]) -> Result<(Plan, Tally), String> {
        let mut why = String::from("the server has no address");
        for plan in plans {
            let question = Plan {
                threads: 1,
                connections: 1,
                depth: 1,
                requests: Some(1),
                warmup: Duration::ZERO,
                duration: plan.timeout + Duration::from_millis(500),
                pace: Pace::Closed,
                ..plan.clone()
            };
            let control = Control::new(1);
            let outcome = std::thread::scope(|scope| {
                let running = scope.spawn(|| run(&question, &control));
                while !running.is_finished() {
                    control.stop.fetch_or(self.interrupted(), Relaxed);
                    std::thread::sleep(Duration::from_millis(2));
                }
                running.join().unwrap_or_else(|_| Err("a run ended in a panic".into()))
            })?;
            if outcome.total.requests > 0 {
                return Ok((plan.clone(), outcome.total));
            }
            let fault = outcome.total.faults().map(|(kind, _, words)| (kind, words.to_owned())).next();
            match fault {
                Some((ErrorKind::Connect, words)) => why = words,
                Some((_, words)) => return Err(words),
                None => return Err(format!("{} gave no answer", plan.endpoint)),
            }
        }
        Err(why)
    }
}

/// Does what `tidegate bench URL` asks for.
///
/// # Errors
/// When the command line makes no sense, or nothing could be measured.
pub fn execute(args: &LoadArgs) -> Result<Ended, Refusal> {
    let plans = args.plans()?;
    machine::raise_open_files(plans[0].connections);
    let session = Session::new(args.quiet || args.json);
    let (plan, seen) = match session.ask_once(&plans) {
        Ok(answered) => answered,
        Err(_) if session.interrupted() => return Ok(Ended::Interrupted),
        Err(why) => return Err(failure(format!("{}: {why}", plans[0].target))),
    };
    let before = machine::CpuTimes::read();
    let mut series = Series {
        name: args.name.clone().unwrap_or_else(|| plan.target.authority.clone()),
        target: target_of(&plan, &seen),
        ..Series::default()
    };
    let started = rfc3339_now();
    let ended = if args.sla.is_empty() {
        repeat(args, &session, &plan, &mut series)?
    } else {
        search(args, &session, &plan, &mut series)?
    };
    let mut file = ResultFile::measured(started, environment(&plan, before));
    file.series.push(series);
    if let Some(path) = &args.out {
        file.write(path).map_err(|error| failure(error.to_string()))?;
    }
    if args.json {
        say(&file.to_json());
    }
    Ok(ended)
}

/// The machine's state, with this command as the client.
fn environment(plan: &Plan, before: machine::CpuTimes) -> Environment {
    let mut environment = machine::environment(before);
    environment.command_lines.insert("client".into(), machine::own_command_line());
    if !plan.cores.is_empty() {
        let cpus = plan.cores.iter().map(|core| *core as u32).collect();
        environment.pinning.push(crate::result::Pin { party: "client".into(), cpus });
    }
    environment
}

fn repeat(args: &LoadArgs, session: &Session, plan: &Plan, series: &mut Series) -> Result<Ended, Refusal> {
    let mut ended = Ended::Fine;
    for order in 0..u32::from(args.runs) {
        if !args.json {
            say(&print::intent(plan));
        }
        let started = rfc3339_now();
        let outcome = session.run(plan, "").map_err(failure)?;
        if !args.json {
            say(&print::outcome(plan, &outcome, args.latency));
        }
        series.runs.push(run_of(plan, &outcome, order, &started));
        ended = worse(ended, judge(args, &outcome));
        if session.interrupted() {
            return Ok(Ended::Interrupted);
        }
    }
    Ok(ended)
}

/// What a run's figures mean for the exit code.
fn judge(args: &LoadArgs, outcome: &Outcome) -> Ended {
    let missed: Vec<&Condition> =
        args.threshold.iter().filter(|condition| !condition.holds(outcome)).collect();
    for condition in &missed {
        complain(&format!("threshold missed: {condition}, measured {:.3}", condition.observe(outcome)));
    }
    let tolerated = args.threshold.iter().any(Condition::is_about_errors);
    if outcome.total.requests == 0 && !outcome.interrupted {
        let why =
            outcome.total.faults().map(|(_, _, words)| words).next().unwrap_or("no answer came in time");
        complain(&format!("nothing was measured: {why}"));
        Ended::Failed
    } else if outcome.total.errors_total() > 0 && !tolerated {
        complain(&format!("{} requests failed", outcome.total.errors_total()));
        Ended::Failed
    } else if missed.is_empty() {
        Ended::Fine
    } else {
        Ended::Missed
    }
}

fn worse(one: Ended, other: Ended) -> Ended {
    if one == Ended::Fine { other } else { one }
}

fn search(args: &LoadArgs, session: &Session, plan: &Plan, series: &mut Series) -> Result<Ended, Refusal> {
    if !args.sla.iter().any(Condition::is_about_latency) {
        return Err(super::usage(
            "--sla needs a condition on latency, such as 'p99<=5ms': without one every load holds",
        ));
    }
    let (over, _) = args.over()?;
    let mut make = |plan: &Plan, phase: &str| {
        if session.interrupted() { Ok(None) } else { session.run(plan, phase).map(Some) }
    };
    let mut tell = |probe: &crate::result::Probe| {
        if !args.json {
            say(&print::probe(probe));
        }
    };
    let found = hunt(plan, over, &args.sla, &mut make, &mut tell).map_err(failure)?;
    let started = rfc3339_now();
    for (order, (plan, outcome)) in (0..).zip(&found.confirming) {
        series.runs.push(run_of(plan, outcome, order, &started));
    }
    if !args.json {
        if let Some((plan, outcome)) = found.confirming.last().filter(|_| found.sla.verdict.met) {
            say(&print::outcome(plan, outcome, args.latency));
        }
        say(&format!("{}\n", found.sla.verdict.message));
    }
    let met = found.sla.verdict.met;
    series.sla = Some(found.sla);
    Ok(match (met, session.interrupted()) {
        (true, _) => Ended::Fine,
        (false, true) => Ended::Interrupted,
        (false, false) => Ended::Missed,
    })
}
