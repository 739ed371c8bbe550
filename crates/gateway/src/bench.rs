//! `tidegate bench`: the load generator and its reports. Only a gateway that is built with the feature `bench` has it.

use std::io;
use std::process::ExitCode;

use bench::cli::{Ended, LoadArgs, Refusal, exit_code, failure, usage};
use bench::scenario::{self, ScenarioArgs};
use bench_report::report::{self, CompareArgs, ReportArgs, ReportError};
use clap::{Args, Subcommand};

/// What `tidegate bench --help` says below the options.
const EXAMPLES: &str = "\
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
    exit_code(match &args.command {
        Some(BenchCommand::Scenario(scenario)) => scenario::execute(scenario),
        Some(BenchCommand::Report(report)) => {
            reported(report::run(report, &mut io::stdout(), &mut io::stderr()))
        }
        Some(BenchCommand::Compare(compare)) => reported(report::compare(compare, &mut io::stdout())),
        None => bench::cli::execute(&args.load),
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
