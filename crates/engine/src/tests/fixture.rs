//! Engines for tests, and snapshots compiled from resources as the store would hold them.

use crate::config::{ClientLimits, EngineConfig, Listen, Serves, Streams};
use crate::{Bound, Context, Engine, RealIp};
use observe::Metrics;
use plugin::{CompileContext, Hooks, PluginDef, Registry};
use serde_json::{Map, Value, json};
use snapshot::{BuildOptions, Builder, Keepalive, Published};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use store::{Change, Entry};

const LIMIT: Duration = Duration::from_secs(60);

/// One worker on a port that the kernel chooses.
pub(crate) fn config() -> EngineConfig {
    EngineConfig {
        listen: vec![Listen {
            address: ([127, 0, 0, 1], 0).into(),
            optional: false,
            tls: false,
            proxy_protocol: false,
            serves: Serves::Http,
        }],
        workers: 1,
        exit_on_panic: false,
        worker_connections: 100,
        cores: Vec::new(),
        names: discovery::names::Asking::default(),
        client: ClientLimits {
            keepalive_timeout: LIMIT,
            keepalive_requests: 1000,
            handshake_timeout: LIMIT,
            header_timeout: LIMIT,
            body_timeout: LIMIT,
            send_timeout: LIMIT,
            max_body_bytes: 0,
        },
        keepalive: Keepalive { size: 1, idle_timeout: None, requests: 1000 },
        server: "test".to_owned(),
        show_upstream_status: false,
        trusted_addresses: Vec::new(),
        drops_underscores: false,
        real_ip: RealIp::default(),
        paths: plugin::PathRules::default(),
        body_vars: plugin::BodyLimits::default(),
        http2: true,
        tls: None,
        upstream_tls: Arc::new(tls::Upstreams::new(tls::Trust::default()).expect("nothing to read")),
        gateway: plugin::Gateway::default(),
        mount: None,
        access_log: None,
        streams: Streams::default(),
    }
}

/// What the control plane is to the engine: a builder, and the snapshots that it publishes.
pub(crate) struct Control {
    builder: Builder,
    revision: u64,
    pub(crate) published: Arc<Published>,
}

impl Control {
    pub(crate) fn new(registry: Arc<Registry>) -> Self {
        let mut builder = Builder::new(registry, BuildOptions::default());
        let published = Arc::new(Published::new(builder.apply(0, [])));
        Self { builder, revision: 0, published }
    }

    pub(crate) fn put(&mut self, key: &str, value: &Value) {
        self.apply(&Change::Put(Entry {
            key: key.into(),
            value: value.to_string().into_bytes().into(),
            create_revision: 0,
            mod_revision: 0,
            expires_at_ms: None,
        }));
    }

    pub(crate) fn delete(&mut self, key: &str) {
        self.apply(&Change::Delete { key: key.into(), revision: self.revision });
    }

    fn apply(&mut self, change: &Change) {
        self.revision += 1;
        let snapshot = self.builder.apply(self.revision, [change]);
        assert_eq!(self.builder.problems().len(), 0, "{:?}", self.builder.problems());
        self.published.publish(snapshot);
    }

    /// Compiles everything by another registry.
    pub(crate) fn renew(&mut self, registry: Arc<Registry>) {
        let snapshot = self.builder.renew(self.revision, registry, BuildOptions::default());
        self.published.publish(snapshot);
    }

    /// Starts an engine for it: with its address.
    pub(crate) fn serve(&self, config: EngineConfig) -> (Engine, SocketAddr) {
        let bound = Bound::new(config).expect("a free port");
        let address = bound.addresses()[0];
        let published = Arc::clone(&self.published);
        let engine = bound.start(&Context { published, metrics: Arc::new(Metrics::default()) });
        (engine.expect("threads"), address)
    }
}

