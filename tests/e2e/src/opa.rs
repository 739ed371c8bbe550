//! An Open Policy Agent: its own program where the machine has it, else a stand-in for one policy.

use crate::{Message, Peer, Process, Upstream, eventually, free_ports, program};
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A running OPA server with one policy; killed when dropped.
#[derive(Debug)]
pub struct Opa {
    server: Server,
}

#[derive(Debug)]
enum Server {
    Program { _process: Process, _dir: TempDir, port: u16 },
    StandIn(Upstream),
}

impl Opa {
    /// Starts one with `rego`, the text of the package `policy`. Where there is no `opa`, neither on PATH nor in
    /// `~/go/bin`, a stand-in answers with what `decide` makes of the input.
    #[expect(clippy::print_stderr, reason = "a test that asks a stand-in says so")]
    pub fn start(policy: &str, rego: &str, decide: fn(&Value) -> Value) -> Self {
        let Some(path) = program("opa") else {
            eprintln!("there is no opa on this machine: a stand-in decides");
            return Self { server: Server::StandIn(stand_in(policy, decide)) };
        };
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("policy.rego");
        std::fs::write(&file, rego).unwrap();
        let [port] = free_ports::<1>();
        let address = format!("127.0.0.1:{port}");
        let mut process = Process::start(
            Command::new(path)
                .args(["run", "--server", "--disable-telemetry", "--addr", &address])
                .arg(&file)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        );
        eventually("opa answers", || {
            assert!(process.ended().is_none(), "opa has ended");
            let stream = std::net::TcpStream::connect(&address).ok()?;
            let mut peer = Peer::new(stream);
            peer.try_send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").ok()?;
            peer.try_response("GET").ok().filter(|answer| answer.status() == 200)
        });
        Self { server: Server::Program { _process: process, _dir: dir, port } }
    }

    /// Its address, as the plugin's `host` wants it.
    pub fn url(&self) -> String {
        match &self.server {
            Server::Program { port, .. } => format!("http://127.0.0.1:{port}"),
            Server::StandIn(upstream) => format!("http://{}", upstream.address()),
        }
    }
}

fn stand_in(policy: &str, decide: fn(&Value) -> Value) -> Upstream {
    let start = format!("POST /v1/data/{policy} HTTP/1.1");
    Upstream::answering(move |request: &Message| {
        let body = match request.start == start {
            true => json!({ "result": decide(&request.json()["input"]) }),
            false => json!({}),
        };
        let body = body.to_string();
        let length = body.len();
        let kind = "Content-Type: application/json";
        format!("HTTP/1.1 200 OK\r\n{kind}\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
    })
}
