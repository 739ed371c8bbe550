//! Whole measurements in one command: everything that takes part is started on this machine, pinned apart, warmed up,
//! measured in turns with a peer, and ended again.

mod files;
mod party;
mod rounds;
mod stage;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::cli::{Ended, Refusal};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// A route to one upstream, no plugins
    SingleUpstream,
    /// The same with rate limiting and metrics
    TwoPlugins,
    /// A file of 53 KB over HTTPS, sent compressed with gzip
    StaticTls,
}

/// What `tidegate bench scenario` takes.
#[derive(Debug, Clone, Args)]
pub struct ScenarioArgs {
    /// What is measured
    #[arg(value_enum)]
    pub scenario: Scenario,
    /// Measure this in turns with the gateway: nginx, haproxy, or the URL of anything already running; with static-tls
    /// nginx (the same configuration), nginx-best (compressed beforehand), or a URL
    #[arg(long, value_name = "PEER")]
    pub peer: Option<String>,
    /// Connections
    #[arg(short, long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub connections: u16,
    /// How long each run measures
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = crate::cli::parse_duration)]
    pub duration: Duration,
    /// How long each run sends before that
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = crate::cli::parse_duration)]
    pub warmup: Duration,
    /// Rounds; in each the gateway and its peer are measured twice, in the order A B B A
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub rounds: u16,
    /// Workers of the gateway
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub worker: u16,
    /// Open loop at so many requests per second
    #[arg(long, value_name = "R")]
    pub rate: Option<f64>,
    /// The gateway to measure, instead of this very binary
    #[arg(long, value_name = "FILE")]
    pub gateway: Option<PathBuf>,
    /// Leave it to the kernel who runs on which core
    #[arg(long)]
    pub no_pin: bool,
    /// Print a result file as JSON instead of text
    #[arg(long)]
    pub json: bool,
    /// Write the result file here
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Show nothing while it runs
    #[arg(short, long)]
    pub quiet: bool,
}

impl Scenario {
    /// Its name in commands and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SingleUpstream => "single-upstream",
            Self::TwoPlugins => "two-plugins",
            Self::StaticTls => "static-tls",
        }
    }

    /// The route of the gateway, whose one node is filled in when it has a port; `None` where it serves files.
    fn route(self) -> Option<&'static str> {
        match self {
            Self::SingleUpstream => Some(include_str!("../../data/scenario/single-upstream.json")),
            Self::TwoPlugins => Some(include_str!("../../data/scenario/two-plugins.json")),
            Self::StaticTls => None,
        }
    }
}

/// Runs a scenario.
///
/// # Errors
/// When something that takes part is missing, can't be started, or doesn't answer.
pub fn execute(args: &ScenarioArgs) -> Result<Ended, Refusal> {
    rounds::run(args, args.scenario.route())
}
