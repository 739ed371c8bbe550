//! `cargo xtask fuzz MINUTES [TARGET]`: the fuzz targets under libFuzzer, one after the other, each for that time.
//!
//! What it needs beside the product's toolchain is named where it is missing, and not installed: nothing but this
//! chore uses it. A failure doesn't end the run; its input stays in `tests/fuzz/artifacts`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// The folder with the crate of cargo-fuzz's.
const FOLDER: &str = "tests/fuzz";

/// An input may take this long. The slowest that are sound take milliseconds.
const INPUT_TIMEOUT_S: u64 = 10;

/// Inputs are this long at most: more than the longest head that is accepted.
const INPUT_BYTES_MAX: usize = 40_000;

/// A target as the manifest has it.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    name: String,
    /// The feature without which it isn't built.
    feature: Option<String>,
}

/// What came of a target.
struct Outcome {
    name: String,
    executions: Option<u64>,
    failed: bool,
}

/// Runs the targets.
///
/// # Errors
/// When something is missing, an argument makes no sense, or a target has failed.
pub(crate) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<()> {
    let (minutes, only) = match arguments {
        [minutes] => (minutes, None),
        [minutes, target] => (minutes, Some(target.as_str())),
        _ => bail!("say for how many minutes, and perhaps which target: cargo xtask fuzz 5 request_head"),
    };
    let seconds = seconds(minutes)?;
    let folder = root.join(FOLDER);
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).context("the targets' manifest")?;
    let all = targets(&manifest);
    let chosen: Vec<&Target> =
        all.iter().filter(|target| only.is_none_or(|only| only == target.name)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = all.iter().map(|target| &*target.name).collect();
        bail!("there is no such target; these are: {}", names.join(", "));
    }
    needs(&["+nightly", "--version"], "a nightly compiler is missing: rustup toolchain install nightly")?;
    needs(&["+nightly", "fuzz", "--version"], "cargo-fuzz is missing: cargo install cargo-fuzz")?;
    // What is fuzzed is what is shipped; libFuzzer's own crates are added to it.
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).context("the product's lock file")?;
    let outcomes = chosen.into_iter().map(|target| fuzz(&folder, target, seconds));
    let outcomes = outcomes.collect::<anyhow::Result<Vec<_>>>()?;
    println!("\n{:<20}{:>12}", "target", "executions");
    for outcome in &outcomes {
        let executions = outcome.executions.map_or_else(|| "-".to_owned(), |count| count.to_string());
        let verdict = if outcome.failed { "  FAILED" } else { "" };
        println!("{:<20}{executions:>12}{verdict}", outcome.name);
    }
    match outcomes.iter().filter(|outcome| outcome.failed).count() {
        0 => Ok(()),
        count => bail!(
            "{count} of {} targets failed; see {FOLDER}/artifacts and {FOLDER}/README.md",
            outcomes.len()
        ),
    }
}

/// The time that so many minutes are.
fn seconds(minutes: &str) -> anyhow::Result<u64> {
    let minutes: f64 = minutes.parse().with_context(|| format!("`{minutes}` is no number of minutes"))?;
    let seconds = (minutes * 60.0).round();
    // A week is longer than anybody waits for a target.
    if !(1.0..=604_800.0).contains(&seconds) {
        bail!("between a second and a week for each target");
    }
    Ok(seconds as u64)
}

/// The `[[bin]]` sections of a manifest.
fn targets(manifest: &str) -> Vec<Target> {
    let sections = manifest.split("[[bin]]").skip(1);
    let value = |section: &str, key: &str| {
        let line = section.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
        Some(line.trim_matches(['[', ']', '"']).to_owned())
    };
    let target = |section| {
        Some(Target { name: value(section, "name")?, feature: value(section, "required-features") })
    };
    sections.filter_map(target).collect()
}

/// Checks that `cargo` can do something.
fn needs(arguments: &[&str], otherwise: &str) -> anyhow::Result<()> {
    let status = cargo().args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !status.is_ok_and(|status| status.success()) {
        bail!("{otherwise}");
    }
    Ok(())
}

/// The `cargo` of rustup, which knows `+nightly`: the one that runs this chore is already a toolchain's own.
fn cargo() -> Command {
    let mut command = Command::new("cargo");
    command.env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
    command
}

/// Runs one target and shows what libFuzzer says.
fn fuzz(folder: &Path, target: &Target, seconds: u64) -> anyhow::Result<Outcome> {
    let Target { name, feature } = target;
    println!("\n==> {name}: {seconds} s");
    let (corpus, seeds) = (format!("corpus/{name}"), format!("seeds/{name}"));
    fs::create_dir_all(folder.join(&corpus)).with_context(|| format!("{FOLDER}/{corpus}"))?;
    let mut command = cargo();
    command.current_dir(folder).args(["+nightly", "fuzz", "run", "--fuzz-dir", "."]);
    command.args(feature.iter().flat_map(|feature| ["--features", feature]));
    command.args([name, &corpus, &seeds, "--"]);
    command.arg(format!("-max_total_time={seconds}"));
    command.arg(format!("-timeout={INPUT_TIMEOUT_S}")).arg(format!("-max_len={INPUT_BYTES_MAX}"));
    command.args(["-print_final_stats=1", "-verbosity=0"]).stderr(Stdio::piped());
    let mut child = command.spawn().context("cargo fuzz could not be started")?;
    let output = child.stderr.take().context("stderr was asked for as a pipe")?;
    let mut executions = None;
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("reading what cargo fuzz says")?;
        let line = String::from_utf8_lossy(&line);
        eprintln!("{line}");
        executions = executed(&line).or(executions);
    }
    let failed = !child.wait()?.success();
    Ok(Outcome { name: name.clone(), executions, failed })
}

/// The count in libFuzzer's line about it.
fn executed(line: &str) -> Option<u64> {
    line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_with_what_they_need() {
        let manifest = "[package]\nname = \"fuzz\"\n\n[[bin]]\nname = \"a\"\npath = \"a.rs\"\n\n\
                        [[bin]]\nname = \"b\"\nrequired-features = [\"product\"]\n";
        let target = |name: &str, feature: Option<&str>| Target {
            name: name.to_owned(),
            feature: feature.map(str::to_owned),
        };
        assert_eq!(targets(manifest), [target("a", None), target("b", Some("product"))]);
    }

    #[test]
    fn times_and_counts_are_read() {
        assert_eq!(seconds("1.5").unwrap(), 90);
        assert!(["", "x", "0", "-1", "nan", "1e9"].into_iter().all(|text| seconds(text).is_err()));
        assert_eq!(executed("stat::number_of_executed_units: 524679"), Some(524_679));
        assert_eq!(executed("stat::peak_rss_mb: 40"), None);
    }

    #[test]
    fn a_missing_target_is_named_before_anything_is_built() {
        let error = run(&crate::root(), &["1".to_owned(), "no_such_target".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("request_head"), "{error}");
        assert!(run(&crate::root(), &[]).is_err());
    }
}
