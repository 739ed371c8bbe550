//! Upstreams that fail: what the client is told, and when somebody else is asked.

use e2e::{Gateway, Peer, Upstream, eventually, free_ports};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// A gateway that sends everything to `upstream`.
fn gateway(upstream: &Upstream) -> Gateway {
    let gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    gateway
}

#[test]
fn a_refused_port_is_502() {
    let gateway = Gateway::start();
    let [port] = free_ports();
    gateway.route_all(&format!("127.0.0.1:{port}"));
    let answer = gateway.get("/");
    assert_eq!((answer.status(), answer.field("x-apisix-upstream-status")), (502, Some("502")));
    assert!(answer.text().contains("<h1>502 Bad Gateway</h1>"));
    // The client's connection outlives it.
    let mut client = gateway.connect();
    assert_eq!((client.get("/").status(), client.get("/").status()), (502, 502));
}

#[test]
fn another_node_is_asked_where_one_refuses() {
    let upstream = Upstream::hello();
    let gateway = Gateway::start();
    let [port] = free_ports();
    let nodes = json!({ upstream.address(): 1, format!("127.0.0.1:{port}"): 1 });
    gateway.put("routes/1", &json!({ "uri": "/*", "upstream": { "type": "roundrobin", "nodes": nodes } }));
    for _ in 0..10 {
        assert_eq!(gateway.get("/").status(), 200);
    }
    let body = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    for _ in 0..4 {
        let mut client = gateway.connect();
        client.send(body);
        assert_eq!(client.response().status(), 200, "nothing was sent to the node that refused");
    }
}

/// With more retries than nodes, what the last one did is the answer, and not that none is left.
#[test]
fn the_last_nodes_error_is_the_answer() {
    let silent = Upstream::serve(|mut peer, _| while peer.request().is_ok() {});
    let gateway = Gateway::start();
    let [first, second] = free_ports();
    let node = |port: u16, priority: i32| json!({ "host": "127.0.0.1", "port": port, "weight": 1, "priority": priority });
    let silent_port = silent.address().rsplit_once(':').unwrap().1.parse().unwrap();
    for (last, status) in [(second, 502), (silent_port, 504)] {
        let upstream = json!({
            "type": "roundrobin", "retries": 5, "nodes": [node(first, 1), node(last, 0)],
            "timeout": { "connect": 1, "send": 1, "read": 0.3 },
        });
        gateway.put("routes/1", &json!({ "uri": "/*", "upstream": upstream }));
        assert_eq!(gateway.get("/").status(), status);
    }
}

#[test]
fn retries_are_as_many_as_the_upstream_says() {
    let gateway = Gateway::start();
    let upstream = Upstream::serve(|mut peer, _| {
        let _ = peer.request();
        peer.reset();
    });
    let config = json!({ "retries": 2 });
    gateway.route_with(&upstream.address(), &config, &json!({}));
    assert_eq!(gateway.get("/").status(), 502);
    assert_eq!(upstream.connections(), 3, "once and two retries");
}

#[test]
fn an_idle_connection_that_was_closed_is_replaced() {
    // Closes after one response, without saying so.
    let upstream = Upstream::serve(|mut peer, _| {
        if peer.request().is_ok() {
            peer.send(HELLO);
        }
    });
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    for _ in 0..20 {
        assert_eq!(client.get("/").text(), "hello");
    }
    // The worst moment: the request is under way when the connection ends.
    let upstream = Upstream::serve(|mut peer, number| {
        if peer.request().is_ok() {
            peer.send(HELLO);
        }
        if number % 2 == 0 && peer.request().is_ok() {
            peer.reset();
        }
    });
    gateway.route_all(&upstream.address());
    for _ in 0..20 {
        assert_eq!(client.get("/").text(), "hello");
    }
}

#[test]
fn a_late_answer_on_a_connection_that_was_kept_is_no_reason_to_ask_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let upstream = Upstream::serve(move |mut peer, _| {
        while let Ok(request) = peer.request() {
            count.fetch_add(1, Ordering::AcqRel);
            if request.start.starts_with("GET /quick ") {
                peer.send(HELLO);
            }
        }
    });
    let gateway = Gateway::start();
    let impatient = json!({ "retries": 0, "timeout": { "connect": 1, "send": 1, "read": 0.3 } });
    gateway.route_with(&upstream.address(), &impatient, &json!({}));
    let mut client = gateway.connect();
    assert_eq!(client.get("/quick").status(), 200);
    assert_eq!(client.get("/never").status(), 504);
    assert_eq!(asked.load(Ordering::Acquire), 2);
}

#[test]
fn a_post_is_not_sent_twice_once_it_may_have_arrived() {
    let upstream = Upstream::serve(|mut peer, _| {
        let _ = peer.request();
        peer.reset();
    });
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!(client.response().status(), 502);
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn an_upstream_that_ends_before_its_head_is_502() {
    for said in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"] {
        for resets in [false, true] {
            let upstream = Upstream::serve(move |mut peer, _| {
                let _ = peer.request();
                peer.send(said);
                if resets {
                    peer.reset();
                }
            });
            let gateway = gateway(&upstream);
            assert_eq!(gateway.get("/").status(), 502, "after {said:?}, by a reset: {resets}");
        }
    }
}

