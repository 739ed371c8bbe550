//! The rounds of a scenario: A B B A, so that a drift of the machine hits both alike.

use super::ScenarioArgs;
use super::stage::Stage;
use crate::cli::{Ended, Refusal, Session, failure, rfc3339_now, run_of, say, target_of, usage};
use crate::machine;
use crate::result::{ResultFile, Series};

/// Runs a scenario whose gateway has `route`, or serves files.
pub(super) fn run(args: &ScenarioArgs, route: Option<&str>) -> Result<Ended, Refusal> {
    if args.duration.is_zero() || args.rate.is_some_and(|rate| rate <= 0.0 || !rate.is_finite()) {
        return Err(usage("the duration and the rate must be above 0"));
    }
    machine::raise_open_files(usize::from(args.connections));
    let session = Session::new(args.quiet || args.json);
    let stage = Stage::set(args, route, &session).map_err(failure)?;
    let (started, before) = (rfc3339_now(), machine::CpuTimes::read());
    let mut series: Vec<Series> = stage
        .measured
        .iter()
        .map(|measured| {
            let mut target = target_of(&measured.plan, &measured.seen);
            target.workers = Some(if measured.name == "tidegate" { u32::from(args.worker) } else { 1 });
            if args.peer.as_deref().is_some_and(|peer| measured.name == "peer" && peer.contains('/')) {
                target.workers = None;
            }
            Series {
                name: measured.name.clone(),
                scenario: Some(args.scenario.name().to_owned()),
                target,
                ..Series::default()
            }
        })
        .collect();
    let mut failed = false;
    let order = order(stage.measured.len(), usize::from(args.rounds));
    for (place, who) in (0u32..).zip(&order) {
        let measured = &stage.measured[*who];
        let began = rfc3339_now();
        let label = format!("{} {}/{}", measured.name, place + 1, order.len());
        let outcome = session.run(&measured.plan, &label).map_err(failure)?;
        if session.interrupted() {
            break;
        }
        failed |= outcome.total.errors_total() > 0;
        let run = run_of(&measured.plan, &outcome, place, &began);
        if !args.json {
            let latency = crate::result::Histogram::from(outcome.total.response.clone()).latency();
            say(&format!(
                "{label:<16} {:>10.1} requests/s   p50 {:.3} ms   p99 {:.3} ms   {} errors{}\n",
                run.requests_per_second,
                latency.p50,
                latency.p99,
                run.errors.total(),
                run.client.limit.as_ref().map(|limit| format!("   ({limit})")).unwrap_or_default()
            ));
        }
        series[*who].runs.push(run);
    }
    let mut environment = machine::environment(before);
    environment.pinning = stage.pinning();
    environment.command_lines = stage.command_lines().into_iter().collect();
    environment.command_lines.insert("client".into(), machine::own_command_line());
    environment.versions = versions(args);
    let mut file = ResultFile::measured(started, environment);
    file.series = series.into_iter().filter(|series| !series.runs.is_empty()).collect();
    finish(args, &session, &file, failed)
}

fn finish(args: &ScenarioArgs, session: &Session, file: &ResultFile, failed: bool) -> Result<Ended, Refusal> {
    if let Some(path) = args.out.as_ref().filter(|_| !file.series.is_empty()) {
        file.write(path).map_err(|error| failure(error.to_string()))?;
    }
    if args.json {
        say(&file.to_json());
    } else {
        let medians: Vec<(&str, f64)> = file
            .series
            .iter()
            .filter_map(|series| Some((&*series.name, series.requests_per_second()?)))
            .collect();
        for (name, rate) in &medians {
            say(&format!("{name}: {rate:.1} requests/s in the median\n"));
        }
        if let [(ours, rate), (theirs, other)] = medians[..] {
            say(&format!("{ours} / {theirs}: {:.3}\n", rate / other.max(f64::MIN_POSITIVE)));
        }
    }
    Ok(match (session.interrupted(), failed) {
        (true, _) => Ended::Interrupted,
        (false, true) => Ended::Failed,
        (false, false) => Ended::Fine,
    })
}

/// Who is measured when: one alone again and again, two as A B B A.
fn order(count: usize, rounds: usize) -> Vec<usize> {
    let forward = 0..count;
    let round: Vec<usize> = forward.clone().chain(forward.rev()).collect();
    round.repeat(rounds)
}

fn versions(args: &ScenarioArgs) -> crate::result::Texts {
    let mut versions = crate::result::Texts::new();
    versions.insert("tidegate".into(), env!("CARGO_PKG_VERSION").into());
    for name in ["nginx", "haproxy"] {
        if name == "haproxy" && args.peer.as_deref() != Some(name) {
            continue;
        }
        let Ok(path) = super::party::program(name) else { continue };
        let Ok(output) = std::process::Command::new(path).arg("-v").output() else { continue };
        let text = [output.stdout, output.stderr].concat();
        if let Some(line) = String::from_utf8_lossy(&text).lines().next() {
            versions.insert(name.into(), line.to_owned());
        }
    }
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_taken_so_that_drift_hits_both() {
        assert_eq!(order(2, 2), [0, 1, 1, 0, 0, 1, 1, 0]);
        assert_eq!(order(1, 2), [0, 0, 0, 0]);
    }
}
