//! SIGHUP and SIGUSR1: what a reload puts in force, what it leaves alone, and log rotation.

use e2e::{ADMIN_KEY, Gateway, Peer, Upstream, eventually, free_ports};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;

const OTHER_KEY: &str = "another-key-for-the-end-to-end-tests";

fn limited(address: &str) -> Value {
    json!({ "uri": "/*", "upstream": { "type": "roundrobin", "nodes": { address: 1 } },
            "plugins": { "limit-count": { "count": 1, "time_window": 600, "rejected_code": 429 } } })
}

fn post(gateway: &Gateway, bytes: usize) -> u16 {
    let mut client = gateway.connect();
    client
        .send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n{}", "x".repeat(bytes)));
    client.response().status()
}

#[test]
fn new_settings_hold_at_once() {
    let upstream = Upstream::hello();
    let mut gateway = Gateway::with(json!({ "nginx_config": { "worker_processes": 2 } }));
    gateway.route_all(&upstream.address());
    let mut kept = gateway.connect();
    assert!(kept.get("/").field("server").unwrap().contains('/'), "it names the version");
    assert_eq!(post(&gateway, 100), 200);
    let said = gateway.reload(&json!({
        "apisix": { "enable_server_tokens": false, "show_upstream_status_in_response_header": true },
        "nginx_config": { "http": { "client_max_body_size": 10, "access_log": "logs/other.log",
                                    "access_log_format": "now $uri", "keepalive_requests": 3 } },
        "deployment": { "admin": { "admin_key": [{ "name": "b", "key": OTHER_KEY, "role": "admin" }] } },
        "plugin_attr": { "prometheus": { "metric_prefix": "renamed_" } },
    }));
    assert!(said.contains("in force") && !said.contains("restart"), "{said}");
    let answer = kept.get("/");
    assert_eq!(answer.field("server"), Some("Tidegate"), "on a connection that was open before");
    assert_eq!(answer.field("x-apisix-upstream-status"), Some("200"));
    assert_eq!(kept.get("/").field("connection"), Some("close"), "its third request");
    for _ in 0..8 {
        assert_eq!(post(&gateway, 100), 413, "on each worker");
    }
    assert_eq!(gateway.admin("GET", "routes", &json!(null)).status(), 401);
    assert_eq!(gateway.admin_with(OTHER_KEY, "GET", "routes", &json!(null)).status(), 200);
    assert!(gateway.metrics().contains("renamed_http_requests_total"));
    let log = gateway.data_dir().join("logs/other.log");
    eventually("the new log is written", || {
        std::fs::read_to_string(&log)
            .ok()
            .filter(|text| text.lines().filter(|line| *line == "now /").count() == 10)
    });
    assert_eq!(gateway.access_log(2).len(), 2, "what came before is in the log before");
}

#[test]
fn ports_are_taken_and_given_up() {
    let upstream = Upstream::hello();
    let mut gateway = Gateway::with(json!({ "nginx_config": { "worker_processes": 2 } }));
    gateway.route_all(&upstream.address());
    let [first, second] = [gateway.port, free_ports::<1>()[0]];
    let on = |ports: &[u16]| {
        let listen: Vec<Value> =
            ports.iter().map(|port| json!({ "ip": "127.0.0.1", "port": port })).collect();
        json!({ "apisix": { "node_listen": listen } })
    };
    let mut kept = gateway.connect();
    assert_eq!(kept.get("/").status(), 200);
    let said = gateway.reload(&on(&[first, second]));
    assert!(!said.contains("restart"), "{said}");
    for port in [first, second] {
        // More than once: each worker has a socket of its own.
        for _ in 0..8 {
            assert_eq!(Peer::connect(port).get("/").status(), 200);
        }
    }
    gateway.reload(&on(&[second]));
    assert!(TcpStream::connect(("127.0.0.1", first)).is_err(), "the port is given up");
    assert_eq!(kept.get("/").status(), 200, "its connections are not");
    // One that can't be had refuses the whole file.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let said = gateway.reload(&on(&[first, port]));
    assert!(said.contains(&format!("port {port} is in use")) && said.contains("nothing changes"), "{said}");
    assert!(TcpStream::connect(("127.0.0.1", first)).is_err());
    assert_eq!(Peer::connect(second).get("/").status(), 200);
}

#[test]
fn plugins_are_switched_off_and_on() {
    let upstream = Upstream::hello();
    let mut gateway = Gateway::start();
    gateway.put("routes/1", &limited(&upstream.address()));
    assert_eq!((gateway.get("/").status(), gateway.get("/").status()), (200, 429));
    // What stays the same keeps its counters.
    gateway.reload(&json!({ "plugin_attr": { "other": { "a": 1 } } }));
    assert_eq!(gateway.get("/").status(), 429);
    gateway.reload(&json!({ "plugins": ["prometheus"] }));
    assert_eq!(gateway.get("/").status(), 200, "the route stays, the plugin does not run");
    let answer = gateway.admin("PUT", "routes/2", &limited(&upstream.address()));
    assert!(answer.status() == 400 && answer.text().contains("unknown plugin"), "{}", answer.text());
    gateway.reload(&json!({ "plugins": ["prometheus", "limit-count"] }));
    gateway.put("routes/2", &limited(&upstream.address()));
}

