//! Cargo, as the chores run it.

use std::path::Path;
use std::process::{Command, ExitStatus};

use anyhow::{Context, bail};

/// Runs cargo in the repository's root and shows what it was asked.
///
/// # Errors
/// When it can't be started, or fails.
pub(crate) fn run(root: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<()> {
    println!("cargo {}", arguments.join(" "));
    let status = command(root, arguments, environment)
        .status()
        .with_context(|| format!("cargo {} could not be started", arguments.join(" ")))?;
    judge(arguments.first().unwrap_or(&""), status)
}

/// Cargo with these arguments, not started yet.
pub(crate) fn command(root: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Command {
    // The cargo that runs us: a second toolchain on the PATH would build everything twice.
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).envs(environment.iter().copied()).current_dir(root);
    command
}

/// What an exit status means for the chore.
///
/// # Errors
/// When it is not that of a success.
pub(crate) fn judge(what: &str, status: ExitStatus) -> anyhow::Result<()> {
    if !status.success() {
        bail!("cargo {what}: {status}");
    }
    Ok(())
}
