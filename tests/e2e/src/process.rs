//! Processes that end with the test that started them, and what starting them takes.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up on it: on a machine whose disk is busy a start may wait for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running process; killed when dropped.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts it.
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// How it ended, where it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().unwrap()
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        eventually("the process ends", || self.ended())
    }

    /// Kills it, as a crash would, and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// A figure in kB from its `/proc` entry, such as `VmRSS`.
    pub fn memory_kb(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Asks until there is an answer. For what another process does in its own time.
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begin.elapsed() < PATIENCE, "waited for {} s until {what}", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ports of loopback that nobody listens on. No port is given twice: gateways share ports (`SO_REUSEPORT`), so that those of
/// two tests would answer each other's requests.
pub fn free_ports<const N: usize>() -> [u16; N] {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    std::array::from_fn(|_| {
        loop {
            let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
            let port = listener.local_addr().unwrap().port();
            if given.insert(port) {
                return port;
            }
        }
    })
}

/// A program of the machine, also where Debian puts daemons, which an ordinary user's PATH lacks, and Go what it builds.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let daemons = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join("go/bin"));
    let folders = std::env::split_paths(&path).chain(daemons).chain(home);
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The gateway's binary of the same build as the test; built where it is missing.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let folder = test.ancestors().nth(2).unwrap();
        let binary = folder.join("tidegate");
        if !binary.is_file() {
            let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            cargo.args(["build", "-p", "gateway"]).current_dir(root());
            if folder.ends_with("release") {
                cargo.arg("--release");
            }
            assert!(cargo.status().unwrap().success(), "the gateway could not be built");
        }
        binary
    })
}

/// Runs the gateway's binary, which has to refuse: it exits with 1 and says why on stderr.
pub fn refused(dir: &Path, arguments: &[&str]) -> String {
    let path = dir.join("refused");
    let mut process = Process::start(
        Command::new(binary())
            .args(arguments)
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&path).unwrap()),
    );
    let code = process.wait().code();
    let said = std::fs::read_to_string(&path).unwrap();
    assert_eq!(code, Some(1), "{arguments:?}: {said}");
    said
}

/// The repository's root.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}
