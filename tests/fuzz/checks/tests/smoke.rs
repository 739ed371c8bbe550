//! Every target on its seeds and on inputs made of them, without a fuzzer.
//!
//! `FUZZ_SECONDS` (per target), `FUZZ_TARGET` and `FUZZ_SEED` (a number) make it a longer run:
//! `FUZZ_SECONDS=600 FUZZ_TARGET=request_head cargo test -p fuzz-checks --test smoke -- --nocapture`.

#![expect(clippy::print_stdout, reason = "an input that fails is shown, and how many held")]

#[path = "../../../protocol/corpus.rs"]
#[allow(dead_code, reason = "verdicts are of use elsewhere")]
mod corpus;

use fuzz_checks::mutate::Mutator;
use fuzz_checks::{Target, targets};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Inputs for a target. The fastest take 10 ms for them, the slowest end at [`SMOKE_TIME`].
const SMOKE_INPUTS: usize = 20_000;
/// A target is given no more time, so that the test stays below half a minute on two cores.
const SMOKE_TIME: Duration = Duration::from_secs(2);

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn names(folder: &Path, suffix: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries
        .filter_map(|entry| {
            Some(entry.expect("readable").file_name().to_str()?.strip_suffix(suffix)?.to_owned())
        })
        .collect()
}

fn seeds(target: &Target) -> Vec<Vec<u8>> {
    let seeds = folder("seeds").join(target.name);
    let mut all: Vec<Vec<u8>> =
        names(&seeds, "").iter().map(|name| std::fs::read(seeds.join(name)).expect("readable")).collect();
    assert!(!all.is_empty(), "no seeds in {}", seeds.display());
    // The protocol corpus is about the same bytes.
    let files: &[&str] = match target.name {
        "request_head" | "http2_request" => &["request_line", "target", "fields", "framing", "connection"],
        "response_head" | "http2_response" => &["responses"],
        _ => &[],
    };
    for file in files {
        let path = folder("../protocol").join(format!("{file}.txt"));
        all.extend(corpus::read(&path).into_iter().map(|case| case.bytes));
    }
    all
}

/// Runs one input; where it fails, the input is shown, and the panic goes on.
fn run(target: &Target, input: &[u8], what: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.check)(input))) {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        println!("{} fails on {what}, in hex: {hex}\nas text: {}", target.name, input.escape_ascii());
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn every_target_has_seeds_a_wrapper_and_a_line_in_the_readme() {
    let known: BTreeSet<String> = targets().iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(known.len(), targets().len());
    if cfg!(feature = "product") {
        assert_eq!(names(&folder("fuzz_targets"), ".rs"), known);
        assert_eq!(names(&folder("seeds"), ""), known);
    }
    let manifest = std::fs::read_to_string(folder("Cargo.toml")).unwrap();
    let readme = std::fs::read_to_string(folder("README.md")).unwrap();
    for name in known {
        assert!(
            manifest.contains(&format!("name = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"")),
            "{name}"
        );
        assert!(readme.contains(&format!("| `{name}` |")), "{name}");
        let wrapper = std::fs::read_to_string(folder("fuzz_targets").join(format!("{name}.rs"))).unwrap();
        assert!(wrapper.contains("fuzz_checks::"), "{name}");
    }
}

#[test]
fn every_target_holds_on_its_seeds_and_on_mutations_of_them() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let only = std::env::var("FUZZ_TARGET").ok();
    let (inputs, time) = match number("FUZZ_SECONDS") {
        Some(seconds) => (usize::MAX, Duration::from_secs(seconds)),
        None => (SMOKE_INPUTS, SMOKE_TIME),
    };
    let mut chosen = targets();
    chosen.retain(|target| only.as_ref().is_none_or(|only| only == target.name));
    assert!(!chosen.is_empty(), "there is no target of that name");
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    let work = || {
        while let Some(target) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
            let smoke = || {
                let count = smoke(target, inputs, time, number("FUZZ_SEED").unwrap_or(1));
                println!("{}: {count} inputs", target.name);
            };
            if catch_unwind(smoke).is_err() {
                failed.lock().unwrap().push(target.name);
            }
        }
    };
    // Deep stacks are a finding where the product has 2 MiB: those of its workers.
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{failed:?}: the inputs are shown above");
}

/// How many inputs held.
fn smoke(target: &Target, inputs: usize, time: Duration, seed: u64) -> usize {
    let seeds = seeds(target);
    for seed in &seeds {
        run(target, seed, "a seed");
    }
    let mut mutator = Mutator::new(seed);
    let start = Instant::now();
    let mut count = 0;
    while count < inputs && start.elapsed() < time {
        run(target, &mutator.next(&seeds, target.words), "a mutation");
        count += 1;
    }
    count + seeds.len()
}
