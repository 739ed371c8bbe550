//! Files become a report: series of one scenario side by side, each against the baseline, with prices.

use super::model::{Group, Ratio, Report, Row, Source};
use super::{NamedPrice, ReportError};
use crate::prices::{Price, PriceList, Unit};
use bench::result::{Machine, Provenance, ResultFile};
use bench::stats::{MannWhitney, mann_whitney, ratio_interval};

/// Where prices come from.
#[derive(Debug)]
pub(super) enum Prices {
    List(PriceList),
    Named(Vec<NamedPrice>),
}

/// Makes the report. `today` decides whether a price is old.
pub(super) fn gather(
    files: &[(String, ResultFile)],
    baseline: Option<&str>,
    prices: &Prices,
    today: jiff::civil::Date,
) -> Result<Report, ReportError> {
    let mut groups: Vec<(Group, Vec<Option<Machine>>)> = Vec::new();
    for (name, result) in files {
        for series in &result.series {
            let at =
                groups.iter().position(|(group, _)| group.scenario == series.scenario).unwrap_or_else(|| {
                    let slug = unique_slug(series.scenario.as_deref(), &groups);
                    let scenario = series.scenario.clone();
                    let group = Group { scenario, slug, baseline: String::new(), rows: Vec::new() };
                    groups.push((group, Vec::new()));
                    groups.len() - 1
                });
            if let Some((group, machines)) = groups.get_mut(at) {
                group.rows.push(Row::of(name, result, series));
                machines.push(result.environment.machine.clone());
            }
        }
    }
    let mut report =
        Report { groups: Vec::new(), sources: files.iter().map(source).collect(), warnings: Vec::new() };
    for (mut group, machines) in groups {
        make_names_unique(&mut group.rows);
        price(&mut group.rows, &machines, prices, today);
        report.groups.push(group);
    }
    choose_baselines(&mut report, baseline)?;
    check_named(&report, prices)?;
    for group in &mut report.groups {
        compare_with_baseline(group);
    }
    report.warnings.extend(warnings(&report));
    Ok(report)
}

/// A scenario's name with everything but letters and digits made a hyphen, and a number if another one has that already.
fn unique_slug<T>(scenario: Option<&str>, groups: &[(Group, T)]) -> String {
    let kept = |character: char| if character.is_ascii_alphanumeric() { character } else { '-' };
    let wanted: String = scenario.unwrap_or("plain").chars().map(kept).collect();
    let mut slug = wanted.clone();
    let mut number = 2;
    while groups.iter().any(|(group, _)| group.slug == slug) {
        slug = format!("{wanted}-{number}");
        number += 1;
    }
    slug
}

fn source((file, result): &(String, ResultFile)) -> Source {
    let tool = format!("{} {}", result.tool.name, result.tool.version);
    let (origin, url) = match &result.provenance {
        Provenance::Measured => {
            let when = result.started.as_deref().unwrap_or("at an unknown time");
            (format!("measured by {} {when}", tool.trim()), None)
        }
        Provenance::Published { source, date, url } => {
            let date = date.as_ref().filter(|date| !source.contains(date.as_str()));
            let date = date.map(|date| format!(", {date}")).unwrap_or_default();
            (format!("published, not measured: {source}{date}"), url.clone())
        }
    };
    Source {
        file: file.clone(),
        origin,
        url,
        published: result.is_published(),
        environment: result.environment.clone(),
        notes: result.notes.clone(),
    }
}

/// Two files may call their servers the same: then the file's name tells them apart.
fn make_names_unique(rows: &mut [Row]) {
    let names: Vec<String> = rows.iter().map(|row| row.name.clone()).collect();
    for row in rows.iter_mut() {
        if names.iter().filter(|name| **name == row.name).count() > 1 {
            let stem =
                std::path::Path::new(&row.file).file_stem().map(|stem| stem.to_string_lossy().into_owned());
            row.name = format!("{} ({})", row.name, stem.unwrap_or_else(|| row.file.clone()));
        }
    }
    // The same file twice, or two folders' files of one name.
    let mut seen: Vec<String> = Vec::new();
    for row in rows {
        let wanted = row.name.clone();
        for number in 2.. {
            if !seen.contains(&row.name) {
                break;
            }
            row.name = format!("{wanted} #{number}");
        }
        seen.push(row.name.clone());
    }
}

fn choose_baselines(report: &mut Report, wanted: Option<&str>) -> Result<(), ReportError> {
    let has = |group: &Group, name: &str| group.rows.iter().any(|row| row.name == name);
    if let Some(wanted) = wanted.filter(|wanted| !report.groups.iter().any(|group| has(group, wanted))) {
        return Err(ReportError::NoBaseline { wanted: wanted.to_owned(), names: names(report) });
    }
    for group in &mut report.groups {
        group.baseline = match wanted.filter(|wanted| has(group, wanted)) {
            Some(wanted) => wanted.to_owned(),
            None => group.rows.first().map(|row| row.name.clone()).unwrap_or_default(),
        };
        if let Some(wanted) = wanted.filter(|wanted| *wanted != group.baseline) {
            let scenario = group.scenario.as_deref().unwrap_or("the plain runs");
            report
                .warnings
                .push(format!("{scenario}: no {wanted} here, so the baseline is {}", group.baseline));
        }
    }
    Ok(())
}

