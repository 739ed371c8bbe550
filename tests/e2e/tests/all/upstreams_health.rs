//! Nodes that fail: who notices, how soon, and what the clients see of it.

use e2e::{Gateway, Peer, Upstream, eventually, free_ports};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A node that says which one it is, on a port that it can leave and take again: like a server that is killed and
/// started. Connections end with it.
struct Node {
    port: u16,
    name: &'static str,
    alive: Arc<AtomicBool>,
    /// Requests answered, probes not counted.
    served: Arc<AtomicUsize>,
}

impl Node {
    fn start(name: &'static str) -> Self {
        let [port] = free_ports();
        let mut node = Self { port, name, alive: Arc::default(), served: Arc::default() };
        node.revive();
        node
    }

    fn revive(&mut self) {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], self.port))).unwrap();
        listener.set_nonblocking(true).unwrap();
        self.alive = Arc::new(AtomicBool::new(true));
        let (alive, served, name) = (Arc::clone(&self.alive), Arc::clone(&self.served), self.name);
        std::thread::spawn(move || {
            while alive.load(Ordering::Acquire) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let (alive, served) = (Arc::clone(&alive), Arc::clone(&served));
                        std::thread::spawn(move || answer(stream, name, &alive, &served));
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(2)),
                }
            }
        });
    }

    fn kill(&self) {
        self.alive.store(false, Ordering::Release);
        let port = self.port;
        eventually("the port is closed", || {
            std::net::TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).is_err().then_some(())
        });
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn served(&self) -> usize {
        self.served.load(Ordering::Acquire)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.alive.store(false, Ordering::Release);
    }
}

