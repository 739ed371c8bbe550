//! Whole reports: the studies' tables from the shipped files, and what measured files add.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::gather::{Prices, gather};
use super::model::Report;
use super::{CompareArgs, NamedPrice, ReportArgs, ReportError, Study, compare, compose, html, markdown, run};
use crate::prices::PriceList;
use bench::result::{Client, Environment, Errors, Histogram, ResultFile, Run, Series, Settings};

/// The shipped files of a study.
fn published(study: Study) -> Vec<(String, ResultFile)> {
    study.files().unwrap()
}

/// A measured file with one series; `rates` are its runs'.
fn measured(name: &str, rates: &[f64]) -> ResultFile {
    let run = |(order, rate): (usize, &f64)| {
        let mut times = Histogram::new();
        (1..2_000).for_each(|step| times.record_ns(1_000_000 + step * step * 4));
        Run {
            order: order as u32,
            started: None,
            settings: Settings::default(),
            duration_s: 10.0,
            requests: (rate * 10.0) as u64,
            requests_per_second: *rate,
            errors: Errors::default(),
            statuses: [].into(),
            bytes_received: 0,
            bytes_sent: 0,
            schedule: None,
            client: Client::default(),
            service_time: Some(times),
            response_time: None,
        }
    };
    let mut file = ResultFile::measured("2026-11-20T10:00:00Z", Environment::default());
    file.series.push(Series {
        name: name.to_owned(),
        scenario: Some("single-upstream".to_owned()),
        runs: rates.iter().enumerate().map(run).collect(),
        ..Series::default()
    });
    file
}

fn two_measured() -> Vec<(String, ResultFile)> {
    vec![
        ("a.json".to_owned(), measured("tidegate", &[20_100.0, 20_400.0, 19_900.0, 20_300.0, 20_200.0])),
        ("b.json".to_owned(), measured("nginx", &[12_100.0, 12_400.0, 11_900.0, 12_300.0, 12_200.0])),
    ]
}

fn report_of(
    files: &[(String, ResultFile)],
    baseline: Option<&str>,
    prices: &Prices,
) -> Result<Report, ReportError> {
    gather(files, baseline, prices, "2026-11-20".parse().unwrap())
}

fn shipped() -> Prices {
    Prices::List(PriceList::shipped().unwrap())
}

/// Compares with a file of `golden/`; `TIDEGATE_BLESS=1` writes it anew.
fn check_golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/report/golden").join(name);
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{name} differs; TIDEGATE_BLESS=1 writes it anew");
}

#[test]
fn the_studies_tables_are_reproduced() {
    for (golden, study, baseline) in [
        ("google.md", Study::Google, "T2D"),
        ("azure.md", Study::Azure, "Ddsv5"),
        ("https.md", Study::Https, "N2"),
    ] {
        let report = report_of(&published(study), Some(baseline), &shipped()).unwrap();
        check_golden(golden, &markdown::write(&compose::document(&report), false));
    }
}

#[test]
fn the_studies_figures_stand_in_the_tables() {
    let tables = |study: Study, baseline| {
        markdown::write(
            &compose::document(&report_of(&published(study), Some(baseline), &shipped()).unwrap()),
            false,
        )
    };
    let google = tables(Study::Google, "T2D");
    let azure = tables(Study::Azure, "Ddsv5");
    let https = tables(Study::Https, "N2");
    for (text, lines) in [
        (&google, &["| T2D † | 12500 |", "| T2A † | 11300 |", "| T2D † | 10600 |", "| T2A † | 9900 |"][..]),
        (
            &google,
            &[
                "| T2D † | 1.26 |",
                "| T2A † | 1.39 |",
                "| T2D † | 1.45 |",
                "| T2A † | 1.60 |",
                "| 0.90 × T2D |",
            ],
        ),
        (
            &azure,
            &["| Ddsv5 † | 14900 |", "| Dpdsv5 † | 13400 |", "| Ddsv5 † | 13100 |", "| Dpdsv5 † | 11000 |"],
        ),
        (
            &azure,
            &[
                "| Ddsv5 † | 1.07 |",
                "| Dpdsv5 † | 1.21 |",
                "| Ddsv5 † | 1.21 |",
                "| Dpdsv5 † | 1.43 |",
                "| 0.80 × Ddsv5 |",
            ],
        ),
        (&https, &["| 1.232 USD/h |", "| 1.553888 USD/h |", "| 1.351872 USD/h |"]),
        (&https, &["| T2A † | +15 % | +1 % | – |", "| T2A † | +45 % | +11 % | – |"]),
    ] {
        for line in lines {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }
}

#[test]
fn measured_files_have_intervals_tests_and_curves() {
    let report = report_of(&two_measured(), Some("nginx"), &shipped()).unwrap();
    let row = &report.groups[0].rows[0];
    let ratio = row.relative.unwrap();
    assert!((ratio.value - 20_200.0 / 12_200.0).abs() < 1e-9 && ratio.interval.unwrap().holds(ratio.value));
    assert!(row.test.unwrap().is_significant());
    let text = html::write(&compose::document(&report));
    for part in ["latency by percentile", "class=\"e\"", "stroke-dasharray", "0.008"] {
        assert!(text.contains(part), "{part}");
    }
    assert!(!text.contains("†"), "nothing is published here");
}

#[test]
fn measured_and_published_are_told_apart() {
    let mut files = published(Study::Google);
    files.extend(two_measured());
    let report = report_of(&files, None, &shipped()).unwrap();
    assert!(report.warnings.iter().any(|warning| warning.contains("side by side")), "{:?}", report.warnings);
    assert!(report.groups[0].rows[2].test.is_none(), "a published figure has no spread to test against");
}

#[test]
fn prices_can_be_named() {
    let named = |texts: &[&str]| {
        Prices::Named(texts.iter().map(|text| text.parse::<NamedPrice>().unwrap()).collect())
    };
    let report = report_of(&two_measured(), Some("nginx"), &named(&["2", "nginx=1"])).unwrap();
    let rows = &report.groups[0].rows;
    assert_eq!(rows[0].price.as_ref().unwrap().amount, 2.0);
    assert_eq!(rows[1].price.as_ref().unwrap().amount, 1.0);
    assert!((rows[0].relative_price_performance.unwrap() - 20_200.0 / 12_200.0 / 2.0).abs() < 1e-9);
    assert!((rows[1].million_requests_per_usd.unwrap() - 12_200.0 * 3600.0 / 1e6).abs() < 1e-9);
    let error = report_of(&two_measured(), None, &named(&["T2A=1"])).unwrap_err().to_string();
    assert_eq!(error, "--price-per-hour T2A=..: nothing of that name; there is tidegate, nginx");
}

#[test]
fn a_baseline_that_is_not_there_names_those_that_are() {
    let error = report_of(&two_measured(), Some("haproxy"), &shipped()).unwrap_err().to_string();
    assert_eq!(error, "--baseline haproxy: nothing of that name; there is tidegate, nginx");
}

#[test]
fn equal_names_are_told_apart_by_their_files() {
    let files: Vec<(String, ResultFile)> = ["old.json", "new.json", "new.json"]
        .map(|file| (file.to_owned(), measured("tidegate", &[1.0])))
        .into();
    let report = report_of(&files, None, &shipped()).unwrap();
    let names: Vec<&str> = report.groups[0].rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["tidegate (old)", "tidegate (new)", "tidegate (new) #2"]);
}

