//! The seam: puts the gateway together from settings and runs it until it is told to end.

use crate::config::Settings;
use crate::daemon::Announcement;
use crate::launch::Launch;

/// Runs the gateway. Returns when it has ended; an error means that it did not start or broke down.
///
/// `ready` is to be used once every listener is open. The settings hold an admin key where one is needed, and the data
/// directory is claimed.
pub fn run(_settings: &Settings, _launch: &Launch, _ready: Announcement) -> anyhow::Result<()> {
    anyhow::bail!("the data plane is not wired in yet")
}
