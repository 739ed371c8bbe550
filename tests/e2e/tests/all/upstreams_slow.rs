//! Nodes that stand out, by slowness or by failures: they get less, or are put aside.

use e2e::{Gateway, Message, Upstream, eventually};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::scope;
use std::time::Duration;

/// A node that takes a while, and counts.
fn node(pause: Duration) -> (Upstream, Arc<AtomicUsize>) {
    let served = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&served);
    let upstream = Upstream::answering(move |_| {
        count.fetch_add(1, Ordering::AcqRel);
        std::thread::sleep(pause);
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()
    });
    (upstream, served)
}

fn upstream(nodes: &[&Upstream], more: &Value) -> Value {
    let nodes: Value = nodes.iter().map(|node| (node.address(), json!(1))).collect();
    let mut upstream = json!({ "nodes": nodes });
    upstream.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    upstream
}

/// Asks with four clients, a hundred times each; all must be answered.
fn ask(gateway: &Gateway) {
    scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                let mut peer = gateway.connect();
                for _ in 0..100 {
                    assert_eq!(peer.get("/").status(), 200);
                }
            });
        }
    });
}

#[test]
fn a_slow_node_gets_less_where_the_balancer_looks() {
    for (algorithm, share_min, share_max) in
        [("roundrobin", 0.45, 0.55), ("least_conn", 0.0, 0.25), ("ewma", 0.0, 0.25), ("p2c", 0.0, 0.25)]
    {
        let gateway = Gateway::start();
        let ((quick, _), (slow, slow_served)) =
            (node(Duration::from_millis(1)), node(Duration::from_millis(100)));
        let upstream = upstream(&[&quick, &slow], &json!({ "type": algorithm }));
        gateway.put("routes/1", &json!({ "uri": "/*", "upstream": upstream }));
        ask(&gateway);
        let share = slow_served.load(Ordering::Acquire) as f64 / 400.0;
        assert!((share_min..=share_max).contains(&share), "{algorithm}: {share}");
    }
}

#[test]
fn a_node_whose_requests_fail_is_put_aside_and_comes_back() {
    let gateway = Gateway::start();
    let failed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&failed);
    // It recovers after three failures.
    let sick = Upstream::answering(move |_: &Message| match count.fetch_add(1, Ordering::AcqRel) {
        0..3 => b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n".to_vec(),
        _ => b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nsick".to_vec(),
    });
    let (well, _) = node(Duration::ZERO);
    let rules = json!({ "outlier_ejection": { "consecutive_errors": 3, "ejection_time": 1 } });
    gateway.put("upstreams/1", &upstream(&[&sick, &well], &rules));
    gateway.put("routes/1", &json!({ "uri": "/*", "upstream_id": "1" }));
    let mut peer = gateway.connect();
    let statuses: Vec<u16> = (0..20).map(|_| peer.get("/").status()).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 500).count(), 3, "{statuses:?}");
    assert_eq!(failed.load(Ordering::Acquire), 3, "it was asked while it was put aside");
    let said = eventually("the log tells", || {
        let said = gateway.stderr();
        said.lines().find(|line| line.contains("put aside")).map(str::to_owned)
    });
    for words in ["/upstreams/1", "its requests fail", &sick.address()] {
        assert!(said.contains(words), "{said}");
    }
    // What is known of nodes outlives a change.
    gateway.put(
        "upstreams/1",
        &upstream(&[&sick, &well], &json!({ "retries": 0, "outlier_ejection": rules["outlier_ejection"] })),
    );
    eventually("it serves again", || (peer.get("/").text() == "sick").then_some(()));
}

#[test]
fn a_node_that_is_much_slower_is_put_aside() {
    let gateway = Gateway::start();
    let ((quick, _), (slow, slow_served)) = (node(Duration::ZERO), node(Duration::from_millis(30)));
    let rules = json!({ "outlier_ejection": { "latency_factor": 3, "latency_margin": 0.01 } });
    gateway.put("routes/1", &json!({ "uri": "/*", "upstream": upstream(&[&quick, &slow], &rules) }));
    // 32 requests to each are needed before they are compared, and then at most one second.
    eventually("the log tells", || {
        ask(&gateway);
        gateway.stderr().contains("its answers take long").then_some(())
    });
    let before = slow_served.load(Ordering::Acquire);
    ask(&gateway);
    assert_eq!(slow_served.load(Ordering::Acquire), before);
}

#[test]
fn the_last_nodes_are_not_put_aside() {
    let gateway = Gateway::start();
    let sick = || {
        Upstream::answering(|_| b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n".to_vec())
    };
    let nodes = [sick(), sick(), sick()];
    let rules = json!({ "outlier_ejection": { "consecutive_errors": 1 } });
    let all: Vec<&Upstream> = nodes.iter().collect();
    gateway.put("routes/1", &json!({ "uri": "/*", "upstream": upstream(&all, &rules) }));
    for _ in 0..9 {
        assert_eq!(gateway.get("/").status(), 500);
    }
    assert_eq!(gateway.stderr().matches("put aside").count(), 1, "half of three, rounded down");
}
