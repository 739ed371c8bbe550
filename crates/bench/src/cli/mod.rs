//! The command line of `tidegate bench`.

mod conduct;
mod options;
mod print;
mod record;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, Subcommand};

pub use conduct::Session;
pub use options::LoadArgs;
pub(crate) use options::parse_duration;
pub(crate) use record::{rfc3339_now, run_of, target_of};

use crate::report::{self, CompareArgs, ReportArgs, ReportError};
use crate::scenario::ScenarioArgs;

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

/// What `tidegate bench --help` says below the options.
pub const EXAMPLES: &str = "\
Examples:
  tidegate bench http://127.0.0.1:9080/hello -t 1 -c 16 -d 10s --latency
  tidegate bench http://127.0.0.1:9080/hello -c 64 -d 30s --rate 5000 --threshold 'p99<=5ms'
  tidegate bench https://example.test/ --http2 -c 4 --pipeline 8 --insecure --json
  tidegate bench http://127.0.0.1:9080/hello -c 64 -d 3s --sla 'p99<=5ms' --sla errors=0
  tidegate bench http://127.0.0.1:9080/hello -d 3s --sla 'p99<=5ms' --connections 16..1024
  tidegate bench scenario single-upstream --peer nginx

Exit codes: 0 every request was answered, and in time where a threshold says so; 1 requests failed or nothing could be
measured; 2 the command line can't be understood; 3 a threshold was missed; 130 ended by Ctrl-C. Where a threshold is
about errors, it alone says how many are too many.";

/// What `tidegate bench` takes: a URL with options, or one of the subcommands.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, after_help = EXAMPLES)]
pub struct BenchArgs {
    /// Something else than a run against a URL.
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
    /// A run against a URL.
    #[command(flatten)]
    pub load: LoadArgs,
}

/// What `tidegate bench` does besides asking a URL.
#[derive(Debug, Clone, Subcommand)]
pub enum BenchCommand {
    /// Start a gateway and all it needs on this machine, and measure it, beside a peer where one is named
    Scenario(ScenarioArgs),
    /// Write a comparison report from result files: Markdown and a page with pictures
    Report(ReportArgs),
    /// Say whether two sets of runs differ, and by how much
    Compare(CompareArgs),
}

/// Does what the command line says.
#[must_use]
pub fn execute(args: &BenchArgs) -> ExitCode {
    let result = match &args.command {
        Some(BenchCommand::Scenario(scenario)) => crate::scenario::execute(scenario),
        Some(BenchCommand::Report(report)) => {
            reported(report::run(report, &mut io::stdout(), &mut io::stderr()))
        }
        Some(BenchCommand::Compare(compare)) => reported(report::compare(compare, &mut io::stdout())),
        None => conduct::execute(&args.load),
    };
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

/// How a report ended. A closed stdout is no reason to fail, as with `head`.
fn reported(result: Result<(), ReportError>) -> Result<Ended, Refusal> {
    match result {
        Ok(()) => Ok(Ended::Fine),
        Err(ReportError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Ended::Fine),
        Err(error) if error.is_usage() => Err(usage(error.to_string())),
        Err(error) => Err(failure(error.to_string())),
    }
}

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
pub(crate) fn usage(why: impl Into<String>) -> Refusal {
    Refusal::Usage(why.into())
}

/// Something that does not work.
pub(crate) fn failure(why: impl Into<String>) -> Refusal {
    Refusal::Failure(why.into())
}

/// Prints to stdout; a closed one is no reason to fail, as with `head`.
pub(crate) fn say(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}

/// Prints an error.
fn complain(text: &str) {
    // Where stderr is closed, the exit code still tells.
    let _ = writeln!(io::stderr(), "tidegate bench: {text}");
}
