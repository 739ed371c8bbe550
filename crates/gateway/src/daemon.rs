//! `--daemon`: the gateway in the background.
//!
//! The parent starts this program again as a child in a session of its own and waits until the child says through a pipe
//! that it is ready. Until then the child shares the parent's stderr, so that whatever prevents the start is seen where
//! the command was given. No fork without exec: that would need unsafe code, and threads do not survive it.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::key_file::Generated;
use crate::notify::{State, notify};
use anyhow::{Context, bail};

/// What the child writes when every listener is open.
const READY: &str = "ready\n";

/// Where a daemon's stdout and stderr go once it is ready: nothing is expected there but a panic's message.
const OUTPUT: &str = "logs/daemon.log";

/// Starts the daemon with this process's arguments and waits until it is ready. Returns its pid. Where the child ends
/// instead, it has said on stderr why.
pub fn start() -> anyhow::Result<u32> {
    let program = std::env::current_exe().context("this program's own file is not known")?;
    let arguments =
        std::env::args_os().skip(1).map(|arg| if arg == "--daemon" { "--detached".into() } else { arg });
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("the daemon can't be started")?;
    let mut said = String::new();
    if let Some(pipe) = child.stdout.take() {
        // A child that ends without a word closes the pipe, which ends the reading too.
        pipe.take(READY.len() as u64)
            .read_to_string(&mut said)
            .context("the daemon's answer can't be read")?;
    }
    if said == READY {
        return Ok(child.id());
    }
    let status = child.wait().context("the daemon is gone")?;
    bail!("the daemon did not start ({status})")
}

/// Leaves the parent's session, so that the terminal's end is not ours.
pub fn detach() -> anyhow::Result<()> {
    rustix::process::setsid().context("the daemon can't have a session of its own")?;
    Ok(())
}

/// What is to be said once the gateway is ready.
#[derive(Debug)]
#[must_use = "whoever waits for the daemon waits for this"]
pub struct Announcement {
    /// The daemon's data directory; `None` in the foreground.
    daemon_in: Option<PathBuf>,
    /// For the terminal; empty for nothing.
    text: String,
    /// The file of a key that the text shows for the only time.
    new_key: Option<PathBuf>,
}

impl Announcement {
    /// For a process in the foreground, or (with its data directory) for a daemon.
    pub fn new(daemon_in: Option<PathBuf>, text: String) -> Self {
        Self { daemon_in, text, new_key: None }
    }

    /// Shows a key that this start has made. If the start fails, the file of the key is removed, because the next start
    /// would not show it.
    pub fn show(mut self, key: Option<&Generated>) -> Self {
        if let Some(Generated { key, path, .. }) = key.filter(|key| key.new) {
            let (shown, key) = (path.display(), key.as_str());
            let line = format!("Admin API key, made at this first start and kept in {shown}:\n  {key}");
            self.text = if self.text.is_empty() { line } else { format!("{}\n{line}", self.text) };
            self.new_key = Some(path.clone());
        }
        self
    }

    /// As [`Self::show`], for a text that shows the key already.
    pub fn shows(mut self, key: Option<&Generated>) -> Self {
        self.new_key = key.filter(|key| key.new).map(|key| key.path.clone());
        self
    }

    /// Every listener is open: tells systemd, prints the text, lets the parent go, and leaves the terminal.
    pub fn ready(mut self) -> anyhow::Result<()> {
        self.new_key = None;
        notify(State::Ready);
        if !self.text.is_empty() {
            // A closed stderr is no reason to end.
            let _ = writeln!(io::stderr(), "{}", self.text);
        }
        let Some(data_dir) = self.daemon_in.take() else { return Ok(()) };
        let output = data_dir.join(OUTPUT);
        let output = observe::append_to(&output)
            .with_context(|| format!("the log {} can't be written", output.display()))?;
        let null = OpenOptions::new().write(true).open("/dev/null").context("/dev/null can't be opened")?;
        // A parent that is gone does not matter to its daemon.
        let _ = io::stdout().write_all(READY.as_bytes()).and_then(|()| io::stdout().flush());
        rustix::stdio::dup2_stdout(null).context("stdout can't be given up")?;
        rustix::stdio::dup2_stderr(output).context("stderr can't be given up")
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        if let Some(path) = &self.new_key {
            // Where it can't be removed, the next start reads it.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_file::read_or_make;

    #[test]
    fn a_key_that_was_not_shown_is_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.key");
        let first = read_or_make(path.clone(), "the key").unwrap();
        drop(Announcement::new(None, String::new()).show(Some(&first)));
        assert!(!path.exists());
        let second = read_or_make(path.clone(), "the key").unwrap();
        let announcement = Announcement::new(None, String::new()).show(Some(&second));
        assert!(announcement.text.contains(second.key.as_str()));
        announcement.ready().unwrap();
        let third = read_or_make(path.clone(), "the key").unwrap();
        assert!(!third.new);
        drop(Announcement::new(None, String::new()).shows(Some(&third)));
        assert!(path.exists(), "an earlier start's key stays");
    }
}
