//! What types alone cannot say of a result file: numbers in range, and that each file holds what its provenance promises.

use std::collections::BTreeSet;

use super::{Published, ResultFile, Run, Series, Sla};

/// A place in the JSON and what is wrong there.
type Mistake = (String, String);

pub(super) fn check(file: &ResultFile) -> Result<(), Mistake> {
    if file.series.is_empty() {
        return mistake("series".to_owned(), "at least one is needed");
    }
    let mut seen = BTreeSet::new();
    for (index, series) in file.series.iter().enumerate() {
        let path = format!("series[{index}]");
        if series.name.trim().is_empty() {
            return mistake(format!("{path}.name"), "must not be empty");
        }
        if !seen.insert((&series.scenario, &series.name)) {
            return mistake(format!("{path}.name"), "is there twice for the same scenario");
        }
        check_series(series, file.is_published(), &path)?;
    }
    Ok(())
}

fn check_series(series: &Series, published: bool, path: &str) -> Result<(), Mistake> {
    match (&series.published, published) {
        (None, true) => {
            return mistake(format!("{path}.published"), "is missing in a file of published figures");
        }
        (Some(_), false) => {
            return mistake(format!("{path}.published"), "stands in a file of measured figures");
        }
        (Some(figures), true) => check_published(figures, &format!("{path}.published"))?,
        (None, false) => {}
    }
    if published && !series.runs.is_empty() {
        return mistake(format!("{path}.runs"), "published figures have no runs");
    }
    for (index, run) in series.runs.iter().enumerate() {
        check_run(run, &format!("{path}.runs[{index}]"))?;
    }
    match &series.sla {
        Some(sla) => check_sla(sla, &format!("{path}.sla")),
        None => Ok(()),
    }
}

fn check_run(run: &Run, path: &str) -> Result<(), Mistake> {
    above_zero(run.duration_s, &format!("{path}.duration_s"))?;
    at_least_zero(run.requests_per_second, &format!("{path}.requests_per_second"))?;
    at_least_zero(run.client.cpu_s, &format!("{path}.client.cpu_s"))?;
    at_least_zero(run.client.busiest_thread, &format!("{path}.client.busiest_thread"))
}

fn check_sla(sla: &Sla, path: &str) -> Result<(), Mistake> {
    for (index, probe) in sla.probes.iter().enumerate() {
        at_least_zero(probe.load, &format!("{path}.probes[{index}].load"))?;
        at_least_zero(probe.requests_per_second, &format!("{path}.probes[{index}].requests_per_second"))?;
    }
    at_least_zero(sla.verdict.load, &format!("{path}.verdict.load"))?;
    at_least_zero(sla.verdict.requests_per_second, &format!("{path}.verdict.requests_per_second"))
}

fn check_published(figures: &Published, path: &str) -> Result<(), Mistake> {
    if figures.requests_per_second.is_none() && figures.relative.is_none() {
        return mistake(path.to_owned(), "needs `requests_per_second` or `relative`");
    }
    for (name, value) in [
        ("requests_per_second", figures.requests_per_second),
        ("mean_latency_ms", figures.mean_latency_ms),
        ("relative.throughput", figures.relative.as_ref().map(|relative| relative.throughput)),
    ] {
        if let Some(value) = value {
            above_zero(value, &format!("{path}.{name}"))?;
        }
    }
    Ok(())
}

fn above_zero(value: f64, path: &str) -> Result<(), Mistake> {
    match value.is_finite() && value > 0.0 {
        true => Ok(()),
        false => mistake(path.to_owned(), "must be above 0"),
    }
}

fn at_least_zero(value: f64, path: &str) -> Result<(), Mistake> {
    match value.is_finite() && value >= 0.0 {
        true => Ok(()),
        false => mistake(path.to_owned(), "must be at least 0"),
    }
}

fn mistake(path: String, message: &str) -> Result<(), Mistake> {
    Err((path, message.to_owned()))
}
