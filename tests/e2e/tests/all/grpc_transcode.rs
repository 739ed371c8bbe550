//! Clients of HTTP and JSON call a gRPC service, whose definitions change meanwhile.

use e2e::{Gateway, Http2Client, Http2Upstream, asynchronously};
use serde_json::{Value, json};

/// The definitions of the upstream's methods, whose message has these fields.
fn definitions(fields: &str) -> Value {
    let text = format!(
        "syntax = \"proto3\"; package e2e; message M {{ {fields} }}
         service Calls {{ rpc echo (M) returns (M); rpc error (M) returns (M); rpc what (M) returns (M); }}"
    );
    json!({ "content": text })
}

/// A gateway with a route `/METHOD` for each method.
fn gateway(upstream: &Http2Upstream, fields: &str) -> Gateway {
    let gateway = Gateway::start();
    gateway.put("protos/1", &definitions(fields));
    for method in ["echo", "error", "what"] {
        let plugin =
            json!({ "proto_id": 1, "service": "e2e.Calls", "method": method, "show_status_in_body": true });
        let route = json!({
            "uri": format!("/{method}"),
            "upstream": { "scheme": "grpc", "nodes": { upstream.address(): 1 } },
            "plugins": { "grpc-transcode": plugin },
        });
        gateway.put(&format!("routes/{method}"), &route);
    }
    gateway
}

#[test]
fn json_becomes_a_call_and_its_answer_json() {
    let upstream = Http2Upstream::start();
    let gateway = gateway(&upstream, "string name = 1; repeated int64 numbers = 2;");
    let mut client = gateway.connect();
    let body = r#"{"name": "ü", "numbers": [1, "2"]}"#;
    let type_and_length = format!("Content-Type: application/json\r\nContent-Length: {}", body.len());
    let post = format!("POST /echo HTTP/1.1\r\nHost: a\r\n{type_and_length}\r\n\r\n{body}");
    let chunked = format!(
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n\
         {:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    let get = "GET /echo?name=%C3%BC&numbers=1&numbers=2 HTTP/1.1\r\nHost: a\r\n\r\n".to_owned();
    for request in [post, chunked, get] {
        client.send(&request);
        let answer = client.response();
        assert_eq!(
            (answer.status(), answer.field("content-type")),
            (200, Some("application/json")),
            "{request}"
        );
        assert_eq!(answer.json(), json!({ "name": "ü", "numbers": [1, 2] }), "{request}");
    }
    let refused = client.get("/echo?numbers=x");
    assert_eq!(refused.status(), 400);
    assert_eq!(refused.json(), json!({ "message": "numbers: is no integer of 64 bits" }));
    // The upstream's text is no message.
    assert_eq!(client.get("/what").text(), "failed to decode response data by protobuf");
    asynchronously(async {
        let (status, body) = Http2Client::connect(gateway.port).await.get("/echo?name=a").await;
        assert_eq!((status, &*body), (200, &br#"{"name":"a","numbers":[]}"#[..]));
    });
}

#[test]
fn a_failed_call_has_its_status_in_http() {
    let upstream = Http2Upstream::start();
    let gateway = gateway(&upstream, "string name = 1;");
    let mut client = gateway.connect();
    for _ in 0..2 {
        let answer = client.get("/error");
        assert_eq!((answer.status(), answer.field("grpc-message")), (404, Some("nobody")));
        assert_eq!(answer.json(), json!({ "error": { "code": 5, "message": "nobody", "details": [] } }));
    }
}

#[test]
fn routes_follow_the_definitions_that_they_name() {
    let upstream = Http2Upstream::start();
    let gateway = gateway(&upstream, "string name = 1;");
    assert_eq!(gateway.get("/echo?name=a").json(), json!({ "name": "a" }));
    gateway.put("protos/1", &definitions("string title = 1;"));
    assert_eq!(gateway.get("/echo?title=a").json(), json!({ "title": "a" }));
    let kept = gateway.admin("DELETE", "protos/1", &Value::Null);
    assert_eq!((kept.status(), gateway.get("/echo").status()), (400, 200));
    assert_eq!(gateway.admin("DELETE", "protos/1?force=true", &Value::Null).status(), 200);
    assert_eq!(gateway.get("/echo").status(), 503);
}
