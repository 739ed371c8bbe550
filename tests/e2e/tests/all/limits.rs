//! What a client may send, and how slowly.

use e2e::{Gateway, Upstream};
use serde_json::json;

#[test]
fn half_a_head_is_answered_408() {
    let gateway = Gateway::with_http(&json!({ "client_header_timeout": "1s" }));
    let mut clients = Vec::new();
    for half in ["GET / HT", "GET / HTTP/1.1\r\nHost: a\r\n", "GET / HTTP/1.1\r\nHost: a\r\nX: "] {
        let mut client = gateway.connect();
        client.send(half);
        clients.push((half, client));
    }
    for (half, mut client) in clients {
        let answer = client.response();
        assert_eq!((answer.status(), answer.field("connection")), (408, Some("close")), "{half:?}");
        assert!(client.is_closed());
    }
}

#[test]
fn a_client_that_says_nothing_is_closed() {
    let gateway = Gateway::with_http(&json!({ "client_header_timeout": "1s" }));
    assert!(gateway.connect().is_closed());
}

#[test]
fn bodies_over_the_limit_are_413() {
    let (upstream, seen) = Upstream::recording();
    let gateway = Gateway::with_http(&json!({ "client_max_body_size": "1000" }));
    gateway.route_all(&upstream.address());
    let long = "x".repeat(1001);
    let cases = [
        (format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{}", &long[1..]), 200),
        (format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n{long}"), 413),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n".to_owned(), 413),
        (
            format!(
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n{}\r\n0\r\n\r\n",
                &long[1..]
            ),
            200,
        ),
        (
            format!(
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n{long}\r\n0\r\n\r\n"
            ),
            413,
        ),
        (
            format!(
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
                "1\r\nx\r\n".repeat(1001)
            ),
            413,
        ),
    ];
    for (request, status) in cases {
        let mut client = gateway.connect();
        client.send(&request);
        assert_eq!(client.response().status(), status, "{}", &request[..60]);
        assert_eq!(seen.take().len(), usize::from(status == 200), "{}", &request[..60]);
    }
}

#[test]
fn long_request_lines_are_414_and_long_heads_431() {
    let upstream = Upstream::hello();
    let gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    let line = |length: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(length));
    let field = |length: usize| format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(length));
    let fields = |count: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(count));
    let cases = [
        (line(8000), 200),
        (line(9000), 414),
        (line(100_000), 414),
        (field(8000), 200),
        (field(9000), 431),
        (field(100_000), 431),
        (fields(100), 200),
        (fields(2000), 431),
    ];
    for (request, status) in cases {
        let mut client = gateway.connect();
        // The gateway may answer and close before all of it is sent.
        let _ = client.try_send(request.as_bytes());
        let answer = client.response();
        assert_eq!(answer.status(), status, "{} bytes: {}", request.len(), &request[..40]);
        assert_eq!(answer.field("connection"), (status != 200).then_some("close"));
    }
}

#[test]
fn a_route_may_take_larger_bodies_than_the_gateway_or_only_smaller_ones() {
    let upstream = Upstream::hello();
    let gateway = Gateway::with_http(&json!({ "client_max_body_size": 100 }));
    let nodes = json!({ "nodes": { upstream.address(): 1 }, "type": "roundrobin" });
    let control = |size: u64| json!({ "client-control": { "max_body_size": size } });
    let auth = json!({ "key-auth": {}, "client-control": { "max_body_size": 10 } });
    for (uri, plugins) in [
        ("/plain", json!({})),
        ("/small", control(10)),
        ("/large", control(1000)),
        ("/any", control(0)),
        ("/auth", auth),
        // A plugin that reads bodies ahead is no way round the limit.
        ("/read", json!({ "request-validation": { "body_schema": { "type": "object" } } })),
    ] {
        gateway.put(&format!("routes{uri}"), &json!({ "uri": uri, "plugins": plugins, "upstream": nodes }));
    }
    let chunked = |length: usize| format!("{length:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(length));
    for (uri, length, status) in [
        ("/plain", 100, 200),
        ("/plain", 101, 413),
        ("/nowhere", 100, 404),
        ("/nowhere", 101, 413),
        ("/small", 10, 200),
        ("/small", 11, 413),
        ("/large", 1000, 200),
        ("/large", 1001, 413),
        ("/any", 5000, 200),
        // Before the client is asked who it is.
        ("/auth", 11, 413),
        ("/auth", 10, 401),
        ("/read", 101, 413),
    ] {
        for framing in ["length", "chunked"] {
            let (field, body) = match framing {
                "length" => (format!("Content-Length: {length}"), "x".repeat(length)),
                // What is too long is known when it has come: until then a plugin may have another answer.
                _ if matches!(uri, "/nowhere" | "/auth" | "/read") => continue,
                _ => ("Transfer-Encoding: chunked".to_owned(), chunked(length)),
            };
            let mut client = gateway.connect();
            let _ = client
                .try_send(format!("POST {uri} HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n{body}").as_bytes());
            assert_eq!(client.response().status(), status, "{uri} {length} {framing}");
        }
    }
}
