//! Client connections: how long they live, and which response belongs to which request.

use e2e::{Gateway, Upstream};
use serde_json::json;
use std::time::Duration;

/// An upstream whose answer names the request.
fn echo() -> Upstream {
    Upstream::answering(|request| {
        let mut words = request.start.split(' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let text = format!("{method} {path} {}", request.text());
        let body = if method == "HEAD" { "" } else { &text };
        match path {
            "/204" => b"HTTP/1.1 204 No Content\r\nX-Kept: yes\r\n\r\n".to_vec(),
            "/304" => b"HTTP/1.1 304 Not Modified\r\nETag: \"e\"\r\nContent-Length: 1000\r\n\r\n".to_vec(),
            _ => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", text.len()).into_bytes(),
        }
    })
}

fn gateway(upstream: &Upstream) -> Gateway {
    let gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    gateway
}

#[test]
fn a_connection_carries_one_request_after_the_other() {
    let upstream = echo();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    for number in 0..100 {
        let answer = client.get(&format!("/{number}"));
        assert_eq!((answer.status(), answer.text()), (200, format!("GET /{number} ")));
        assert_eq!(answer.field("connection"), None);
    }
    assert_eq!(upstream.connections(), 1, "the upstream's connection is kept too");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let upstream = echo();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    let mut all = Vec::new();
    for number in 0..50 {
        all.extend(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n").bytes());
        all.extend(format!("POST /{number} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc").bytes());
        all.extend(
            format!(
                "PUT /{number} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxy\r\n0\r\n\r\n"
            )
            .bytes(),
        );
        all.extend(format!("HEAD /{number} HTTP/1.1\r\nHost: a\r\n\r\n").bytes());
        all.extend(b"GET /204 HTTP/1.1\r\nHost: a\r\n\r\nGET /304 HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    client.send(all);
    for number in 0..50 {
        assert_eq!(client.response().text(), format!("GET /{number} "));
        assert_eq!(client.response().text(), format!("POST /{number} abc"));
        assert_eq!(client.response().text(), format!("PUT /{number} xy"));
        let head = client.try_response("HEAD").unwrap();
        assert_eq!(head.field("content-length"), Some(format!("HEAD /{number} ").len().to_string().as_str()));
        let empty = client.response();
        assert_eq!(
            (empty.status(), empty.field("x-kept"), empty.field("content-length")),
            (204, Some("yes"), None)
        );
        let unchanged = client.response();
        assert_eq!((unchanged.status(), unchanged.field("etag")), (304, Some("\"e\"")));
    }
}

#[test]
fn the_first_bytes_of_a_request_may_come_with_the_one_before() {
    let upstream = echo();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HT");
    assert_eq!(client.response().text(), "GET /a ");
    client.send("TP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().text(), "GET /b ");
}

#[test]
fn the_next_request_may_come_with_the_end_of_a_body() {
    let upstream = echo();
    let gateway = gateway(&upstream);
    gateway.put(
        "routes/reply",
        &json!({ "uri": "/reply", "plugins": { "mocking": { "response_example": "mocked" } } }),
    );
    let long = "x".repeat(2000);
    // (what the head says of the body, the body's beginning, its end)
    let bodies = [
        ("Content-Length: 5".to_owned(), "", "hello"),
        ("Content-Length: 5".to_owned(), "he", "llo"),
        // The head is longer than the request that follows, and then shorter.
        (format!("X-Long: {long}\r\nContent-Length: 5"), "", "hello"),
        ("Transfer-Encoding: chunked".to_owned(), "5\r\nhe", "llo\r\n0\r\n\r\n"),
    ];
    for (path, answer) in [("/upstream", "POST /upstream hello"), ("/reply", "mocked")] {
        for (framing, begin, end) in &bodies {
            let mut client = gateway.connect();
            client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n{begin}"));
            // Read on its own, so that what follows comes while the body is read.
            std::thread::sleep(Duration::from_millis(50));
            client.send(format!("{end}GET /next HTTP/1.1\r\nHost: a\r\n\r\nGET /last?{long} HTTP/1.1\r\n"));
            assert_eq!(client.response().text(), answer, "{framing}");
            assert_eq!(client.response().text(), "GET /next ", "{framing}");
            client.send("Host: a\r\n\r\n");
            assert_eq!(client.response().text(), format!("GET /last?{long} "), "{framing}");
        }
    }
}

#[test]
fn connections_close_when_one_side_wants_it() {
    let upstream = echo();
    let gateway = gateway(&upstream);
    // (request, the response's Connection, whether it closes)
    let cases = [
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", Some("close"), true),
        ("GET / HTTP/1.0\r\n\r\n", Some("close"), true),
        ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", Some("keep-alive"), false),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", None, false),
    ];
    for (request, connection, closes) in cases {
        let mut client = gateway.connect();
        client.send(request);
        let answer = client.response();
        assert_eq!((answer.text().as_str(), answer.field("connection")), ("GET / ", connection), "{request}");
        if closes {
            assert!(client.is_closed(), "{request}");
        } else {
            assert_eq!(client.get("/more").text(), "GET /more ", "{request}");
        }
    }
}

#[test]
fn idle_connections_are_closed_after_their_timeout() {
    let upstream = echo();
    let gateway = Gateway::with_http(&json!({ "keepalive_timeout": "1s" }));
    gateway.route_all(&upstream.address());
    let mut client = gateway.connect();
    assert_eq!(client.get("/").status(), 200);
    assert!(client.is_closed());
}