/// An engine with one worker, and a route for everything to `nodes` with the plugin `test`, of which these are the hooks.
pub(crate) fn engine(nodes: &[SocketAddr], hooks: impl Fn() -> Hooks + Send + Sync + 'static) -> Served {
    let compile = move |_: Value, _: &CompileContext<'_>| Ok(hooks());
    let def = PluginDef::of("test", 1, json!({"type": "object"}), compile);
    let registry = Arc::new(Registry::new([def], Map::new()).expect("a valid schema"));
    let mut control = Control::new(registry);
    let weights: Map<String, Value> = nodes.iter().map(|node| (node.to_string(), json!(1))).collect();
    let upstream = json!({ "type": "roundrobin", "nodes": weights, "retries": nodes.len() });
    control.put("/routes/1", &json!({ "uri": "/*", "upstream": upstream, "plugins": { "test": {} } }));
    let (engine, address) = control.serve(config());
    Served { control, engine: Some(engine), address }
}

/// An engine that serves; stopped when it is dropped.
pub(crate) struct Served {
    pub(crate) control: Control,
    pub(crate) engine: Option<Engine>,
    pub(crate) address: SocketAddr,
}

impl Served {
    /// Sends `request` on a connection of its own: all that comes back until that is closed.
    pub(crate) fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).expect("listened on");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.engine.take().into_iter().for_each(Engine::stop);
    }
}

/// A server whose connections, one after the other, the test has in its hands.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    say: Sender<Vec<u8>>,
    /// What it gets; an empty piece is the end of a connection.
    pub(crate) got: Receiver<Vec<u8>>,
}

/// Starts one.
pub(crate) fn peer() -> Peer {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    let ((say, said), (get, got)) = (channel::<Vec<u8>>(), channel());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let (mut reading, get) = (stream.try_clone().expect("a handle"), get.clone());
            std::thread::spawn(move || {
                loop {
                    let mut bytes = vec![0; 4096];
                    let count = reading.read(&mut bytes).unwrap_or(0);
                    bytes.truncate(count);
                    if get.send(bytes).is_err() || count == 0 {
                        return;
                    }
                }
            });
            while let Ok(bytes) = said.recv() {
                if bytes.is_empty() || stream.write_all(&bytes).is_err() {
                    break;
                }
            }
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    });
    Peer { address, say, got }
}

impl Peer {
    /// Sends.
    pub(crate) fn say(&self, text: impl Into<String>) {
        self.say.send(text.into().into_bytes()).expect("it runs");
    }

    /// Closes the connection; the next one is served then.
    pub(crate) fn close(&self) {
        self.say.send(Vec::new()).expect("it runs");
    }

    /// What it gets up to `end`.
    pub(crate) fn expect(&self, end: &str) -> String {
        let mut text = String::new();
        while !text.ends_with(end) {
            let bytes = self.got.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("no {end:?} after {text:?}"));
            text.push_str(&String::from_utf8_lossy(&bytes));
        }
        text
    }

    /// Waits for the end of its connection.
    pub(crate) fn expect_close(&self) {
        while !self.got.recv_timeout(LIMIT).expect("an end").is_empty() {}
    }
}

/// A server that gives one answer to one request on each connection; none closes the connection. Requests have bodies of
/// announced length, or chunked ones without trailers.
pub(crate) fn node(answer: impl Fn(&str) -> Option<&'static str> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let request = request(&mut stream);
            if let Some(text) = answer(&request) {
                let head =
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
                let _ = stream.write_all((head + text).as_bytes());
            }
        }
    });
    address
}

/// A request, head and body.
fn request(stream: &mut TcpStream) -> String {
    let (mut text, mut bytes) = (String::new(), [0; 4096]);
    loop {
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let whole = match length.and_then(|length| length.parse().ok()) {
                Some(length) => body.len() >= length,
                None => !head.contains("Transfer-Encoding: chunked") || body.ends_with("0\r\n\r\n"),
            };
            if whole {
                return text;
            }
        }
        match stream.read(&mut bytes) {
            Ok(count) if count > 0 => text.push_str(&String::from_utf8_lossy(&bytes[..count])),
            _ => return text,
        }
    }
}
