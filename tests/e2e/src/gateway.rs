//! The gateway's binary, running in a folder of its own on ports of its own.

use crate::{Message, Peer, Process, binary, eventually, free_ports};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use tempfile::TempDir;

/// The Admin API's key in tests.
pub const ADMIN_KEY: &str = "a-key-for-the-end-to-end-tests-alone";

/// How often a start is tried: between asking for a free port and taking it, another process may take it.
const STARTS_MAX: usize = 5;

/// How a gateway is to be started.
#[derive(Debug, Clone)]
pub struct Spec {
    /// `start` or `quickstart`.
    pub command: &'static str,
    /// A file that stands beside the configuration from the first start on: its name and text.
    pub file: Option<(&'static str, String)>,
    /// Merged into the configuration that gives the gateway its ports, mapping by mapping.
    pub config: Value,
    /// How many files it may open, where that is not this machine's limit.
    pub open_files: Option<u32>,
}

/// A running gateway; killed when dropped, and its folder removed.
#[derive(Debug)]
pub struct Gateway {
    process: Process,
    dir: TempDir,
    spec: Spec,
    /// The data plane's port.
    pub port: u16,
    /// The data plane's for TLS.
    pub tls_port: u16,
    /// The Admin API's.
    pub admin_port: u16,
    /// The status server's.
    pub status_port: u16,
    /// The metrics'.
    pub metrics_port: u16,
}

impl Default for Spec {
    fn default() -> Self {
        Self { command: "start", file: None, config: json!({}), open_files: None }
    }
}

impl Gateway {
    /// Starts one with one worker.
    pub fn start() -> Self {
        Self::with(json!({}))
    }

    /// Starts one with these keys of `config.yaml`.
    pub fn with(config: Value) -> Self {
        Self::launch(&Spec { config, ..Spec::default() })
    }

    /// Starts one with these keys of `config.yaml` and a file beside it.
    pub fn with_file(name: &'static str, text: &str, config: Value) -> Self {
        Self::launch(&Spec { config, file: Some((name, text.to_owned())), ..Spec::default() })
    }

    /// Starts one with `nginx_config.http` keys.
    pub fn with_http(http: &Value) -> Self {
        Self::with(json!({ "nginx_config": { "http": http } }))
    }

    /// Starts one, and waits until it is ready.
    pub fn launch(spec: &Spec) -> Self {
        for _ in 1..STARTS_MAX {
            match Self::try_launch(spec) {
                Ok(gateway) => return gateway,
                Err(said) if said.contains("cannot listen on") => {}
                Err(said) => panic!("{said}"),
            }
        }
        Self::try_launch(spec).unwrap_or_else(|said| panic!("{said}"))
    }

    fn try_launch(spec: &Spec) -> Result<Self, String> {
        let dir = tempfile::tempdir().unwrap();
        let ports = free_ports::<5>();
        let [port, tls_port, admin_port, status_port, metrics_port] = ports;
        std::fs::write(dir.path().join("config.yaml"), config(spec, ports, dir.path()).to_string()).unwrap();
        if let Some((name, text)) = &spec.file {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let process = spawn(dir.path(), spec);
        let mut gateway =
            Self { process, dir, spec: spec.clone(), port, tls_port, admin_port, status_port, metrics_port };
        match gateway.until_ready() {
            Ok(()) => Ok(gateway),
            Err(status) => Err(format!("the gateway ended with {status}: {}", gateway.stderr())),
        }
    }

    /// Starts the same one again in the same folder, after its process has ended.
    pub fn restart(&mut self) {
        assert!(self.process.ended().is_some(), "it still runs");
        self.process = spawn(self.dir.path(), &self.spec);
        if let Err(status) = self.until_ready() {
            panic!("the gateway ended with {status} at the second start: {}", self.stderr());
        }
    }

    /// Has it read its configuration again with these keys laid over those it was started with; what it says to that.
    pub fn reload(&mut self, config: &Value) -> String {
        let mut spec = self.spec.clone();
        merge(&mut spec.config, config);
        let ports = [self.port, self.tls_port, self.admin_port, self.status_port, self.metrics_port];
        self.reload_text(&self::config(&spec, ports, self.dir()).to_string())
    }

    /// The same with the text of a whole `config.yaml`.
    pub fn reload_text(&mut self, text: &str) -> String {
        std::fs::write(self.dir.path().join("config.yaml"), text).unwrap();
        let before = self.stderr().len();
        self.process.signal(Signal::HUP);
        eventually("the configuration is read again", || {
            let said = self.stderr().split_off(before);
            let done = said.contains("configuration read again") || said.contains("nothing changes");
            (done && said.ends_with('\n')).then_some(said)
        })
    }

    fn until_ready(&mut self) -> Result<(), ExitStatus> {
        let port = self.status_port;
        eventually("the gateway is ready", || match self.process.ended() {
            Some(status) => Some(Err(status)),
            None => is_ready(port).then_some(Ok(())),
        })
    }

    /// Its process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Its folder, which holds `config.yaml` and `data`.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Its data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// What it has said on stderr.
    pub fn stderr(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("stderr")).unwrap()
    }

