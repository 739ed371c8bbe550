//! Redis' own servers: alone, as a cluster, and with sentinels.

use crate::{Process, eventually, free_ports, program};
use rustix::process::Signal;
use std::fs::File;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A running server; killed when dropped, and its folder removed.
#[derive(Debug)]
pub struct Redis {
    process: Process,
    command: Command,
    dir: TempDir,
    /// Its port on 127.0.0.1.
    pub port: u16,
    /// What `redis-cli` needs to be let in.
    access: Vec<String>,
}

impl Redis {
    /// Whether the tests that need a server can run. They are skipped without one; `cargo xtask ci` installs it.
    #[expect(clippy::print_stdout, reason = "says why a test did nothing")]
    pub fn is_installed() -> bool {
        let installed = program("redis-server").is_some();
        if !installed {
            println!("skipped: redis-server is not installed");
        }
        installed
    }

    /// Starts one that keeps nothing on disk, with further arguments: `["--requirepass", "secret"]`.
    pub fn start(arguments: &[&str]) -> Self {
        Self::on(free_port(), arguments, &[])
    }

    /// Starts one whose clients need `access`, in `redis-cli`'s words: `["--user", "a", "--pass", "b"]`.
    pub fn guarded(arguments: &[&str], access: &[&str]) -> Self {
        Self::on(free_port(), arguments, access)
    }

    /// Starts one that speaks TLS on [`Self::port`], with a certificate, its key and the authority that signed it.
    pub fn encrypted(certificate: &str, key: &str, authority: &str) -> Self {
        let port = free_port();
        let own = port.to_string();
        let arguments = [
            ["--port", "0"],
            ["--tls-port", &own],
            ["--tls-cert-file", certificate],
            ["--tls-key-file", key],
            ["--tls-ca-cert-file", authority],
            ["--tls-auth-clients", "no"],
        ];
        Self::on(port, arguments.as_flattened(), &["--tls", "--cacert", authority])
    }

    fn on(port: u16, arguments: &[&str], access: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(program("redis-server").expect("asked for by `is_installed`"));
        command.args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
        command.arg("--dir").arg(dir.path()).args(arguments);
        Self::spawn(port, command, dir, access)
    }

    fn spawn(port: u16, mut command: Command, dir: TempDir, access: &[&str]) -> Self {
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command.stdout(File::create(dir.path().join("log")).unwrap());
        let process = Process::start(&mut command);
        let access = access.iter().map(|&argument| argument.to_owned()).collect();
        let mut server = Self { process, command, dir, port, access };
        server.until_ready();
        server
    }

    fn until_ready(&mut self) {
        eventually("redis-server answers", || {
            let said = || std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            assert!(self.process.ended().is_none(), "redis-server has ended: {}", said());
            (self.ask(&["PING"]) == "PONG").then_some(())
        });
    }

    /// A cluster of masters which has all slots, with further arguments and what clients need.
    pub fn cluster<const N: usize>(arguments: &[&str], access: &[&str]) -> [Self; N] {
        let own = [
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            "2000",
            "--cluster-require-full-coverage",
            "no",
        ];
        let arguments = [&own, arguments].concat();
        let nodes: [Self; N] = std::array::from_fn(|_| Self::guarded(&arguments, access));
        let mut create = Command::new("redis-cli");
        create
            .args(access)
            .args(["--no-auth-warning", "--cluster", "create"])
            .args(nodes.iter().map(Self::address));
        let made = create.args(["--cluster-yes"]).stdin(Stdio::null()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
        for node in &nodes {
            let up = || node.ask(&["CLUSTER", "INFO"]).contains("cluster_state:ok").then_some(());
            eventually("the cluster is up", up);
        }
        nodes
    }

    /// A sentinel that watches `master` under the name `mymaster`, and decides alone.
    pub fn sentinel(master: &Self, password: &str) -> Self {
        let (dir, port) = (tempfile::tempdir().unwrap(), free_port());
        let conf = dir.path().join("sentinel.conf");
        let text = format!(
            "port {port}\nbind 127.0.0.1\nrequirepass {password}\nsentinel monitor mymaster 127.0.0.1 {} 1\n\
             sentinel down-after-milliseconds mymaster 500\nsentinel failover-timeout mymaster 2000\n",
            master.port
        );
        std::fs::write(&conf, text).unwrap();
        let mut command = Command::new(program("redis-server").expect("asked for by `is_installed`"));
        command.arg(conf).arg("--sentinel");
        Self::spawn(port, command, dir, &["--pass", password])
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// What it replies to a command, as `redis-cli` prints it to other programs; empty where it does not answer.
    pub fn ask(&self, command: &[&str]) -> String {
        let mut asking = Command::new("redis-cli");
        asking.args(["--no-auth-warning", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
        let output = asking.args(&self.access).args(command).stdin(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// The names of all keys of its first database.
    pub fn keys(&self) -> Vec<String> {
        self.ask(&["KEYS", "*"]).lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// Kills it, as a crash would.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again on the same port, after it was killed.
    pub fn restart(&mut self) {
        self.process = Process::start(&mut self.command);
        self.until_ready();
    }

    /// Lets it do nothing, as a machine that hangs, until [`Self::go_on`].
    pub fn stall(&self) {
        self.process.signal(Signal::STOP);
    }

    /// Ends [`Self::stall`].
    pub fn go_on(&self) {
        self.process.signal(Signal::CONT);
    }
}

/// A free port beside which the port of a cluster's bus is free, too: 10,000 above.
fn free_port() -> u16 {
    loop {
        let [port] = free_ports::<1>();
        if let Some(bus) = port.checked_add(10_000)
            && TcpListener::bind(("127.0.0.1", bus)).is_ok()
        {
            return port;
        }
    }
}
