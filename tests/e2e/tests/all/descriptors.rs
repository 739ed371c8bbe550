//! A gateway whose clients want more descriptors than it may have: those it has accepted are served, and it can be
//! reconfigured.

use e2e::{Gateway, Peer, Spec, Upstream, eventually, free_ports};
use serde_json::json;
use std::time::Duration;

/// Many times what 256 descriptors allow one worker: half of what the control plane and the start leave, less than 90.
const CLIENTS: usize = 300;

/// Long enough to find out that a connection was closed before.
const MOMENT: Duration = Duration::from_millis(1);

fn start(upstream: &Upstream) -> Gateway {
    let gateway = Gateway::launch(&Spec { open_files: Some(256), ..Spec::default() });
    gateway.route_all(&upstream.address());
    gateway
}

fn open_files(gateway: &mut Gateway) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", gateway.process().id())).unwrap().count()
}

fn count(gateway: &Gateway, words: &str) -> usize {
    gateway.stderr().matches(words).count()
}

#[test]
fn clients_in_excess_wait_while_those_accepted_reach_the_upstream_and_a_reload_works() {
    let upstream = Upstream::hello();
    let mut gateway = start(&upstream);
    // Heads that are not complete: nobody is idle.
    let mut clients: Vec<Peer> = (0..CLIENTS)
        .map(|_| {
            let mut client = gateway.connect();
            client.send("GET / HTTP/1.1\r\nHost: e2e\r\n");
            client
        })
        .collect();
    eventually("the limit is met", || {
        (count(&gateway, "at their share of the open files (RLIMIT_NOFILE)") == 1).then_some(())
    });
    let open = open_files(&mut gateway);
    assert!(open < 160, "{open} descriptors");
    let [port] = free_ports::<1>();
    let said = gateway.reload(&json!({ "apisix": { "node_listen": [
        { "ip": "127.0.0.1", "port": gateway.port }, { "ip": "127.0.0.1", "port": port },
    ] } }));
    assert!(said.contains("configuration read again"), "{said}");
    assert!(gateway.metrics().contains("apisix_http_requests_total"));
    gateway.put(
        "routes/late",
        &json!({ "uri": "/late", "plugins": { "fault-injection": { "abort": { "http_status": 201 } } } }),
    );
    // Those that were accepted are served all at once; each that is idle then makes room for one that waits.
    for client in &mut clients {
        client.send("\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.response().status(), 200);
    }
    assert_eq!(gateway.get("/late").status(), 201);
    let open = open_files(&mut gateway);
    assert!(open < 250, "{open} descriptors");
    drop(clients);
    eventually("there is room again", || {
        (count(&gateway, "room for client connections again") > 0).then_some(())
    });
    assert_eq!(Peer::connect(port).get("/").status(), 200);
    let said = gateway.stderr();
    assert!(!said.contains("EMFILE") && !said.contains("accept failed"), "{said}");
    assert!(count(&gateway, "new ones wait where none is idle") <= 2, "{said}");
}

#[test]
fn idle_connections_make_room() {
    let upstream = Upstream::hello();
    let mut gateway = start(&upstream);
    let mut clients: Vec<Peer> = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = gateway.connect();
        assert_eq!(client.get("/").status(), 200);
        clients.push(client);
    }
    assert!(open_files(&mut gateway) < 160);
    let mut last = clients.pop().unwrap();
    assert_eq!(last.get("/").status(), 200, "the last is not closed");
    let mut closed = 0;
    for client in &mut clients {
        closed += usize::from(!client.is_quiet(MOMENT));
    }
    assert!((CLIENTS - 100..CLIENTS - 10).contains(&closed), "{closed} were closed for others");
}

#[test]
fn silent_connections_leave_room_for_requests() {
    let upstream = Upstream::hello();
    let gateway = start(&upstream);
    let silent: Vec<Peer> = (0..CLIENTS).map(|_| gateway.connect()).collect();
    for _ in 0..10 {
        assert_eq!(gateway.get("/").status(), 200);
    }
    drop(silent);
}

#[test]
fn beyond_worker_connections_a_client_waits_until_another_is_idle() {
    let upstream = Upstream::hello();
    let gateway = Gateway::with(json!({ "nginx_config": { "event": { "worker_connections": 4 } } }));
    gateway.route_all(&upstream.address());
    let mut busy: Vec<Peer> = (0..4).map(|_| gateway.connect()).collect();
    for client in &mut busy {
        client.send("GET / HTTP/1.1\r\nHost: e2e\r\n");
    }
    let mut late = gateway.connect();
    late.send("GET / HTTP/1.1\r\nHost: e2e\r\n\r\n");
    eventually("the limit is met", || {
        (count(&gateway, "worker_connections are not enough") == 1).then_some(())
    });
    assert!(late.is_quiet(Duration::from_millis(300)), "it waits");
    busy[2].send("\r\n");
    assert_eq!(busy[2].response().status(), 200);
    assert_eq!(late.response().status(), 200);
    assert!(busy[2].is_closed());
    for client in [0, 1, 3] {
        busy[client].send("\r\n");
        assert_eq!(busy[client].response().status(), 200);
    }
}