#[test]
fn a_refused_file_changes_nothing() {
    let upstream = Upstream::hello();
    let mut gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    let other_log = gateway.data_dir().join("logs/other.log");
    let said = gateway.reload_text(&format!(
        "nginx_config:\n  http:\n    access_log: logs/other.log\n    client_max_body_size: 1\n    send_timeout: soon\n\
         deployment: {{admin: {{admin_key: [{{name: b, key: {OTHER_KEY}, role: admin}}]}}}}\n"
    ));
    assert!(said.contains("config.yaml:5:19") && said.contains("send_timeout"), "{said}");
    assert_eq!(post(&gateway, 100), 200);
    assert_eq!(gateway.admin_with(OTHER_KEY, "GET", "routes", &json!(null)).status(), 401);
    assert_eq!(gateway.admin_with(ADMIN_KEY, "GET", "routes", &json!(null)).status(), 200);
    assert!(!other_log.exists());
    // What waits for a restart is named, and the rest of the same file holds.
    let said = gateway
        .reload(&json!({ "nginx_config": { "worker_processes": 2, "http": { "client_max_body_size": 1 } } }));
    assert!(said.contains("need a restart: nginx_config.worker_processes\n"), "{said}");
    assert_eq!(post(&gateway, 100), 413);
}

#[test]
fn no_request_is_lost_in_reloads() {
    let upstream = Upstream::hello();
    let mut gateway = Gateway::with(json!({ "nginx_config": { "worker_processes": 2 } }));
    gateway.route_all(&upstream.address());
    let (ended, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut clients: Vec<_> = (0..4).map(|_| gateway.connect()).collect();
    std::thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| {
                while !ended.load(Ordering::Acquire) {
                    assert_eq!(client.get("/").status(), 200);
                    answered.fetch_add(1, Ordering::AcqRel);
                }
            });
        }
        for round in 0..8 {
            let before = answered.load(Ordering::Acquire);
            let plugins = if round % 2 == 0 { json!(["prometheus"]) } else { json!(["limit-count"]) };
            gateway.reload(&json!({
                "plugins": plugins,
                "nginx_config": { "http": { "keepalive_requests": 1_000_000 + round, "access_log_format": format!("{round}"),
                                            "upstream": { "keepalive": 10 + round } } },
            }));
            eventually("requests go on", || (answered.load(Ordering::Acquire) > before + 20).then_some(()));
        }
        ended.store(true, Ordering::Release);
    });
}

#[test]
fn rotated_logs_are_opened_anew() {
    let upstream = Upstream::hello();
    let mut gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    gateway.get("/before");
    assert!(gateway.access_log(1)[0].contains("/before"));
    let logs = gateway.data_dir().join("logs");
    for name in ["access.log", "error.log"] {
        std::fs::rename(logs.join(name), logs.join(format!("{name}.1"))).unwrap();
    }
    gateway.process().signal(Signal::USR1);
    eventually("the error log is there again", || logs.join("error.log").exists().then_some(()));
    gateway.get("/after");
    let fresh = gateway.access_log(1);
    assert!(fresh.len() == 1 && fresh[0].contains("/after"), "{fresh:?}");
    let rotated = std::fs::read_to_string(logs.join("access.log.1")).unwrap();
    assert!(rotated.lines().count() == 1 && rotated.contains("/before"), "{rotated}");
    gateway.reload(&json!({}));
    let said = std::fs::read_to_string(logs.join("error.log")).unwrap();
    assert!(said.contains("configuration read again"), "{said}");
}

#[test]
fn a_request_under_way_keeps_its_plugins() {
    let (go, wait) = channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let upstream = Upstream::serve(move |mut peer, _| {
        while peer.request().is_ok() {
            let _ = wait.lock().unwrap().recv();
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
        }
    });
    let gateway = Gateway::start();
    gateway.route_with(&upstream.address(), &json!({}), &json!({ "plugins": { "prometheus": {} } }));
    let mut client = gateway.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the upstream has the request", || (upstream.connections() == 1).then_some(()));
    gateway.route_all(&upstream.address());
    let counted = |gateway: &Gateway| {
        let metrics = gateway.metrics();
        let line = metrics.lines().find(|line| line.starts_with("apisix_http_status{")).map(str::to_owned);
        line.map(|line| line.rsplit_once(' ').unwrap().1.to_owned())
    };
    for _ in 0..2 {
        go.send(()).unwrap();
    }
    assert_eq!(client.response().text(), "hi");
    // What is counted of a request is counted when its answer is out.
    eventually("it ends with the plugins it began with", || {
        (counted(&gateway).as_deref() == Some("1")).then_some(())
    });
    assert_eq!(client.get("/").status(), 200);
    assert_eq!(counted(&gateway).as_deref(), Some("1"), "the next one has none");
}
