//! The project's own chores: `cargo xtask <chore>`.
//!
//! A chore lives here when a compiler or cargo can't do it and a shell script would be unreadable or untested.
//! Only the standard library and `anyhow`: what checks the house must build in seconds and never be the thing that
//! breaks.

#![expect(clippy::print_stdout, reason = "a chore's result is what it prints")]
#![expect(clippy::print_stderr, reason = "and its complaints go to stderr")]

mod cargo;
mod ci;
mod pgo;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// One chore: its name on the command line, what `help` says of it, and what it does in the repository's root.
struct Chore {
    name: &'static str,
    about: &'static str,
    run: fn(&Path) -> anyhow::Result<()>,
}

/// Every chore, in the order in which `help` lists them.
const CHORES: &[Chore] = &[
    Chore {
        name: "ci",
        about: "everything CI runs: packages, format, lints, tidy, build, tests, docs",
        run: ci::run,
    },
    Chore {
        name: "pgo",
        about: "the release binary, optimised for the paths that training traffic takes",
        run: pgo::run,
    },
    Chore { name: "tidy", about: "the rules of the house that no compiler checks", run: tidy::run },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let chore = match arguments.as_slice() {
        [name] => CHORES.iter().find(|chore| chore.name == name),
        _ => None,
    };
    let Some(chore) = chore else {
        eprint!("{}", help());
        return ExitCode::from(2);
    };
    match (chore.run)(&root()) {
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
        text.push_str(&format!("  {:<6}{}\n", chore.name, chore.about));
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
