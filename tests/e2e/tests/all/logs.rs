//! The access log.

use e2e::{Gateway, Upstream};
use serde_json::{Value, json};

#[test]
fn lines_have_apisix_default_format() {
    let upstream = Upstream::hello();
    let gateway = Gateway::start();
    gateway.route_all(&upstream.address());
    let mut client = gateway.connect();
    client.send(
        "GET /a?b=c HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: e2e \"1\"\r\nReferer: http://r/\r\n\r\n",
    );
    assert_eq!(client.response().status(), 200);
    let line = gateway.access_log(1).remove(0);
    let address = upstream.address();
    assert!(line.starts_with("127.0.0.1 - - ["), "{line}");
    for part in [
        "] shop.example \"GET /a?b=c HTTP/1.1\" 200 5 0.0",
        " \"http://r/\" \"e2e \\x221\\x22\" ",
        &format!(" {address} 200 0.0"),
        // `$upstream_uri` is empty where nothing has rewritten the path.
        " \"http://shop.example\" \"",
    ] {
        assert!(line.contains(part), "{line}\nlacks {part:?}");
    }
}

#[test]
fn lines_may_be_json() {
    let upstream = Upstream::hello();
    let format = r#"{"uri":"$uri","status":$status,"agent":"$http_user_agent","route":"$route_id"}"#;
    let gateway =
        Gateway::with_http(&json!({ "access_log_format": format, "access_log_format_escape": "json" }));
    gateway.route_all(&upstream.address());
    let mut client = gateway.connect();
    client.send("GET /a?b=c HTTP/1.1\r\nHost: a\r\nUser-Agent: \"q\\\t\r\n\r\n");
    assert_eq!(client.response().status(), 200);
    let line: Value = serde_json::from_str(&gateway.access_log(1)[0]).unwrap();
    assert_eq!(line, json!({ "uri": "/a", "status": 200, "agent": "\"q\\", "route": "all" }));
}

#[test]
fn a_refused_request_is_logged_with_its_line() {
    let gateway = Gateway::start();
    let long = format!("GET /{} HTTP/1.1\r\n", "a".repeat(10_000));
    for (request, shown) in [
        (&b"GET /a b\x01\"c HTTP/1.1\r\nHost: a\r\n\r\n"[..], r#""GET /a b\x01\x22c HTTP/1.1" 400"#),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", r#""GET / HTTP/1.1" 400"#),
        (b"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", r#""TRACE / HTTP/1.1" 405"#),
        (long.as_bytes(), r#"aaa" 414"#),
    ] {
        let before = gateway.access_log(0).len();
        let mut client = gateway.connect();
        client.send(request);
        client.response();
        let line = gateway.access_log(before + 1).pop().unwrap();
        assert!(line.contains(shown) && line.len() < 2000, "{line}");
    }
}