/// Answers until the node dies, which breaks the connection off wherever it is.
fn answer(mut stream: std::net::TcpStream, name: &str, alive: &AtomicBool, served: &AtomicUsize) {
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    let (mut held, mut piece) = (Vec::new(), [0; 4096]);
    while alive.load(Ordering::Acquire) {
        match stream.read(&mut piece) {
            Ok(0) => return,
            Ok(count) => held.extend_from_slice(&piece[..count]),
            Err(_) => continue,
        }
        while let Some(end) = held.windows(4).position(|window| window == b"\r\n\r\n") {
            let probe = held.starts_with(b"GET /health");
            held.drain(..end + 4);
            served.fetch_add(usize::from(!probe), Ordering::AcqRel);
            let length = name.len();
            let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{name}");
            if stream.write_all(text.as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// Checks that notice a node's end with one probe and its return with one.
fn quick() -> Value {
    json!({ "active": {
        "http_path": "/health",
        "healthy": { "interval": 1, "successes": 1 },
        "unhealthy": { "interval": 1, "http_failures": 1, "tcp_failures": 1, "timeouts": 1 },
    } })
}

/// Checks whose probes come once, at the start, so that only requests tell.
fn by_requests_alone() -> Value {
    json!({
        "active": { "type": "tcp", "healthy": { "interval": 3600 }, "unhealthy": { "interval": 3600 } },
        "passive": {
            "healthy": { "successes": 1 },
            "unhealthy": { "http_failures": 2, "tcp_failures": 2, "timeouts": 2, "http_statuses": [500] },
        },
    })
}

fn upstream(nodes: &[String], checks: &Value, more: &Value) -> Value {
    let nodes: serde_json::Map<_, _> = nodes.iter().map(|node| (node.clone(), json!(1))).collect();
    let mut upstream = json!({ "type": "roundrobin", "nodes": nodes, "checks": checks });
    for (key, value) in more.as_object().into_iter().flatten() {
        upstream[key] = value.clone();
    }
    upstream
}

/// A gateway with a control API, and its port.
fn gateway() -> (Gateway, u16) {
    let [control] = free_ports();
    let config = json!({
        "apisix": { "enable_control": true, "control": { "ip": "127.0.0.1", "port": control } },
    });
    (Gateway::with(config), control)
}

/// The states of the nodes by port, as the control API shows them.
fn states(control: u16, of: &str) -> Vec<(u16, String)> {
    let text = Peer::connect(control).get_from("localhost", &format!("/v1/healthcheck/{of}")).text();
    let Ok(value) = serde_json::from_str::<Value>(&text) else { return Vec::new() };
    let nodes = value["nodes"].as_array().cloned().unwrap_or_default();
    nodes
        .iter()
        .map(|node| (node["port"].as_u64().unwrap() as u16, node["status"].as_str().unwrap().to_owned()))
        .collect()
}

/// Whether a node gets no requests, also where a late probe spoke for it.
fn is_out(control: u16, of: &str, port: u16) -> bool {
    states(control, of).iter().any(|(of, state)| *of == port && state.ends_with("unhealthy"))
}

fn until_state(control: u16, of: &str, port: u16, state: &str) {
    eventually(&format!("node {port} is {state}"), || {
        states(control, of).contains(&(port, state.to_owned())).then_some(())
    });
}

#[test]
fn a_killed_node_costs_no_request_and_comes_back() {
    let (gateway, control) = gateway();
    let mut nodes = [Node::start("a"), Node::start("b"), Node::start("c")];
    let addresses: Vec<String> = nodes.iter().map(Node::address).collect();
    gateway.put("upstreams/1", &upstream(&addresses, &quick(), &json!({})));
    gateway.put("routes/1", &json!({ "uri": "/*", "upstream_id": "1" }));
    let (ends, asked, failed) =
        (AtomicBool::new(false), AtomicUsize::new(0), std::sync::Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = gateway.connect();
                while !ends.load(Ordering::Acquire) {
                    let answer = client.get("/");
                    asked.fetch_add(1, Ordering::AcqRel);
                    if answer.status() != 200 {
                        failed.lock().unwrap().push(answer.status());
                    }
                    // After so many requests a connection is renewed.
                    if answer.lists("connection", "close") {
                        client = gateway.connect();
                    }
                }
            });
        }
        let some_more = |count: usize| {
            let begin = asked.load(Ordering::Acquire);
            eventually("requests go on", || (asked.load(Ordering::Acquire) > begin + count).then_some(()));
        };
        some_more(100);
        nodes[1].kill();
        let killed = Instant::now();
        until_state(control, "upstreams/1", nodes[1].port, "unhealthy");
        // One interval, and what a busy machine adds.
        assert!(killed.elapsed() < Duration::from_secs(3), "{:?}", killed.elapsed());
        let before = gateway.stderr().matches("trying another node").count();
        some_more(100);
        let after = gateway.stderr().matches("trying another node").count();
        assert!(after - before <= 8, "no request is tried there any more: {}", after - before);
        nodes[1].revive();
        let served = nodes[1].served();
        until_state(control, "upstreams/1", nodes[1].port, "healthy");
        eventually("it is asked again", || (nodes[1].served() > served).then_some(()));
        ends.store(true, Ordering::Release);
    });
    assert_eq!(*failed.lock().unwrap(), Vec::<u16>::new());
    let said = gateway.stderr();
    assert!(said.contains("is now unhealthy") && said.contains("is now healthy"), "{said}");
}

#[test]
fn a_node_that_accepts_and_never_answers_is_left_alone() {
    let (gateway, control) = gateway();
    let good = Node::start("good");
    let silent = Upstream::serve(|mut peer, _| while peer.request().is_ok() {});
    let timeouts = json!({ "timeout": { "connect": 1, "send": 1, "read": 0.5 } });
    let nodes = [good.address(), silent.address()];
    gateway.put("routes/1", &json!({ "uri": "/*", "upstream": upstream(&nodes, &quick(), &timeouts) }));
    // An idempotent request that waits in vain is sent to the other node.
    for _ in 0..2 {
        assert_eq!(gateway.get("/").text(), "good");
    }
    until_state(control, "routes/1", silent.port, "unhealthy");
    let begin = Instant::now();
    for _ in 0..10 {
        assert_eq!(gateway.get("/").text(), "good");
    }
    assert!(begin.elapsed() < Duration::from_millis(500), "{:?}", begin.elapsed());
    until_state(control, "routes/1", good.port, "healthy");
}

