//! `tidegate bench compare`: do two sets of runs differ, and by how much?

use std::io::Write;

use serde::Serialize;

use super::{CompareArgs, Ratio, ReportError, number};
use bench::result::{ResultFile, Series};
use bench::stats::{MannWhitney, Summary, mann_whitney, ratio_interval};

/// Two series side by side.
#[derive(Debug, Serialize)]
struct Comparison {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    scenario: Option<String>,
    /// Median requests a second of the first and the second file.
    before: f64,
    after: f64,
    runs: (usize, usize),
    ratio: Ratio,
    #[serde(skip_serializing_if = "Option::is_none")]
    test: Option<MannWhitney>,
    significant: bool,
    message: String,
}

#[derive(Serialize)]
struct Comparisons {
    comparisons: Vec<Comparison>,
}

/// Compares every series that both files have (or the only one of each, whatever their names), and says so on `out`.
pub fn compare(args: &CompareArgs, out: &mut dyn Write) -> Result<(), ReportError> {
    let (before, after) = (ResultFile::read(&args.before)?, ResultFile::read(&args.after)?);
    let pairs = pairs(&before, &after);
    let measured = !before.is_published() && !after.is_published();
    let comparisons: Vec<Comparison> =
        pairs.into_iter().filter_map(|(this, that)| of(this, that, measured)).collect();
    if comparisons.is_empty() {
        let message = format!(
            "{} and {} have no series in common that both have a rate of",
            args.before.display(),
            args.after.display()
        );
        return Err(ReportError::NothingToCompare { message });
    }
    let comparisons = Comparisons { comparisons };
    if args.json {
        let text =
            serde_json::to_string_pretty(&comparisons).map_err(|error| ReportError::Output(error.into()))?;
        return writeln!(out, "{text}").map_err(ReportError::Output);
    }
    for comparison in &comparisons.comparisons {
        writeln!(out, "{}", comparison.message).map_err(ReportError::Output)?;
    }
    Ok(())
}

fn pairs<'a>(before: &'a ResultFile, after: &'a ResultFile) -> Vec<(&'a Series, &'a Series)> {
    if let ([this], [that]) = (before.series.as_slice(), after.series.as_slice()) {
        return vec![(this, that)];
    }
    let same = |this: &&Series, that: &&Series| this.name == that.name && this.scenario == that.scenario;
    let pair = |this| after.series.iter().find(|that| same(&this, that)).map(|that| (this, that));
    before.series.iter().filter_map(pair).collect()
}

fn of(before: &Series, after: &Series, measured: bool) -> Option<Comparison> {
    let (old, new) = (before.rates(), after.rates());
    let (was, is) = (Summary::of(&old)?.median, Summary::of(&new)?.median);
    if was <= 0.0 {
        return None;
    }
    let ratio = Ratio { value: is / was, interval: ratio_interval(&new, &old) };
    let test = if measured { mann_whitney(&new, &old) } else { None };
    let significant = test.is_some_and(|test| test.is_significant());
    let name = if before.name == after.name {
        before.name.clone()
    } else {
        format!("{} to {}", before.name, after.name)
    };
    let place = before.scenario.as_ref().map(|scenario| format!("{scenario}, ")).unwrap_or_default();
    let interval = ratio
        .interval
        .map(|interval| format!(", 95 % {}", number::interval(interval, precise)))
        .unwrap_or_default();
    let verdict = verdict(test, old.len(), new.len());
    let message = format!(
        "{place}{name}: {} -> {} requests/s, ratio {}{interval}; {verdict}",
        number::rate(was),
        number::rate(is),
        precise(ratio.value),
    );
    Some(Comparison {
        name,
        scenario: before.scenario.clone(),
        before: was,
        after: is,
        runs: (before.runs.len(), after.runs.len()),
        ratio,
        test,
        significant,
        message,
    })
}

fn verdict(test: Option<MannWhitney>, old: usize, new: usize) -> String {
    let Some(test) = test else { return "published figures: no spread, so nothing to test".to_owned() };
    let (p, level) = (test.p, MannWhitney::LEVEL);
    if test.is_significant() {
        return format!("a significant difference (Mann-Whitney p = {p:.3})");
    }
    if MannWhitney::smallest_p(old, new) >= level {
        return format!(
            "too few runs ({old} and {new}) for any difference to be significant: repeat more often"
        );
    }
    format!("no significant difference (Mann-Whitney p = {p:.3})")
}

/// A change of a few per mille is what a comparison is for.
fn precise(ratio: f64) -> String {
    format!("{ratio:.3}")
}
