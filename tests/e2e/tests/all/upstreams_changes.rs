//! Upstreams that change while they are used: what is under way ends where it began, and nothing fails.

use e2e::{Dns, Gateway, Peer, Traffic, Upstream, eventually};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn upstream(nodes: &[String], more: &Value) -> Value {
    let nodes: Value = nodes.iter().map(|node| (node.clone(), json!(1))).collect();
    let mut upstream = json!({ "type": "roundrobin", "nodes": nodes });
    upstream.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    upstream
}

/// A node whose answers say which one it is, half at once and half when it is told to.
fn halting(name: &'static str) -> (Upstream, Arc<AtomicBool>) {
    let go = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&go);
    let upstream = Upstream::serve(move |mut peer, _| {
        while peer.request().is_ok() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf");
            eventually("it may go on", || told.load(Ordering::Acquire).then_some(()));
            peer.send(&name.repeat(4)[..4]);
        }
    });
    (upstream, go)
}

#[test]
fn requests_under_way_end_at_the_node_where_they_began() {
    let gateway = Gateway::start();
    let ((old, go), new) = (halting("o"), Upstream::hello());
    let put = |node: &Upstream| {
        gateway.put("upstreams/1", &upstream(&[node.address()], &json!({ "type": "least_conn" })));
    };
    put(&old);
    gateway.put("routes/1", &json!({ "uri": "/*", "upstream_id": "1" }));
    let mut under_way = gateway.connect();
    under_way.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(under_way.head().status(), 200);
    put(&new);
    eventually("the new node is asked", || (gateway.get("/").text() == "hello").then_some(()));
    go.store(true, Ordering::Release);
    assert_eq!(under_way.bytes(8), b"halfoooo");
    // The connection goes on, with the new node.
    assert_eq!(under_way.get("/").text(), "hello");
}

#[test]
fn events_are_passed_on_as_they_come() {
    let heard = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&heard);
    let source = Upstream::serve(move |mut peer, _| {
        peer.request().unwrap();
        peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n\r\n");
        for number in 0..3 {
            told.store(false, Ordering::Release);
            peer.send(format!("data: {number}\n\n"));
            eventually("the client has it", || told.load(Ordering::Acquire).then_some(()));
        }
    });
    let gateway = Gateway::start();
    gateway.route_all(&source.address());
    let mut client = gateway.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let head = client.head();
    assert_eq!(head.field("content-type"), Some("text/event-stream"));
    let chunked = head.lists("transfer-encoding", "chunked");
    for number in 0..3 {
        // The source says nothing further before this is here.
        let event = format!("data: {number}\n\n");
        let expected = if chunked { format!("{:x}\r\n{event}\r\n", event.len()) } else { event };
        assert_eq!(client.bytes(expected.len()), expected.as_bytes());
        heard.store(true, Ordering::Release);
    }
}

/// Accepts, reads and resets or stays silent, as it is told; else answers.
fn moody() -> (Upstream, Arc<AtomicBool>) {
    let sick = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&sick);
    let upstream = Upstream::serve(move |mut peer, number| {
        while peer.request().is_ok() {
            if !told.load(Ordering::Acquire) {
                if peer.try_send(HELLO).is_err() {
                    return;
                }
            } else if number % 2 == 0 {
                return peer.reset();
            } else {
                std::thread::sleep(Duration::from_millis(700));
                return;
            }
        }
    });
    (upstream, sick)
}

/// A node that switches to another protocol and gives back every four bytes.
fn echo() -> Upstream {
    Upstream::serve(|mut peer, _| {
        peer.request().unwrap();
        peer.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
        loop {
            let word = peer.bytes(4);
            peer.send(word);
        }
    })
}

fn tunnel(gateway: &Gateway) -> Peer {
    let mut client = gateway.connect();
    client.send("GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.head().status(), 101);
    client
}

fn use_tunnel(tunnel: &mut Peer) {
    tunnel.send("ping");
    assert_eq!(tunnel.bytes(4), b"ping");
}

#[test]
fn nothing_fails_while_everything_changes() {
    let dns = Dns::start();
    let (steady, named) = (Upstream::hello(), Upstream::hello());
    let ((moody, sick), echo) = (moody(), echo());
    dns.set("n.test", &["127.0.0.1"], 1);
    let mut gateway = Gateway::with(json!({
        "apisix": { "dns_resolver": [dns.address()] }, "nginx_config": { "worker_processes": 2 },
    }));
    let nodes = [steady.address(), moody.address(), format!("n.test:{}", named.port)];
    let more = |retries: u32| {
        json!({
            "retries": retries, "timeout": { "connect": 1, "send": 1, "read": 0.3 },
            "checks": { "active": { "type": "tcp", "healthy": { "interval": 1 } },
                        "passive": { "unhealthy": { "tcp_failures": 2, "timeouts": 2 } } },
            "outlier_ejection": { "consecutive_errors": 2, "ejection_time": 1 },
        })
    };
    gateway.put("upstreams/1", &upstream(&nodes, &more(2)));
    gateway.put("routes/1", &json!({ "uri": "/*", "upstream_id": "1" }));
    let chat = upstream(&[echo.address()], &json!({}));
    gateway.put("routes/2", &json!({ "uri": "/chat", "enable_websocket": true, "upstream": chat }));
    assert_eq!(gateway.get("/").status(), 200);
    let mut tunnels: Vec<Peer> = (0..50).map(|_| tunnel(&gateway)).collect();
    let traffic = [(); 4].map(|()| Traffic::start(gateway.port, "/"));
    for round in 0..4 {
        sick.store(round % 2 == 0, Ordering::Release);
        dns.set("n.test", if round % 2 == 0 { &["127.0.0.1", "127.0.0.2"] } else { &["127.0.0.1"] }, 1);
        gateway.put("upstreams/1", &upstream(&nodes[..2 + round % 2], &more(2 + round as u32)));
        let said = gateway.reload(&json!({ "apisix": { "enable_server_tokens": round % 2 == 0 } }));
        assert!(said.contains("in force"), "{said}");
        // Each state lasts for longer than a name's TTL and an ejection.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(1200) {
            assert_eq!(gateway.get("/").status(), 200);
        }
        tunnels.iter_mut().for_each(use_tunnel);
    }
    traffic.into_iter().for_each(Traffic::all_succeeded);
}

#[test]
fn tunnels_outlive_a_change_of_nodes() {
    let echo = echo();
    let gateway = Gateway::start();
    gateway.route_with(&echo.address(), &json!({}), &json!({ "enable_websocket": true }));
    let mut tunnel = tunnel(&gateway);
    let other = Upstream::hello();
    gateway.route_all(&other.address());
    eventually("the route has changed", || (gateway.get("/").text() == "hello").then_some(()));
    use_tunnel(&mut tunnel);
}
