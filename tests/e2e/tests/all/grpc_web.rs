//! gRPC-Web clients call a gRPC service.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use e2e::{Gateway, Http2Upstream, Message};
use serde_json::json;

fn gateway(upstream: &Http2Upstream) -> Gateway {
    let gateway = Gateway::start();
    let route = json!({
        "uri": "/web/*",
        "upstream": { "scheme": "grpc", "nodes": { upstream.address(): 1 } },
        "plugins": { "grpc-web": {} },
    });
    gateway.put("routes/1", &route);
    gateway
}

fn call(gateway: &Gateway, method: &str, media_type: &str, body: &str) -> Message {
    let mut client = gateway.connect();
    client.send(format!(
        "POST /web/{method} HTTP/1.1\r\nHost: a\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    client.response()
}

#[test]
fn a_call_is_answered_in_the_form_it_came_in() {
    let upstream = Http2Upstream::start();
    let gateway = gateway(&upstream);
    let expected = b"question\x80\0\0\0\x1egrpc-status:0\r\ngrpc-message:\r\n";
    let plain = call(&gateway, "echo", "application/grpc-web+proto", "question");
    assert_eq!((plain.status(), plain.field("content-type")), (200, Some("application/grpc-web+proto")));
    assert_eq!(plain.field("access-control-allow-origin"), Some("*"));
    assert_eq!(plain.body, expected);
    let text = call(&gateway, "echo", "application/grpc-web-text", &STANDARD.encode("question"));
    let parts = text.text().split_inclusive("=").map(str::to_owned).collect::<Vec<_>>();
    assert!(parts.len() > 1, "{parts:?}");
    let whole: String = parts.concat();
    assert!(whole.starts_with(&STANDARD.encode("question")), "{whole}");
}

#[test]
fn a_call_that_fails_at_once_says_so_in_its_head() {
    let upstream = Http2Upstream::start();
    let answer = call(&gateway(&upstream), "error", "application/grpc-web", "question");
    assert_eq!((answer.status(), answer.field("grpc-status")), (200, Some("5")));
    assert!(answer.body.is_empty(), "{:?}", answer.body);
}

#[test]
fn a_preflight_ends_with_its_head() {
    let upstream = Http2Upstream::start();
    let gateway = gateway(&upstream);
    let mut client = gateway.connect();
    for _ in 0..2 {
        client.send("OPTIONS /web/echo HTTP/1.1\r\nHost: a\r\nOrigin: https://a.com\r\n\r\n");
        let answer = client.response();
        assert_eq!((answer.status(), answer.field("access-control-allow-methods")), (204, Some("POST")));
    }
}
