//! etcd's own program, in a folder of its own and on ports of the kernel's choice.

use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A running member; killed when dropped.
pub(crate) struct Server {
    process: Child,
    command: Command,
    directory: TempDir,
    port: u16,
}

impl Server {
    /// A cluster of one.
    pub(crate) fn start() -> Self {
        Self::cluster(1).pop().unwrap()
    }

    /// Members of one cluster.
    pub(crate) fn cluster(count: usize) -> Vec<Self> {
        Self::with(count, &[])
    }

    /// The same with further flags.
    pub(crate) fn with(count: usize, flags: &[&str]) -> Vec<Self> {
        let ports = free_ports(2 * count);
        let (clients, peers) = ports.split_at(count);
        let names: Vec<String> =
            peers.iter().enumerate().map(|(n, peer)| format!("m{n}=http://127.0.0.1:{peer}")).collect();
        let scheme = if flags.contains(&"--cert-file") { "https" } else { "http" };
        let mut members = Vec::new();
        for (n, (client, peer)) in clients.iter().zip(peers).enumerate() {
            let directory = tempfile::tempdir().unwrap();
            let (client, peer) =
                (format!("{scheme}://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
            let mut command = Command::new("etcd");
            command
                .args(["--name", &format!("m{n}"), "--data-dir"])
                .arg(directory.path().join("data"))
                .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
                .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
                .args(["--initial-cluster", &names.join(","), "--initial-cluster-state", "new"])
                .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
                .args(flags)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(File::create(directory.path().join("log")).unwrap());
            let process = command
                .spawn()
                .unwrap_or_else(|error| panic!("etcd (Debian: etcd-server) can't be started: {error}"));
            members.push(Self { process, command, directory, port: clients[n] });
        }
        members.iter_mut().for_each(Self::until_open);
        members
    }

    fn until_open(&mut self) {
        let begin = Instant::now();
        while TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], self.port))).is_err() {
            let log = || std::fs::read_to_string(self.directory.path().join("log")).unwrap();
            assert!(self.process.try_wait().unwrap().is_none(), "etcd has ended: {}", log());
            assert!(begin.elapsed() < Duration::from_secs(30), "etcd doesn't listen: {}", log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Where clients reach it.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Kills it as a crash would.
    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Starts it again where it was.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.process = self.command.spawn().unwrap();
        self.until_open();
    }

    /// Stops it without closing anything, or lets it go on.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// All are taken before the first is given back, so they differ.
fn free_ports(count: usize) -> Vec<u16> {
    let taken: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap()).collect();
    taken.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}
