//! Plugins that ask a service before they decide, seen through `forward-auth`: services that stall, split, reset and lie.

use e2e::{Gateway, Message, Peer, Upstream, eventually};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// A gateway whose route asks `service` first.
fn guarded(upstream: &Upstream, service: &Upstream, config: &Value) -> Gateway {
    let gateway = Gateway::start();
    let mut auth = json!({ "uri": format!("http://{}/auth", service.address()), "timeout": 1000 });
    for (key, value) in config.as_object().into_iter().flatten() {
        auth[key] = value.clone();
    }
    gateway.route_with(&upstream.address(), &json!({}), &json!({ "plugins": { "forward-auth": auth } }));
    gateway
}

/// Sends `pieces` with a pause between them.
fn in_pieces(peer: &mut Peer, pieces: &[&str]) {
    for piece in pieces {
        if peer.try_send(piece.as_bytes()).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(250));
    }
}

#[test]
fn a_service_decides_however_its_answer_arrives() {
    let upstream = Upstream::hello();
    // Each with the status that the client gets: 200 is the upstream's, 403 the default for a service that fails.
    let cases: &[(&[&str], u16)] = &[
        (&["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"], 200),
        (&["HTTP/1.1 2", "00 OK\r\nContent-", "Length: 2\r\n\r\no", "k"], 200),
        (&["HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n"], 200),
        (&["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n", "o\r\n1\r\nk\r\n0\r\n\r\n"], 200),
        (&["HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno"], 401),
        (&["HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n"], 302),
        (&["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok"], 403),
        (&["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxx\r\n"], 403),
        (&["HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok"], 403),
        (&["HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"], 403),
        (&["not HTTP at all\r\n\r\n"], 403),
        (&[""], 403),
    ];
    let turn = Arc::new(AtomicUsize::new(0));
    let current = Arc::clone(&turn);
    let service = Upstream::serve(move |mut peer, _| {
        while peer.request().is_ok() {
            let (pieces, _) = cases[current.load(Ordering::Acquire)];
            in_pieces(&mut peer, pieces);
            if pieces[0].is_empty() || pieces[0].contains("Content-Length: 5") {
                return;
            }
        }
    });
    let gateway = guarded(&upstream, &service, &json!({}));
    for (at, (pieces, status)) in cases.iter().enumerate() {
        turn.store(at, Ordering::Release);
        assert_eq!(gateway.get("/").status(), *status, "{pieces:?}");
    }
}

#[test]
fn a_silent_service_meets_its_timeout_and_the_configured_choice() {
    let upstream = Upstream::hello();
    let silent = Upstream::serve(|mut peer, _| while matches!(peer.fill(), Ok(true)) {});
    // Begins its answer and never ends it.
    let halting = Upstream::serve(|mut peer, _| {
        let _ = peer.request();
        let _ = peer.try_send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe");
        while matches!(peer.fill(), Ok(true)) {}
    });
    for (service, config, status) in [
        (&silent, json!({ "timeout": 300 }), 403),
        (&silent, json!({ "timeout": 300, "status_on_error": 503 }), 503),
        (&silent, json!({ "timeout": 300, "allow_degradation": true }), 200),
        (&halting, json!({ "timeout": 300 }), 403),
    ] {
        let gateway = guarded(&upstream, service, &config);
        let started = Instant::now();
        assert_eq!(gateway.get("/").status(), status, "{config}");
        let took = started.elapsed();
        assert!((Duration::from_millis(280)..Duration::from_secs(8)).contains(&took), "{config} {took:?}");
        let told = eventually("the log tells", || {
            let text = gateway.stderr();
            (status == 200 || text.contains("failed to ask the authorization service")).then_some(text)
        });
        assert!(!told.contains("panicked"), "{told}");
        if status != 200 {
            let line = told.lines().find(|line| line.contains("failed to ask")).expect("it was logged");
            assert!(line.contains("client: 127.0.0.1:") && line.contains("route: all"), "{line}");
        }
    }
}

#[test]
fn connections_to_a_service_are_reused_and_a_stale_one_is_replaced() {
    let upstream = Upstream::hello();
    // Closes each connection after its second answer, without a word.
    let service = Upstream::serve(|mut peer, _| {
        for _ in 0..2 {
            if peer.request().is_err() {
                return;
            }
            let _ = peer.try_send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let gateway = guarded(&upstream, &service, &json!({}));
    let mut client = gateway.connect();
    for _ in 0..8 {
        assert_eq!(client.get("/").status(), 200);
    }
    assert_eq!(service.connections(), 4);
}

#[test]
fn a_call_ends_when_its_client_leaves() {
    let upstream = Upstream::hello();
    let (told, gone) = mpsc::channel();
    let service = Upstream::serve(move |mut peer, _| {
        let _ = peer.request();
        told.send("asked").unwrap();
        while matches!(peer.fill(), Ok(true)) {}
        told.send("closed").unwrap();
    });
    let gateway = guarded(&upstream, &service, &json!({ "timeout": 60000 }));
    let mut client = gateway.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let patience = Duration::from_secs(15);
    assert_eq!(gone.recv_timeout(patience), Ok("asked"));
    drop(client);
    assert_eq!(gone.recv_timeout(patience), Ok("closed"));
    // Nobody was answered, and the gateway serves on.
    drop(service);
    gateway.route_all(&upstream.address());
    assert_eq!(gateway.get("/").status(), 200);
}

#[test]
fn requests_of_different_clients_get_their_own_verdicts() {
    let upstream = Upstream::hello();
    let service = Upstream::answering(|request: &Message| {
        let allowed = request.field("x-forwarded-uri").is_some_and(|uri| uri.ends_with("/even"));
        let status = if allowed { "200 OK" } else { "403 Forbidden" };
        format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").into_bytes()
    });
    let gateway = guarded(&upstream, &service, &json!({}));
    std::thread::scope(|scope| {
        for client in 0..8 {
            let gateway = &gateway;
            scope.spawn(move || {
                let mut peer = gateway.connect();
                for number in 0..50 {
                    let even = (client + number) % 2 == 0;
                    let path = format!("/{client}/{number}/{}", if even { "even" } else { "odd" });
                    assert_eq!(peer.get(&path).status(), if even { 200 } else { 403 }, "{path}");
                }
            });
        }
    });
}
