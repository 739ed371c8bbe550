//! A network of the test's own, for the tests whose commands name fixed ports.

use crate::program;
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};

/// Set for a test that runs again inside its own network.
const INSIDE: &str = "TIDEGATE_E2E_OWN_NETWORK";

/// Where a test with fixed ports runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// The ports are its own.
    Ours,
    /// The ports may be somebody else's: others have to stand in for them.
    Shared,
}

/// Runs `body` in a network namespace of its own, where every port is free: the test `name` is started again in one.
/// Where the machine allows no namespaces, `body` runs here, on the fixed `ports` if they happen to be free.
pub fn own_network(name: &str, ports: &[u16], body: impl Fn(Home)) {
    if std::env::var_os(INSIDE).is_some() {
        return body(Home::Ours);
    }
    if let Some(mut unshare) = unshare() {
        let test = std::env::current_exe().unwrap();
        let output = unshare
            .args(["-c", "ip link set lo up && exec \"$0\" \"$@\""])
            .arg(test)
            .args([name, "--exact", "--nocapture"])
            .env(INSIDE, "1")
            .output()
            .unwrap();
        // Shown only where it failed: the runner's own summary inside would be counted twice.
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{name}, in its own network:\n{}", String::from_utf8_lossy(&said));
        return;
    }
    let free = |port: &u16| TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], *port))).is_ok();
    body(if ports.iter().all(free) { Home::Ours } else { Home::Shared });
}

/// `unshare ... sh`, in the form that this machine allows; PATH holds `ip`.
fn unshare() -> Option<Command> {
    let unshare = program("unshare")?;
    let folder = program("ip")?.parent()?.to_path_buf();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::env::split_paths(&path).chain([folder])).ok()?;
    ["-n", "-rn"].into_iter().find_map(|form| {
        let command = || {
            let mut command = Command::new(&unshare);
            command.args([form, "sh"]).env("PATH", &path);
            command
        };
        let works = command()
            .args(["-c", "ip link set lo up"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        works.then(command)
    })
}