    /// The lines of its access log, once there are `count`.
    pub fn access_log(&self, count: usize) -> Vec<String> {
        let path = self.data_dir().join("logs/access.log");
        eventually("the access log is written", || {
            let text = std::fs::read_to_string(&path).ok()?;
            // The last line may be on its way.
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            let lines: Vec<String> = whole.lines().map(str::to_owned).collect();
            (lines.len() >= count).then_some(lines)
        })
    }

    /// A client's connection to it.
    pub fn connect(&self) -> Peer {
        Peer::connect(self.port)
    }

    /// Asks for `path` on a new connection.
    pub fn get(&self, path: &str) -> Message {
        self.connect().get(path)
    }

    /// Asks the Admin API on its own port, with the key that tests have.
    pub fn admin(&self, method: &str, path: &str, body: &Value) -> Message {
        self.admin_with(ADMIN_KEY, method, path, body)
    }

    /// Asks the Admin API with `key`.
    pub fn admin_with(&self, key: &str, method: &str, path: &str, body: &Value) -> Message {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let length = body.len();
        let mut peer = Peer::connect(self.admin_port);
        peer.send(format!(
            "{method} /apisix/admin/{path} HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {key}\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ));
        peer.response()
    }

    /// Stores a resource, which has to be accepted.
    pub fn put(&self, path: &str, body: &Value) {
        let answer = self.admin("PUT", path, body);
        assert!(matches!(answer.status(), 200 | 201), "{path}: {} {}", answer.start, answer.text());
    }

    /// Sends everything to one upstream.
    pub fn route_all(&self, address: &str) {
        self.put(
            "routes/all",
            &json!({ "uri": "/*", "upstream": { "nodes": { address: 1 }, "type": "roundrobin" } }),
        );
    }

    /// Sends everything to an upstream with further keys, and a route with further keys.
    pub fn route_with(&self, address: &str, upstream: &Value, route: &Value) {
        let mut all = json!({ "uri": "/*", "upstream": { "nodes": { address: 1 }, "type": "roundrobin" } });
        merge(&mut all["upstream"], upstream);
        merge(&mut all, route);
        self.put("routes/all", &all);
    }

    /// What Prometheus would scrape.
    pub fn metrics(&self) -> String {
        Peer::connect(self.metrics_port).get_from("localhost", "/apisix/prometheus/metrics").text()
    }
}

/// The configuration of a gateway that shares nothing with others on the machine.
fn config(spec: &Spec, [port, tls, admin, status, metrics]: [u16; 5], dir: &Path) -> Value {
    let mut config = json!({
        "apisix": {
            "node_listen": [{ "ip": "127.0.0.1", "port": port }],
            "ssl": { "listen": [{ "ip": "127.0.0.1", "port": tls }] },
            "status": { "ip": "127.0.0.1", "port": status },
            "static_roots": [dir],
            // Its default port is one for the whole machine.
            "enable_control": false,
        },
        "deployment": { "admin": {
            "admin_listen": { "ip": "127.0.0.1", "port": admin },
            "admin_key": [{ "name": "e2e", "key": ADMIN_KEY, "role": "admin" }],
        } },
        "nginx_config": { "worker_processes": 1 },
        "plugin_attr": { "prometheus": { "export_addr": { "ip": "127.0.0.1", "port": metrics } } },
    });
    merge(&mut config, &spec.config);
    config
}

/// Lays `over` over `base`; a null removes what is there.
fn merge(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                if value.is_null() {
                    base.remove(key);
                } else {
                    merge(base.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (base, over) => *base = over.clone(),
    }
}

fn spawn(dir: &Path, spec: &Spec) -> Process {
    let output = |name: &str| Stdio::from(File::create(dir.join(name)).unwrap());
    let mut command = match spec.open_files {
        None => Command::new(binary()),
        Some(most) => {
            let mut shell = Command::new("sh");
            shell.args(["-c", "ulimit -n $1; shift; exec \"$0\" \"$@\""]).arg(binary()).arg(most.to_string());
            shell
        }
    };
    Process::start(
        command
            .args([spec.command, "-c", "config.yaml", "--data-dir", "data"])
            .current_dir(dir)
            .env_remove("TIDEGATE_DATA_DIR")
            .env_remove("APISIX_WORKER_PROCESSES")
            .stdin(Stdio::null())
            .stdout(output("stdout"))
            .stderr(output("stderr")),
    )
}

fn is_ready(port: u16) -> bool {
    use std::net::{SocketAddr, TcpStream};
    let Ok(stream) = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))) else { return false };
    let mut peer = Peer::new(stream);
    peer.try_send(b"GET /status/ready HTTP/1.1\r\nHost: localhost\r\n\r\n").is_ok()
        && peer.try_response("GET").is_ok_and(|answer| answer.status() == 200)
}
