//! A process that takes part: started on its core, in a folder of its own, and gone when it is dropped.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::load::pin;

/// A running process.
#[derive(Debug)]
pub(super) struct Party {
    child: Child,
    name: String,
    stderr: PathBuf,
    /// How it was started, for the result file.
    pub(super) command_line: String,
}

impl Party {
    /// Starts `command` in `folder`, on `core` if one is given.
    pub(super) fn start(
        name: &str,
        mut command: Command,
        folder: &Path,
        core: Option<usize>,
    ) -> Result<Self, String> {
        let words: Vec<String> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let stderr = folder.join(format!("{name}.stderr"));
        let log = File::create(&stderr).map_err(|error| format!("{}: {error}", stderr.display()))?;
        command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // A child runs where the thread that starts it may run; so a thread for that, and this one stays free.
        let started = std::thread::scope(|scope| {
            let starting = scope.spawn(move || {
                if let Some(core) = core {
                    pin(core)?;
                }
                command.spawn()
            });
            starting.join().unwrap_or_else(|_| Err(std::io::Error::other("a panic while it was started")))
        });
        let child = started.map_err(|error| format!("{name} can't be started: {error}"))?;
        Ok(Self { child, name: name.to_owned(), stderr, command_line: words.join(" ") })
    }

    /// What it said where it has ended although it should run.
    pub(super) fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        let said = std::fs::read_to_string(&self.stderr).unwrap_or_default();
        let last: Vec<&str> = said.lines().rev().take(5).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        Some(format!("{} ended with {status}: {}", self.name, last.join("; ")))
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ports of loopback that nobody listens on. All are taken before the first is given back, so they differ.
pub(super) fn free_ports(count: usize) -> Result<Vec<u16>, String> {
    let taken: std::io::Result<Vec<TcpListener>> =
        (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect();
    taken
        .and_then(|taken| taken.iter().map(|listener| Ok(listener.local_addr()?.port())).collect())
        .map_err(|error| format!("no free ports: {error}"))
}

/// A program of the machine, also where Debian puts daemons, which an ordinary user's PATH lacks.
pub(super) fn program(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let daemons = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(daemons)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .ok_or_else(|| format!("{name} is not installed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_party_that_ends_tells_why() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(program("sh").unwrap());
        command.args(["-c", "echo no such thing >&2; exit 3"]);
        let mut party = Party::start("shell", command, folder.path(), None).unwrap();
        let _ = party.child.wait();
        let said = party.ended().unwrap();
        assert!(said.contains("shell ended") && said.contains("no such thing"), "{said}");
        assert!(program("no-such-program-anywhere").is_err());
    }

    #[test]
    fn ports_differ() {
        let mut ports = free_ports(5).unwrap();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 5);
    }
}
