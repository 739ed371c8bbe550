//! `tidegate`: the gateway's command.

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    gateway::command::execute(&gateway::cli::Cli::parse())
}
