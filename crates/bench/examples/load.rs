//! `tidegate bench` without the rest of the binary: small enough to be counted under callgrind, and quick to build.

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    bench: bench::cli::LoadArgs,
}

fn main() -> ExitCode {
    bench::cli::exit_code(bench::cli::execute(&Cli::parse().bench))
}
