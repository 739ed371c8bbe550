//! Scenarios.
use crate::cli::{Ended, Refusal, failure};
/// Arguments.
#[derive(Debug, Clone, clap::Args)]
pub struct ScenarioArgs {}
/// Runs.
pub fn execute(_args: &ScenarioArgs) -> Result<Ended, Refusal> { Err(failure("not yet")) }