#[test]
fn a_body_that_breaks_off_is_seen_to_be_incomplete() {
    let framings = ["Content-Length: 10\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"];
    for framing in framings {
        let upstream = Upstream::serve(move |mut peer, _| {
            let _ = peer.request();
            peer.send(format!("HTTP/1.1 200 OK\r\n{framing}"));
        });
        let gateway = gateway(&upstream);
        let mut client = gateway.connect();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.head().status(), 200, "{framing}");
        while client.fill().is_ok_and(|more| more) {}
        let got = String::from_utf8_lossy(client.unused()).into_owned();
        assert!(got.contains("hello") && !got.contains("0\r\n\r\n"), "{framing}: {got:?}");
    }
}

#[test]
fn a_body_that_is_malformed_from_the_start_is_502() {
    for (version, filters) in [("1.1", false), ("1.0", false), ("1.1", true)] {
        let upstream = Upstream::serve(|mut peer, _| {
            let _ = peer.request();
            let _ =
                peer.try_send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nx\r\n");
        });
        let gateway = Gateway::start();
        let plugins = if filters { json!({ "plugins": { "gzip": {} } }) } else { json!({}) };
        gateway.route_with(&upstream.address(), &json!({ "retries": 2 }), &plugins);
        let mut client = gateway.connect();
        for _ in 0..2 {
            client.send(format!("GET / HTTP/{version}\r\nHost: a\r\nConnection: keep-alive\r\n\r\n"));
            let answer = client.response();
            assert_eq!(answer.status(), 502, "HTTP/{version}");
            assert!(!answer.text().contains("hello"));
        }
        assert_eq!(upstream.connections(), 2, "one for each request, and none of them is used again");
        assert!(gateway.stderr().contains("invalid chunk size"), "{}", gateway.stderr());
    }
}

#[test]
fn a_response_without_framing_ends_with_its_connection() {
    let upstream = Upstream::serve(|mut peer, _| {
        let _ = peer.request();
        peer.send("HTTP/1.1 200 OK\r\nX: y\r\n\r\nhello");
    });
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    for _ in 0..3 {
        let answer = client.get("/");
        assert_eq!((answer.text().as_str(), answer.field("x")), ("hello", Some("y")));
        assert!(answer.lists("transfer-encoding", "chunked"), "so that the client's connection can stay");
    }
}

#[test]
fn an_answer_may_come_before_the_body_is_sent() {
    let upstream = Upstream::serve(|mut peer, _| {
        peer.head();
        peer.send(
            "HTTP/1.1 413 Request Entity Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlong",
        );
        // It reads on, as it should, for a while.
        while peer.fill().is_ok_and(|more| more) {}
    });
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nbegin");
    let answer = client.response();
    assert_eq!((answer.status(), answer.text().as_str()), (413, "long"));
    assert_eq!(answer.field("connection"), Some("close"), "the rest of the body is not waited for");
}

#[test]
fn a_bad_body_after_an_early_answer_gets_no_second_one() {
    let (broken, goes_on) = channel::<()>();
    let goes_on = std::sync::Mutex::new(goes_on);
    let upstream = Upstream::serve(move |mut peer, _| {
        peer.head();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst");
        let _ = goes_on.lock().unwrap().recv();
        let _ = peer.try_send(b"-rest");
    });
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    assert_eq!(client.head().status(), 200);
    client.send("bad size\r\n");
    std::thread::sleep(Duration::from_millis(50));
    broken.send(()).unwrap();
    assert_eq!(client.bytes(10), b"first-rest");
    assert!(client.is_closed());
}

#[test]
fn an_upstream_that_never_answers_is_504() {
    let upstream = Upstream::serve(|mut peer, _| {
        let _ = peer.request();
        let _ = peer.is_closed();
    });
    let gateway = Gateway::start();
    let timeout = json!({ "timeout": { "connect": 1, "send": 1, "read": 0.5 }, "retries": 0 });
    gateway.route_with(&upstream.address(), &timeout, &json!({}));
    let begin = Instant::now();
    assert_eq!(gateway.get("/").status(), 504);
    let took = begin.elapsed();
    assert!(took > Duration::from_millis(400) && took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn a_client_that_leaves_ends_the_request_upstream() {
    let (ended, ends) = channel();
    let upstream = Upstream::serve(move |mut peer, _| {
        let _ = peer.request();
        ended.send(peer.is_closed()).unwrap();
    });
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send("GET /left HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the upstream has the request", || (upstream.connections() == 1).then_some(()));
    assert!(client.is_quiet(Duration::from_millis(50)));
    drop(client);
    assert!(ends.recv_timeout(Duration::from_secs(5)).unwrap());
    let line = gateway.access_log(1).remove(0);
    assert!(line.contains("\"GET /left HTTP/1.1\" 499 0 "), "{line}");
}

#[test]
fn nodes_may_be_names() {
    let upstream = Upstream::hello();
    let gateway = Gateway::start();
    gateway.route_all(&format!("localhost:{}", upstream.port));
    // Also where the name leads to ::1 too, on which this upstream doesn't listen.
    let answers: Vec<String> = (0..8).map(|_| gateway.get("/").text()).collect();
    assert_eq!(answers, ["hello"; 8]);
    gateway.route_all("no-such-host.invalid:80");
    assert!(matches!(gateway.get("/").status(), 502 | 503));
    assert_eq!(Peer::connect(gateway.port).get("/").field("connection"), None);
}

#[test]
fn responses_may_be_larger_than_their_head_allows_only_in_the_body() {
    let upstream = Upstream::answering(|_| {
        format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n", "y".repeat(60_000)).into_bytes()
    });
    let gateway = gateway(&upstream);
    assert_eq!(gateway.get("/").status(), 502);
}
