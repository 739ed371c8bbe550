//! HTTP/2 by prior knowledge, against a server over the same library.

#![expect(clippy::unwrap_used, reason = "a failed step of a test is its failure")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bench::http::{BodyCheck, Request};
use bench::load::{Control, Endpoint, Pace, Plan, Protocol, Target, run};
use bytes::Bytes;

/// Answers every request with `hello`.
fn server() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let Ok(mut connection) = h2::server::handshake(socket).await else { return };
                    while let Some(Ok((_, mut respond))) = connection.accept().await {
                        let head = http::Response::builder().header("server", "test").body(()).unwrap();
                        let mut stream = respond.send_response(head, false).unwrap();
                        stream.send_data(Bytes::from_static(b"hello"), true).unwrap();
                    }
                });
            }
        });
    });
    address
}

#[test]
fn streams_are_multiplexed_in_both_loops() {
    let address = server();
    let target = Target::parse(&format!("http://{address}/x")).unwrap();
    let base = Plan {
        request: Arc::new(Request::new("GET", &target.authority, "/x", &[], Bytes::new(), 1).unwrap()),
        endpoint: Endpoint::Tcp(address),
        target,
        protocol: Protocol::Http2,
        tls: None,
        threads: 1,
        connections: 2,
        depth: 4,
        duration: Duration::from_millis(400),
        warmup: Duration::ZERO,
        timeout: Duration::from_secs(5),
        requests: None,
        pace: Pace::Closed,
        check: Some(BodyCheck { length: Some(5), sha256: None }),
        cores: Vec::new(),
        seed: 1,
    };
    let closed = run(&base, &Control::new(1)).unwrap().total;
    assert_eq!((closed.errors_total(), closed.connects), (0, 2), "{:?}", closed.examples);
    assert!(closed.requests > 50 && closed.server.as_deref() == Some("test"), "{}", closed.requests);
    let open = run(&Plan { pace: Pace::Constant(500.0), ..base.clone() }, &Control::new(1)).unwrap().total;
    assert_eq!(open.errors_total(), 0, "{:?}", open.examples);
    assert!((150..=210).contains(&(open.sent + open.dropped)), "{} {}", open.sent, open.dropped);
    let counted = run(&Plan { requests: Some(37), ..base }, &Control::new(1)).unwrap().total;
    assert_eq!((counted.requests, counted.errors_total()), (37, 0), "{:?}", counted.examples);
}

#[test]
fn a_server_without_http2_is_told() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            use std::io::Write;
            let _ = (&socket)
                .write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    let target = Target::parse(&format!("http://{address}/x")).unwrap();
    let plan = Plan {
        request: Arc::new(Request::new("GET", &target.authority, "/x", &[], Bytes::new(), 1).unwrap()),
        endpoint: Endpoint::Tcp(address),
        target,
        protocol: Protocol::Http2,
        tls: None,
        threads: 1,
        connections: 1,
        depth: 1,
        duration: Duration::from_secs(5),
        warmup: Duration::ZERO,
        timeout: Duration::from_secs(2),
        requests: Some(1),
        pace: Pace::Closed,
        check: None,
        cores: Vec::new(),
        seed: 1,
    };
    let total = run(&plan, &Control::new(1)).unwrap().total;
    assert!(total.requests == 0 && total.errors_total() > 0);
}
