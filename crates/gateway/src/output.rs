//! What commands print: answers to stdout, everything else to stderr.

use std::fmt::Display;
use std::io::{self, Write};

use anyhow::{Context, bail};
use config::{Loaded, Settings};
use document::Report;
use document::diagnostic::Style;

/// Prints the findings and lets valid settings through. Warnings are left out where they `were_said`: a daemon's parent
/// has printed them.
pub(crate) fn checked(loaded: Result<Loaded, Report>, were_said: bool) -> anyhow::Result<Settings> {
    match loaded {
        Ok(loaded) => {
            if !were_said {
                show(&loaded.warnings);
            }
            Ok(loaded.settings)
        }
        Err(report) => {
            show(&report);
            bail!("the configuration is refused: {}", report.summary())
        }
    }
}

pub(crate) fn say(text: impl Display) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{text}").context("stdout is closed")
}

/// Prints diagnostics to stderr, with colours where that is a terminal.
pub(crate) fn show(report: &Report) {
    if !report.is_empty() {
        complain(Style::of(&io::stderr()).text(report));
    }
}

pub(crate) fn complain(text: impl Display) {
    // Where stderr is closed, the exit code still tells.
    let _ = writeln!(io::stderr(), "{text}");
}
