//! `cargo xtask ci`: the one command that says whether a change is good, here and in CI alike.
//!
//! Cheap steps come first and the first failure ends the run, so that a wrong comma costs seconds. Everything is
//! built in one profile (dev), and the lints and the docs share their compiled metadata: a second profile would
//! double the longest step.

mod machine;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::cargo::{self, judge};
use crate::{deny, tidy};

/// One step of the run.
struct Step {
    name: &'static str,
    run: fn(&Path) -> anyhow::Result<()>,
}

const STEPS: &[Step] = &[
    Step { name: "machine", run: |_| machine::ensure() },
    Step { name: "format", run: |root| cargo::run(root, &["fmt", "--all", "--check"], &[]) },
    Step { name: "tidy", run: tidy::run },
    Step { name: "deny", run: deny::run },
    Step { name: "lints", run: lints },
    // `cargo test` alone builds a binary only for the tests of its own package; the end-to-end tests start
    // `tidegate` from theirs. All targets, because tests ask for more features of some crates: those, and all above
    // them, would be built a second time.
    Step {
        name: "build",
        run: |root| cargo::run(root, &["build", "--workspace", "--all-targets", "--locked"], &[]),
    },
    Step { name: "test", run: test },
    Step { name: "docs", run: docs },
];

/// Runs every step in order and prints what each took.
///
/// # Errors
/// With the name of the first step that failed.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let mut done: Vec<(&str, Duration)> = Vec::new();
    for step in STEPS {
        println!("\n==> {}", step.name);
        let start = Instant::now();
        let result = (step.run)(root);
        let took = start.elapsed();
        println!("<== {}: {} in {:.1} s", step.name, verdict(&result), took.as_secs_f64());
        if let Err(error) = result {
            summarise(&done);
            return Err(error.context(format!("step `{}` failed", step.name)));
        }
        done.push((step.name, took));
    }
    summarise(&done);
    println!("all {} steps passed", done.len());
    Ok(())
}

fn verdict(result: &anyhow::Result<()>) -> &'static str {
    if result.is_ok() { "passed" } else { "FAILED" }
}

fn summarise(done: &[(&str, Duration)]) {
    println!("\nsummary");
    for (name, took) in done {
        println!("  {name:<8} passed {:>7.1} s", took.as_secs_f64());
    }
    println!(
        "  {:<8}        {:>7.1} s",
        "total",
        done.iter().map(|(_, took)| took.as_secs_f64()).sum::<f64>()
    );
}

fn lints(root: &Path) -> anyhow::Result<()> {
    cargo::run(root, &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"], &[])?;
    // The gateway without its optional parts. Of the whole workspace, so that dependencies keep the features that they
    // were just checked with.
    let without = ["clippy", "--workspace", "--no-default-features", "--locked", "--", "-D", "warnings"];
    cargo::run(root, &without, &[])
}

fn docs(root: &Path) -> anyhow::Result<()> {
    cargo::run(root, &["doc", "--workspace", "--no-deps", "--locked"], &[("RUSTDOCFLAGS", "-D warnings")])
}

/// Runs the tests, shows their output as it comes and adds up cargo's result lines.
fn test(root: &Path) -> anyhow::Result<()> {
    let mut child = cargo::command(root, &["test", "--workspace", "--locked"], &[])
        .stdout(Stdio::piped())
        .spawn()
        .context("cargo test could not be started")?;
    let output = child.stdout.take().context("stdout was asked for as a pipe")?;
    let mut totals = Totals::default();
    for line in BufReader::new(output).split(b'\n') {
        // Bytes, not strings: a test that prints invalid UTF-8 must not end the run.
        let line = line.context("reading cargo test's output")?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        totals.add(&line);
    }
    judge("test", child.wait()?)?;
    println!("{} passed, {} failed, {} ignored in all", totals.passed, totals.failed, totals.ignored);
    if totals.passed == 0 {
        bail!("no test ran");
    }
    Ok(())
}

/// What cargo's `test result:` lines add up to.
#[derive(Debug, Default, PartialEq)]
struct Totals {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Totals {
    /// Adds one line of output; lines that are no result lines add nothing.
    fn add(&mut self, line: &str) {
        let Some(counts) = line.strip_prefix("test result: ") else { return };
        for count in counts.split(['.', ';']) {
            let mut words = count.split_whitespace();
            let (Some(number), Some(what)) = (words.next(), words.next()) else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_add_up_and_other_lines_add_nothing() {
        let mut totals = Totals::default();
        for line in [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s",
            "test result: FAILED. 10 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.25s",
            "test result_lines ... ok",
            "",
        ] {
            totals.add(line);
        }
        assert_eq!(totals, Totals { passed: 13, failed: 2, ignored: 1 });
    }

    #[test]
    fn the_docs_come_last_and_the_machine_first() {
        assert_eq!(STEPS.first().map(|step| step.name), Some("machine"));
        assert_eq!(STEPS.last().map(|step| step.name), Some("docs"));
    }
}