#[test]
fn a_node_that_breaks_off_after_the_head_is_left_alone() {
    let (gateway, control) = gateway();
    let good = Node::start("good");
    let broken = Upstream::serve(|mut peer, _| {
        if peer.request().is_ok() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome");
            peer.reset();
        }
    });
    let nodes = [good.address(), broken.address()];
    gateway.put(
        "routes/1",
        &json!({ "uri": "/*", "upstream": upstream(&nodes, &by_requests_alone(), &json!({})) }),
    );
    let ask = || {
        let mut client = gateway.connect();
        client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client.try_response("GET").map(|answer| answer.text())
    };
    eventually("it has failed often enough", || {
        let _ = ask();
        is_out(control, "routes/1", broken.port).then_some(())
    });
    for _ in 0..6 {
        assert_eq!(ask().unwrap(), "good");
    }
}

#[test]
fn requests_alone_tell_as_well() {
    let (gateway, control) = gateway();
    let good = Node::start("good");
    let bad = Upstream::answering(|_| b"HTTP/1.1 500 No\r\nContent-Length: 3\r\n\r\nbad".to_vec());
    let nodes = [good.address(), bad.address()];
    gateway.put("services/1", &json!({ "upstream": upstream(&nodes, &by_requests_alone(), &json!({})) }));
    gateway.put("routes/1", &json!({ "uri": "/*", "service_id": "1" }));
    let answers: Vec<String> = (0..20).map(|_| gateway.get("/").text()).collect();
    assert_eq!(answers.iter().filter(|text| *text == "bad").count(), 2, "{answers:?}");
    assert!(is_out(control, "services/1", bad.port));
    let metrics = gateway.metrics();
    for (port, value) in [(good.port, 1), (bad.port, 0)] {
        let line = format!(
            "apisix_upstream_status{{name=\"/apisix/services/1\",ip=\"127.0.0.1\",port=\"{port}\"}} {value}"
        );
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
    let mut browser = Peer::connect(control);
    browser.send("GET /v1/healthcheck HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n");
    let page = browser.response();
    assert!(page.field("content-type").is_some_and(|kind| kind.starts_with("text/html")));
    assert!(page.text().contains(&format!("127.0.0.1:{}", bad.port)), "{}", page.text());
}

#[test]
fn where_all_are_unhealthy_all_are_used() {
    let (gateway, control) = gateway();
    let answers = |text: &'static str| {
        Upstream::answering(move |request| {
            let status = if request.start.starts_with("GET /health") { 500 } else { 200 };
            format!("HTTP/1.1 {status} X\r\nContent-Length: 1\r\n\r\n{text}").into_bytes()
        })
    };
    let (first, second) = (answers("1"), answers("2"));
    let nodes = [first.address(), second.address()];
    gateway.put("routes/1", &json!({ "uri": "/*", "upstream": upstream(&nodes, &quick(), &json!({})) }));
    for node in [&first, &second] {
        until_state(control, "routes/1", node.port, "unhealthy");
    }
    let mut got: Vec<String> = (0..4).map(|_| gateway.get("/").text()).collect();
    got.sort();
    assert_eq!(got, ["1", "1", "2", "2"]);
}

#[test]
fn where_no_healthy_node_has_a_weight_these_are_used() {
    let (gateway, control) = gateway();
    let spare = Node::start("spare");
    let [dead] = free_ports();
    let mut weighed = upstream(&[], &quick(), &json!({}));
    weighed["nodes"] = json!({ spare.address(): 0, format!("127.0.0.1:{dead}"): 1 });
    gateway.put("routes/1", &json!({ "uri": "/*", "upstream": weighed }));
    until_state(control, "routes/1", dead, "unhealthy");
    for _ in 0..3 {
        assert_eq!(gateway.get("/").text(), "spare");
    }
}

