//! Another protocol through the gateway: `enable_websocket`.

use e2e::{Gateway, Upstream};
use serde_json::json;

const ASK: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

#[test]
fn bytes_flow_both_ways_after_the_switch() {
    let upstream = Upstream::serve(|mut peer, _| {
        let request = peer.request().unwrap();
        if !request.lists("connection", "upgrade") {
            return peer.send("HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n");
        }
        assert_eq!(request.field("upgrade"), Some("websocket"));
        // The first bytes of the new protocol come with the head.
        peer.send(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nwelcome",
        );
        for _ in 0..3 {
            let word = peer.bytes(4);
            peer.send(word);
        }
        assert!(peer.is_closed(), "the client's end is passed on");
        peer.send("bye");
    });
    let gateway = Gateway::start();
    gateway.route_with(&upstream.address(), &json!({}), &json!({ "enable_websocket": true }));
    let mut client = gateway.connect();
    client.send(ASK);
    let answer = client.head();
    assert_eq!((answer.status(), answer.field("upgrade")), (101, Some("websocket")));
    assert!(answer.lists("connection", "upgrade"));
    assert_eq!(client.bytes(7), b"welcome");
    for word in ["ping", "pong", "\0\r\n\0"] {
        client.send(word);
        assert_eq!(client.bytes(4), word.as_bytes());
    }
    client.finish();
    assert_eq!(client.bytes(3), b"bye");
    assert!(client.is_closed());
    // Without the switch on the route the wish is not passed on.
    gateway.route_all(&upstream.address());
    let mut client = gateway.connect();
    // Nor does it keep the connection from further requests, however long.
    let long = "x".repeat(5000);
    client.send(format!("{ASK}GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!(client.response().status(), 426);
    assert_eq!(client.response().status(), 426);
}

/// `benches/websockets.py` does the same with 10,000.
#[test]
fn many_connections_take_little_memory() {
    const CONNECTIONS: usize = 300;
    let upstream = Upstream::serve(|mut peer, _| {
        if peer.request().is_ok() {
            peer.send(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
            );
            while !peer.is_closed() {}
        }
    });
    let mut gateway = Gateway::start();
    gateway.route_with(&upstream.address(), &json!({}), &json!({ "enable_websocket": true }));
    let open = |gateway: &Gateway| {
        let mut client = gateway.connect();
        client.send(ASK);
        assert_eq!(client.head().status(), 101);
        client
    };
    // What the first ones need is there for the others too.
    let first: Vec<_> = (0..20).map(|_| open(&gateway)).collect();
    let before = gateway.process().memory_kb("VmRSS");
    let others: Vec<_> = (0..CONNECTIONS).map(|_| open(&gateway)).collect();
    let each = (gateway.process().memory_kb("VmRSS") - before) * 1000 / CONNECTIONS as u64;
    assert!(each <= 10_000, "{each} bytes for each connection");
    drop((first, others));
}

#[test]
fn a_switch_that_nobody_asked_for_is_502() {
    let upstream =
        Upstream::answering(|_| b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n".to_vec());
    let gateway = Gateway::start();
    gateway.route_with(&upstream.address(), &json!({}), &json!({ "enable_websocket": true }));
    assert_eq!(gateway.get("/").status(), 502);
}

/// Neither connection speaks HTTP after a 101: no other request may meet the upstream's.
#[test]
fn a_plugin_that_changes_the_status_of_a_switch_makes_it_502() {
    let upstream = Upstream::serve(|mut peer, _| {
        while let Ok(request) = peer.request() {
            if request.lists("connection", "upgrade") {
                peer.send(
                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
                );
                // Whatever is asked from now on is answered in the other protocol.
                if !peer.is_closed() {
                    peer.try_send(b"frame").ok();
                }
                return;
            }
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        }
    });
    let gateway = Gateway::start();
    let rewrite = json!({ "response-rewrite": { "status_code": 200, "headers": { "add": ["X-A: 1"] } } });
    gateway.route_with(
        &upstream.address(),
        &json!({}),
        &json!({ "enable_websocket": true, "plugins": rewrite }),
    );
    for _ in 0..4 {
        let mut client = gateway.connect();
        client.send(ASK);
        let answer = client.response();
        assert_eq!((answer.status(), answer.all("x-a").len()), (502, 1));
        let answer = gateway.get("/plain");
        assert_eq!((answer.status(), answer.text().as_str()), (200, "hello"));
    }
}
