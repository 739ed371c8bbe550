//! A report becomes a document.

use super::document::{Block, Document, Table};
use super::model::{Group, LatencyKind, Report, Row};
use super::number::{self, NONE};
use super::{inventory, pairs, pictures};

/// Lays the whole report out.
pub(super) fn document(report: &Report) -> Document {
    let mut blocks = Vec::new();
    if !report.warnings.is_empty() {
        blocks.push(Block::Warnings(report.warnings.clone()));
    }
    for group in &report.groups {
        section(group, &mut blocks);
    }
    inventory::sources(report, &mut blocks);
    blocks.push(Block::Section("How to read this".to_owned()));
    blocks.push(Block::List(method(report)));
    Document { title: "Benchmark report".to_owned(), lead: lead(report), blocks }
}

fn lead(report: &Report) -> String {
    let rows: Vec<&Row> = report.groups.iter().flat_map(|group| &group.rows).collect();
    let published = rows.iter().filter(|row| row.published).count();
    let kind = match (published, rows.len() - published) {
        (0, _) => "All figures were measured.",
        (_, 0) => "All figures are a publication's; none was measured here.",
        _ => "Figures marked † are a publication's; the others were measured.",
    };
    let scenarios = report.groups.len();
    let files = report.sources.len();
    let noun = |count: usize, one: &str| {
        if count == 1 { format!("{count} {one}") } else { format!("{count} {one}s") }
    };
    format!("{} from {}. {kind}", noun(scenarios, "scenario"), noun(files, "result file"))
}

fn section(group: &Group, blocks: &mut Vec<Block>) {
    blocks.push(Block::Section(group.title()));
    blocks.push(Block::Table(throughput(group)));
    if let Some(picture) = pictures::throughput(group) {
        blocks.push(Block::Picture(picture));
    }
    if let Some(picture) = pictures::relative(group) {
        blocks.push(Block::Picture(picture));
    }
    if group.rows.iter().any(|row| row.mean_latency_ms.is_some()) {
        blocks.push(Block::Heading("Latency".to_owned()));
        blocks.push(Block::Table(latency(group)));
        blocks.extend(pictures::latency(group).map(Block::Picture));
    }
    if group.rows.iter().any(|row| row.price.is_some()) {
        blocks.push(Block::Heading("Price-performance".to_owned()));
        blocks.push(Block::Table(price_performance(group)));
        blocks.extend(pictures::price_performance(group).map(Block::Picture));
    }
    pairs::tables(group, blocks);
    if group.rows.iter().any(|row| row.sla.is_some()) {
        blocks.push(Block::Heading("Highest load under conditions".to_owned()));
        blocks.push(Block::Table(inventory::searches(group)));
        blocks.extend(inventory::probes(group));
    }
    let derived: Vec<String> = group.rows.iter().filter_map(footnote).collect();
    if !derived.is_empty() {
        blocks.push(Block::Heading("Derived, not stated (*)".to_owned()));
        blocks.push(Block::List(derived));
    }
}

fn throughput(group: &Group) -> Table {
    let columns = [
        "",
        "Requests/s",
        "95 % interval",
        "Spread (IQR)",
        "Relative",
        "95 % interval",
        "Change",
        "p",
        "Runs",
        "Errors",
    ];
    let row = |row: &Row| {
        let ratio = row.relative;
        let star = if row.derived.is_some() { " *" } else { "" };
        vec![
            number::name(row),
            cell(row.requests_per_second, number::rate),
            cell(row.interval, |interval| number::interval(interval, number::rate)),
            cell(row.spread, number::rate),
            cell(ratio, |ratio| format!("{}{star}", number::ratio(ratio.value))),
            cell(ratio.and_then(|ratio| ratio.interval), |interval| {
                number::interval(interval, number::ratio)
            }),
            match ratio {
                Some(_) if row.name == group.baseline => "baseline".to_owned(),
                Some(ratio) => number::percent(ratio.value, row.published),
                None => NONE.to_owned(),
            },
            cell(row.test, |test| format!("{:.3}", test.p)),
            if row.published { NONE.to_owned() } else { row.runs.to_string() },
            cell(row.errors, |errors| errors.to_string()),
        ]
    };
    table("Throughput; relative to ", group, &columns, group.rows.iter().map(row).collect())
}

