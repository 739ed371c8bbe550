//! etcd's own program, and what an operator or another gateway would do with it.

use crate::{Peer, Process, eventually, free_ports};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A running member; killed when dropped.
#[derive(Debug)]
pub struct Etcd {
    process: Process,
    command: Command,
    dir: TempDir,
    /// Where clients reach it.
    pub port: u16,
}

impl Etcd {
    /// A cluster of one.
    pub fn start() -> Self {
        Self::cluster::<1>().into_iter().next().unwrap()
    }

    /// Members of one cluster that has a leader.
    pub fn cluster<const N: usize>() -> [Self; N] {
        let (clients, peers) = (free_ports::<N>(), free_ports::<N>());
        let names: Vec<String> =
            peers.iter().enumerate().map(|(n, peer)| format!("m{n}=http://127.0.0.1:{peer}")).collect();
        let mut members = std::array::from_fn(|n| {
            let dir = tempfile::tempdir().unwrap();
            let (client, peer) =
                (format!("http://127.0.0.1:{}", clients[n]), format!("http://127.0.0.1:{}", peers[n]));
            let mut command = Command::new("etcd");
            command
                .args(["--name", &format!("m{n}"), "--data-dir"])
                .arg(dir.path().join("data"))
                .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
                .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
                .args(["--initial-cluster", &names.join(","), "--initial-cluster-state", "new"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(File::create(dir.path().join("log")).unwrap());
            let process = Process::start(&mut command);
            Self { process, command, dir, port: clients[n] }
        });
        members.iter_mut().for_each(Self::until_ready);
        members
    }

    /// The `deployment` section, and the keyring that nodes of a cluster have in common, of a node on these members, and of one that gives up on a call after `timeout_s`.
    pub fn deployment(members: &[&Self], timeout_s: u32) -> Value {
        let hosts: Vec<String> =
            members.iter().map(|member| format!("http://127.0.0.1:{}", member.port)).collect();
        json!({
            "apisix": { "data_encryption": { "keyring": ["a-key-of-the-end-to-end-tests"] } },
            "deployment": {
                "role": "traditional", "role_traditional": { "config_provider": "etcd" },
                "etcd": { "host": hosts, "prefix": "/apisix", "timeout": timeout_s },
            },
        })
    }

    fn until_ready(&mut self) {
        let log = self.dir.path().join("log");
        eventually("etcd answers", || {
            let said = || std::fs::read_to_string(&log).unwrap();
            assert!(self.process.ended().is_none(), "etcd has ended: {}", said());
            self.ask("kv/range", &json!({ "key": STANDARD.encode("/") })).map(drop)
        });
    }

    /// Asks its JSON gateway, which APISIX speaks too; `None` where it refuses or is not there.
    fn ask(&self, path: &str, body: &Value) -> Option<Value> {
        let body = body.to_string();
        let mut peer = Peer::new(TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], self.port))).ok()?);
        let request = format!(
            "POST /v3/{path} HTTP/1.1\r\nHost: etcd\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        peer.try_send(request.as_bytes()).ok()?;
        let answer = peer.try_response("POST").ok()?;
        (answer.status() == 200).then(|| serde_json::from_slice(&answer.body).unwrap())
    }

    /// Writes a key as another program would.
    pub fn put(&self, key: &str, value: &str) {
        let body = json!({ "key": STANDARD.encode(key), "value": STANDARD.encode(value) });
        self.ask("kv/put", &body).unwrap();
    }

    /// A key's value.
    pub fn get(&self, key: &str) -> Option<String> {
        let answer = self.ask("kv/range", &json!({ "key": STANDARD.encode(key) })).unwrap();
        let value = answer["kvs"][0]["value"].as_str()?;
        Some(String::from_utf8(STANDARD.decode(value).unwrap()).unwrap())
    }

    /// How many keys begin with `prefix`, whose last byte is below 255.
    pub fn count(&self, prefix: &str) -> usize {
        let mut end = prefix.as_bytes().to_vec();
        *end.last_mut().unwrap() += 1;
        let body =
            json!({ "key": STANDARD.encode(prefix), "range_end": STANDARD.encode(end), "count_only": true });
        let answer = self.ask("kv/range", &body).unwrap();
        answer["count"].as_str().map_or(0, |count| count.parse().unwrap())
    }

    /// Forgets everything but the present state.
    pub fn compact(&self) {
        let answer = self.ask("kv/range", &json!({ "key": STANDARD.encode("/") })).unwrap();
        let revision = answer["header"]["revision"].clone();
        self.ask("kv/compaction", &json!({ "revision": revision })).unwrap();
    }

    /// Whether it leads its cluster.
    pub fn leads(&self) -> bool {
        let status = self.ask("maintenance/status", &json!({})).unwrap();
        status["leader"] == status["header"]["member_id"]
    }

    /// Kills it as a crash would.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Removes its data, as a lost disk would; it must have been killed.
    pub fn wipe(&mut self) {
        std::fs::remove_dir_all(self.dir.path().join("data")).unwrap();
    }

    /// Saves what it has as `etcdctl snapshot save` does.
    pub fn save_snapshot(&self) {
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        self.etcdctl(&["--endpoints", &endpoint, "snapshot", "save", "snapshot"]);
    }

    /// Puts the saved snapshot in the place of its data, as a cluster of its own; it must have been killed.
    pub fn restore_snapshot(&mut self) {
        self.wipe();
        let argument = |name: &str| {
            let mut arguments = self.command.get_args().skip_while(|argument| *argument != name);
            arguments.nth(1).unwrap().to_str().unwrap().to_owned()
        };
        let [name, peers, cluster] =
            ["--name", "--initial-advertise-peer-urls", "--initial-cluster"].map(argument);
        self.etcdctl(&[
            "snapshot",
            "restore",
            "snapshot",
            "--data-dir",
            "data",
            "--name",
            &name,
            "--initial-advertise-peer-urls",
            &peers,
            "--initial-cluster",
            &cluster,
            "--initial-cluster-token",
            "restored",
        ]);
    }

    fn etcdctl(&self, arguments: &[&str]) {
        let output = Command::new("etcdctl")
            .args(arguments)
            .env("ETCDCTL_API", "3")
            .current_dir(self.dir.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Deletes every key that begins with `prefix` in one transaction.
    pub fn delete_all(&self, prefix: &str) {
        let mut end = prefix.as_bytes().to_vec();
        *end.last_mut().unwrap() += 1;
        let body = json!({ "key": STANDARD.encode(prefix), "range_end": STANDARD.encode(end) });
        self.ask("kv/deleterange", &body).unwrap();
    }

    /// Starts it again where it was.
    pub fn restart(&mut self) {
        self.process = Process::start(&mut self.command);
        self.until_ready();
    }

    /// Stops it without closing anything, or lets it go on.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }
}
