//! How a command of the load generator ends, and what it prints.

use std::io::{self, Write};
use std::process::ExitCode;

/// All was well.
const FINE: u8 = 0;
/// Requests failed, or nothing could be measured.
const FAILED: u8 = 1;
/// The command line can't be understood.
const USAGE: u8 = 2;
/// A threshold was missed, or no load keeps the promise.
const MISSED: u8 = 3;
/// Ended by Ctrl-C, as shells have it: 128 + SIGINT.
const INTERRUPTED: u8 = 130;

/// How a command ended that could do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// As it should.
    Fine,
    /// Requests failed.
    Failed,
    /// A threshold was missed.
    Missed,
    /// The user ended it.
    Interrupted,
}

/// Why a command could not do its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The command line makes no sense.
    Usage(String),
    /// Something is missing or does not answer.
    Failure(String),
}

/// A mistake in the command line.
#[must_use]
pub fn usage(why: impl Into<String>) -> Refusal {
    Refusal::Usage(why.into())
}

/// Something that does not work.
#[must_use]
pub fn failure(why: impl Into<String>) -> Refusal {
    Refusal::Failure(why.into())
}

/// The exit code of a command; why it could not do its work is printed.
#[must_use]
pub fn exit_code(result: Result<Ended, Refusal>) -> ExitCode {
    ExitCode::from(match result {
        Ok(Ended::Fine) => FINE,
        Ok(Ended::Failed) => FAILED,
        Ok(Ended::Missed) => MISSED,
        Ok(Ended::Interrupted) => INTERRUPTED,
        Err(Refusal::Usage(why)) => {
            complain(&why);
            USAGE
        }
        Err(Refusal::Failure(why)) => {
            complain(&why);
            FAILED
        }
    })
}

/// Prints to stdout; a closed one is no reason to fail, as with `head`.
pub(crate) fn say(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}

/// Prints an error.
pub(super) fn complain(text: &str) {
    // Where stderr is closed, the exit code still tells.
    let _ = writeln!(io::stderr(), "tidegate bench: {text}");
}