#[test]
fn health_outlives_changes_that_leave_the_node() {
    let (mut gateway, control) = gateway();
    let (good, bad) = (
        Node::start("good"),
        Upstream::answering(|_| b"HTTP/1.1 500 No\r\nContent-Length: 3\r\n\r\nbad".to_vec()),
    );
    let nodes = [good.address(), bad.address()];
    let checks = by_requests_alone();
    let put = |gateway: &Gateway, nodes: &[String], more: &Value| {
        gateway.put("upstreams/1", &upstream(nodes, &checks, more));
    };
    put(&gateway, &nodes, &json!({}));
    gateway.put("routes/1", &json!({ "uri": "/*", "upstream_id": "1" }));
    for _ in 0..4 {
        gateway.get("/");
    }
    assert!(is_out(control, "upstreams/1", bad.port));
    let only_good = |gateway: &Gateway, why: &str| {
        for _ in 0..6 {
            assert_eq!(gateway.get("/").text(), "good", "{why}");
        }
    };
    // Another key of the upstream, another node, another resource, the configuration file.
    put(&gateway, &nodes, &json!({ "retries": 1 }));
    only_good(&gateway, "another key");
    let third = Node::start("good");
    put(&gateway, &[good.address(), bad.address(), third.address()], &json!({}));
    only_good(&gateway, "another node");
    gateway.put("routes/2", &json!({ "uri": "/other", "upstream_id": "1" }));
    only_good(&gateway, "another route");
    gateway.reload(&json!({ "plugins": ["key-auth"] }));
    only_good(&gateway, "a reload that compiles everything anew");
    assert!(is_out(control, "upstreams/1", bad.port));
    // Whoever switches checks off has every node used.
    gateway.reload(&json!({ "apisix": { "disable_upstream_healthcheck": true } }));
    assert_eq!(states(control, "upstreams/1"), []);
    let answers: Vec<String> = (0..6).map(|_| gateway.get("/").text()).collect();
    assert_eq!(answers.iter().filter(|text| *text == "bad").count(), 2, "{answers:?}");
}

#[test]
fn retries_of_a_sick_upstream_are_limited() {
    let gateway = Gateway::start();
    let sick = Upstream::serve(|mut peer, _| {
        if peer.request().is_ok() {
            peer.reset();
        }
    });
    gateway.route_with(&sick.address(), &json!({ "retries": 1 }), &json!({}));
    let begin = Instant::now();
    let mut client = gateway.connect();
    for _ in 0..400 {
        assert_eq!(client.get("/").status(), 502);
    }
    // 100 saved up, one for five requests, ten a second.
    let most = 400 + 100 + 80 + 10 * (begin.elapsed().as_secs() as usize + 1);
    assert!((500..=most).contains(&sick.connections()), "{} of {most}", sick.connections());
}

#[test]
fn a_streamed_body_is_sent_once() {
    let gateway = Gateway::start();
    let sick = Upstream::serve(|mut peer, _| {
        let _ = peer.try_head();
        if peer.unused().is_empty() {
            let _ = peer.fill();
        }
        peer.reset();
    });
    gateway.route_with(&sick.address(), &json!({ "retries": 3 }), &json!({}));
    for method in ["PUT", "POST"] {
        let before = sick.connections();
        let mut client = gateway.connect();
        client.send(format!(
            "{method} / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
        ));
        eventually("it is asked", || (sick.connections() > before).then_some(()));
        let _ = client.try_send(b"0\r\n\r\n");
        assert_eq!(client.response().status(), 502, "{method}");
        assert_eq!(sick.connections(), before + 1, "{method}");
    }
}

#[test]
fn no_node_is_tried_after_the_retry_timeout() {
    let gateway = Gateway::start();
    let silent: Vec<Upstream> =
        (0..3).map(|_| Upstream::serve(|mut peer, _| while peer.request().is_ok() {})).collect();
    let nodes: serde_json::Map<_, _> = silent.iter().map(|node| (node.address(), json!(1))).collect();
    let upstream = json!({
        "type": "roundrobin", "nodes": nodes, "retries": 2, "retry_timeout": 0.4,
        "timeout": { "connect": 1, "send": 1, "read": 0.3 },
    });
    gateway.put("routes/1", &json!({ "uri": "/*", "upstream": upstream }));
    assert_eq!(gateway.get("/").status(), 504);
    let asked: usize = silent.iter().map(Upstream::connections).sum();
    assert_eq!(asked, 2, "each takes 0.3 s: the second begins in time, the third would not");
}
