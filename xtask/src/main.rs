//! The project's own chores: `cargo xtask <chore>`.
//!
//! A chore lives here when a compiler or cargo can't do it and a shell script would be unreadable or untested.
//! Only the standard library and `anyhow`: what checks the house must build in seconds and never be the thing that
//! breaks.

#![expect(clippy::print_stdout, reason = "a chore's result is what it prints")]
#![expect(clippy::print_stderr, reason = "and its complaints go to stderr")]

mod cargo;
mod ci;
mod deny;
mod dist;
mod fuzz;
mod pgo;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// One chore: its name on the command line, what `help` says of it, and what it does in the repository's root.
struct Chore {
    name: &'static str,
    /// What follows the name; empty where nothing may.
    arguments: &'static str,
    about: &'static str,
    run: fn(&Path, &[String]) -> anyhow::Result<()>,
}

/// Every chore, in the order in which `help` lists them.
const CHORES: &[Chore] = &[
    Chore {
        name: "ci",
        arguments: "",
        about: "everything CI runs: packages, format, tidy, dependencies, lints, build, tests, docs",
        run: |root, _| ci::run(root),
    },
    Chore {
        name: "deny",
        arguments: "",
        about: "licences, bans and sources of dependencies, by deny.toml",
        run: |root, _| deny::run(root),
    },
    Chore {
        name: "dist",
        arguments: "[BINARY [FOLDER]]",
        about: "the files of a release: tarball, Debian package, checksums, bill of materials",
        run: dist::run,
    },
    Chore {
        name: "fuzz",
        arguments: "MINUTES [TARGET]",
        about: "the fuzz targets under libFuzzer, each for that time",
        run: fuzz::run,
    },
    Chore {
        name: "pgo",
        arguments: "",
        about: "the release binary, optimised for the paths that training traffic takes",
        run: |root, _| pgo::run(root),
    },
    Chore {
        name: "tidy",
        arguments: "",
        about: "the rules of the house that no compiler checks",
        run: |root, _| tidy::run(root),
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, arguments) = arguments.split_first().map_or(("", &[][..]), |(name, rest)| (name, rest));
    let chore = CHORES.iter().find(|chore| chore.name == name);
    let Some(chore) = chore.filter(|chore| arguments.is_empty() || !chore.arguments.is_empty()) else {
        eprint!("{}", help());
        return ExitCode::from(2);
    };
    match (chore.run)(&root(), arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {}: {error:#}", chore.name);
            ExitCode::FAILURE
        }
    }
}

/// The text shown for a missing or unknown chore.
fn help() -> String {
    let mut text = String::from("usage: cargo xtask <chore>\n\n");
    for chore in CHORES {
        let call = format!("{} {}", chore.name, chore.arguments);
        text.push_str(&format!("  {call:<24}{}\n", chore.about));
    }
    text
}

/// The repository's root: the folder above this crate's, known when this crate is compiled.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the repository").to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_chore() {
        let text = help();
        assert!(CHORES.iter().all(|chore| text.contains(chore.name) && text.contains(chore.about)));
    }

    #[test]
    fn the_root_holds_the_workspace() {
        assert!(root().join("Cargo.toml").is_file());
    }
}