fn latency(group: &Group) -> Table {
    let columns = ["", "Mean (ms)", "p50", "p75", "p90", "p99", "p99.9", "p99.99", "Max", "From"];
    let row = |row: &Row| {
        let of =
            |part: fn(&bench::result::LatencyMs) -> f64| cell(row.latency_ms.as_ref().map(part), number::ms);
        vec![
            number::name(row),
            cell(row.mean_latency_ms, number::ms),
            of(|latency| latency.p50),
            of(|latency| latency.p75),
            of(|latency| latency.p90),
            of(|latency| latency.p99),
            of(|latency| latency.p99_9),
            of(|latency| latency.p99_99),
            of(|latency| latency.max),
            match row.latency_kind {
                LatencyKind::Response => "due (open loop)".to_owned(),
                LatencyKind::Service => "sent (closed loop)".to_owned(),
                LatencyKind::NotStated => NONE.to_owned(),
            },
        ]
    };
    table("Latency in milliseconds", group, &columns, group.rows.iter().map(row).collect())
}

fn price_performance(group: &Group) -> Table {
    let columns =
        ["", "Price", "Million requests per USD", "Relative price-performance", "Change", "Price of"];
    let row = |row: &Row| {
        vec![
            number::name(row),
            cell(row.price.as_ref(), number::price),
            cell(row.million_requests_per_usd, number::rate),
            cell(row.relative_price_performance, number::ratio),
            match row.relative_price_performance {
                Some(_) if row.name == group.baseline => "baseline".to_owned(),
                Some(ratio) => number::percent(ratio, row.published),
                None => NONE.to_owned(),
            },
            cell(row.price.as_ref().filter(|price| !price.date.is_empty()), |price| price.date.clone()),
        ]
    };
    table("Requests for the money; relative to ", group, &columns, group.rows.iter().map(row).collect())
}

/// A caption that ends in "to " is completed by the baseline's name.
fn table(caption: &str, group: &Group, columns: &[&str], rows: Vec<Vec<String>>) -> Table {
    let caption = match caption.ends_with("to ") {
        true => format!("{caption}{}", group.baseline),
        false => caption.to_owned(),
    };
    let columns = columns.iter().map(|column| (*column).to_owned()).collect();
    Table { caption, columns, rows, figures: true }.without_empty_columns()
}

fn cell<T>(value: Option<T>, write: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| NONE.to_owned(), write)
}

/// What a star at a row's figures stands for.
fn footnote(row: &Row) -> Option<String> {
    let price =
        row.price.as_ref().and_then(|price| price.derived.as_ref()).map(|how| format!("price: {how}"));
    let ratio = row.derived.as_ref().map(|how| format!("throughput: {how}"));
    let all: Vec<String> = ratio.into_iter().chain(price).collect();
    (!all.is_empty()).then(|| format!("{}: {}", row.name, all.join("; ")))
}

fn method(report: &Report) -> Vec<String> {
    let rows: Vec<&Row> = report.groups.iter().flat_map(|group| &group.rows).collect();
    let mut lines = vec![
        "Relative is throughput over the baseline's; relative price-performance is that times the baseline's price over the \
         row's own."
            .to_owned(),
    ];
    if rows.iter().any(|row| row.published) {
        lines.push("† A publication's figure: not measured here, without spread; percents are rounded as the source's are.".to_owned());
    }
    if rows.iter().any(|row| !row.published) {
        lines.push("Requests/s is the median of the runs. The 95 % intervals are by bootstrap over runs, with a fixed seed.".to_owned());
        lines.push("p is the Mann-Whitney test against the baseline, both sides; below 0.05 the difference is significant.".to_owned());
    }
    if rows.iter().any(|row| row.latency_kind == LatencyKind::Service && !row.curve.is_empty()) {
        lines.push(
            "Latency from sending (closed loop) is blind to the wait of requests that a slow server kept from being sent."
                .to_owned(),
        );
    }
    let sources = rows.iter().filter_map(|row| row.price.as_ref()).map(|price| &price.source);
    let mut seen: Vec<&String> = Vec::new();
    for source in sources {
        if !seen.contains(&source) {
            seen.push(source);
        }
    }
    lines.extend(seen.into_iter().map(|source| format!("Price: {source}")));
    lines
}