#[test]
fn names_are_never_markup_and_nothing_is_fetched() {
    let mut files = two_measured();
    files[0].1.series[0].name = "<script>alert(1)</script>|\"".to_owned();
    files[0].1.series[0].scenario = Some("../<x> \"y\"".to_owned());
    files[0].1.notes.push("<img src=x onerror=y>".to_owned());
    let document = compose::document(&report_of(&files, None, &shipped()).unwrap());
    let page = html::write(&document);
    assert!(!page.contains("<script") && !page.contains("<img"));
    for outside in ["src=", "href=", "@import", "url(http"] {
        let plain = page.replace("&lt;img src=x", "");
        assert!(!plain.contains(outside), "{outside}");
    }
    assert!(markdown::write(&document, true).contains("throughput-----x---y-.svg"));
}

#[test]
fn the_command_writes_a_folder_or_json() {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<PathBuf> = two_measured()
        .into_iter()
        .map(|(name, file)| {
            let path = folder.path().join(name);
            file.write(&path).unwrap();
            path
        })
        .collect();
    let mut args = ReportArgs {
        files: files.clone(),
        published: Vec::new(),
        baseline: None,
        prices: None,
        price_per_hour: Vec::new(),
        out: folder.path().join("deep/out"),
        json: false,
    };
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    run(&args, &mut out, &mut notes).unwrap();
    assert!(String::from_utf8(out).unwrap().starts_with("# Benchmark report"));
    for name in ["report.md", "report.html", "throughput-single-upstream.svg", "latency-single-upstream.svg"]
    {
        assert!(args.out.join(name).is_file(), "{name}");
    }
    args.json = true;
    let mut out = Vec::new();
    run(&args, &mut out, &mut Vec::new()).unwrap();
    let value: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(value["groups"][0]["rows"][1]["requests_per_second"], 12_200.0);

    let args = CompareArgs { before: files[1].clone(), after: files[0].clone(), json: false };
    let mut out = Vec::new();
    compare(&args, &mut out).unwrap();
    let said = String::from_utf8(out).unwrap();
    assert!(said.contains("nginx to tidegate: 12200 -> 20200 requests/s, ratio 1.656"), "{said}");
    assert!(said.contains("a significant difference (Mann-Whitney p = 0.008)"), "{said}");
    let missing =
        CompareArgs { before: folder.path().join("none.json"), after: files[0].clone(), json: true };
    assert!(compare(&missing, &mut Vec::new()).unwrap_err().to_string().contains("none.json"));
}

#[test]
fn pictures_of_scenarios_with_like_names_have_their_own_files() {
    let mut files = two_measured();
    files[0].1.series[0].scenario = Some("a b".to_owned());
    files[1].1.series[0].scenario = Some("a-b".to_owned());
    let text = markdown::write(&compose::document(&report_of(&files, None, &shipped()).unwrap()), true);
    assert!(text.contains("(throughput-a-b.svg)") && text.contains("(throughput-a-b-2.svg)"), "{text}");
}