/// A price for a name that no row has is a mistake of the command line.
fn check_named(report: &Report, prices: &Prices) -> Result<(), ReportError> {
    let Prices::Named(named) = prices else { return Ok(()) };
    let names = names(report);
    match named.iter().filter_map(|price| price.name.as_ref()).find(|name| !names.contains(name)) {
        Some(wanted) => Err(ReportError::NoPriced { wanted: wanted.clone(), names }),
        None => Ok(()),
    }
}

fn names(report: &Report) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for row in report.groups.iter().flat_map(|group| &group.rows) {
        if !names.contains(&row.name) {
            names.push(row.name.clone());
        }
    }
    names
}

fn price(rows: &mut [Row], machines: &[Option<Machine>], prices: &Prices, today: jiff::civil::Date) {
    match prices {
        Prices::Named(named) => {
            for row in rows.iter_mut() {
                let own = named.iter().rev().find(|price| price.name.as_ref() == Some(&row.name));
                let found = own.or_else(|| named.iter().rev().find(|price| price.name.is_none()));
                row.price = found.map(|price| Price {
                    amount: price.usd_per_hour,
                    unit: Unit::UsdPerHour,
                    derived: None,
                    source: "named by the user".to_owned(),
                    date: String::new(),
                    is_old: false,
                });
            }
        }
        Prices::List(list) => {
            let known: Vec<&Machine> = machines.iter().flatten().collect();
            let mut found = list.comparable(&known, today).into_iter();
            for (row, _) in rows.iter_mut().zip(machines).filter(|(_, machine)| machine.is_some()) {
                row.price = found.next().flatten();
            }
        }
    }
    for row in rows {
        let usd = row.price.as_ref().filter(|price| price.unit == Unit::UsdPerHour).map(|price| price.amount);
        row.million_requests_per_usd =
            row.requests_per_second.zip(usd).map(|(rate, usd)| rate * 3600.0 / usd / 1e6);
    }
}

fn compare_with_baseline(group: &mut Group) {
    let Some(base) = group.rows.iter().find(|row| row.name == group.baseline).cloned() else { return };
    for row in &mut group.rows {
        // Against itself the baseline is 1 exactly.
        let is_other = row.name != base.name;
        row.relative = throughput_over(row, &base).map(|value| Ratio {
            value,
            interval: if is_other { ratio_interval(&row.rates, &base.rates) } else { None },
        });
        row.relative_price_performance = price_performance_over(row, &base);
        if is_other && !row.published && !base.published {
            row.test = mann_whitney(&row.rates, &base.rates);
        }
    }
}

/// Throughput over another row's.
pub(super) fn throughput_over(row: &Row, base: &Row) -> Option<f64> {
    row.strength.as_ref()?.over(base.strength.as_ref()?)
}

/// Requests for a price over another row's.
pub(super) fn price_performance_over(row: &Row, base: &Row) -> Option<f64> {
    let (own, other) = (row.price.as_ref()?, base.price.as_ref()?);
    let same_unit = own.unit == other.unit;
    throughput_over(row, base).filter(|_| same_unit).map(|ratio| ratio * other.amount / own.amount)
}

fn warnings(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    for group in &report.groups {
        let published = group.rows.iter().filter(|row| row.published).count();
        if published > 0 && published < group.rows.len() {
            let scenario = group.scenario.as_deref().unwrap_or("the plain runs");
            warnings.push(format!(
                "{scenario}: measured and published figures side by side; they were not taken alike"
            ));
        }
        warnings.extend(group.rows.iter().flat_map(row_warnings));
    }
    let mut old: Vec<(&str, &str)> = Vec::new();
    for price in report.groups.iter().flat_map(|group| &group.rows).filter_map(|row| row.price.as_ref()) {
        if price.is_old && !old.contains(&(price.source.as_str(), price.date.as_str())) {
            old.push((&price.source, &price.date));
        }
    }
    let old = old.iter().map(|(source, date)| {
        format!("prices of {date} are more than a year old ({source}); name today's with --prices or --price-per-hour")
    });
    warnings.extend(old);
    warnings
}

fn row_warnings(row: &Row) -> Vec<String> {
    let mut warnings = Vec::new();
    let name = &row.name;
    if !row.published && row.runs == 0 {
        warnings.push(format!("{name}: no runs"));
    }
    if let Some(limit) = row.client_limits.first() {
        let (count, runs) = (row.client_limits.len(), row.runs);
        warnings.push(format!(
            "{name}: in {count} of {runs} runs the client was the limit, not the server ({limit})"
        ));
    }
    if let Some(errors) = row.errors.filter(|errors| *errors > 0) {
        warnings.push(format!("{name}: {errors} failed requests"));
    }
    if (1..3).contains(&row.runs) {
        warnings.push(format!("{name}: {} run(s); at least 3 are needed to know the spread", row.runs));
    }
    if let Some(test) = row.test.filter(|test| !test.is_significant()) {
        let level = MannWhitney::LEVEL;
        warnings.push(format!(
            "{name}: no significant difference from the baseline (p = {:.3}, not below {level})",
            test.p
        ));
    }
    warnings
}
