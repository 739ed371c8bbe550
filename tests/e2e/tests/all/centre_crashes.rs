//! The gateway killed with -9 in the middle of Admin writes: what was acknowledged is there afterwards.

use e2e::{ADMIN_KEY, Etcd, Gateway, Peer};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Writes in all: ten thousand where it is asked for. The tenth of it finds what the whole finds, and CI has other
/// things to do.
fn writes() -> usize {
    let asked = std::env::var("TIDEGATE_E2E_WRITES").ok().and_then(|writes| writes.parse().ok());
    asked.unwrap_or(1000)
}

/// Clients that write at once.
const CLIENTS: usize = 8;

/// How often the gateway is killed on the way.
const KILLS: usize = 3;

/// Writes routes until the gateway is gone or there is nothing left to write; the ids of those that were acknowledged.
fn write(port: u16, next: &AtomicUsize, until: usize) -> Vec<usize> {
    let mut acknowledged = Vec::new();
    let mut peer = Peer::connect(port);
    loop {
        let id = next.fetch_add(1, Ordering::Relaxed);
        if id >= until {
            return acknowledged;
        }
        let body =
            json!({ "uri": format!("/r/{id}"), "upstream": { "nodes": { "127.0.0.1:1": 1 } } }).to_string();
        let head = format!(
            "PUT /apisix/admin/routes/{id} HTTP/1.1\r\nHost: admin\r\nX-API-KEY: {ADMIN_KEY}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let answer = peer.try_send([head, body].concat().as_bytes()).and_then(|()| peer.try_response("PUT"));
        match answer {
            Ok(answer) if answer.status() == 201 => acknowledged.push(id),
            Ok(answer) => panic!("{} {}", answer.start, answer.text()),
            // It was killed; what was under way may be there or not.
            Err(_) => return acknowledged,
        }
    }
}

fn nothing_acknowledged_is_lost(mut gateway: Gateway) {
    let (next, total) = (AtomicUsize::new(0), writes());
    let mut acknowledged = Vec::new();
    for round in 1..=KILLS + 1 {
        let (port, until) = (gateway.admin_port, total * round / (KILLS + 1));
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| write(port, &next, until))).collect();
            // In the middle of it, at no chosen moment.
            while next.load(Ordering::Relaxed) < until.saturating_sub(total / 10) {
                std::thread::yield_now();
            }
            if round <= KILLS {
                gateway.process().kill();
            }
            for writer in writers {
                acknowledged.extend(writer.join().unwrap());
            }
        });
        if round <= KILLS {
            gateway.restart();
        }
        next.store(until, Ordering::Relaxed);
    }
    assert!(acknowledged.len() > total / 2, "{} of {total} were acknowledged", acknowledged.len());
    let listing = gateway.admin("GET", "routes", &Value::Null).json();
    let held: std::collections::HashSet<&str> =
        listing["list"].as_array().unwrap().iter().filter_map(|item| item["value"]["id"].as_str()).collect();
    let lost: Vec<usize> =
        acknowledged.into_iter().filter(|id| !held.contains(id.to_string().as_str())).collect();
    assert!(lost.is_empty(), "lost {} acknowledged writes: {:?}", lost.len(), lost.first());
}

#[test]
fn the_embedded_store_loses_nothing_acknowledged() {
    nothing_acknowledged_is_lost(Gateway::start());
}

#[test]
fn etcd_loses_nothing_acknowledged() {
    let etcd = Etcd::start();
    nothing_acknowledged_is_lost(Gateway::with(Etcd::deployment(&[&etcd], 10)));
    assert!(etcd.count("/apisix/routes/") > writes() / 2);
}
