//! Plugins whose conditions look at the request's body: it is read for them, and still sent.

use e2e::{Gateway, Upstream};
use serde_json::{Value, json};

fn post(gateway: &Gateway, path: &str, kind: &str, body: &str) -> (u16, String) {
    let mut client = gateway.connect();
    client.send(format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let answer = client.response();
    (answer.status(), answer.text())
}

#[test]
fn filters_and_conditions_of_plugins_see_the_body() {
    let upstream = Upstream::hello();
    let gateway = Gateway::start();
    let route = |plugins: Value| {
        json!({ "uri": "/*", "plugins": plugins, "upstream": {
            "type": "roundrobin", "nodes": { upstream.address(): 1 },
        }})
    };
    let form = "application/x-www-form-urlencoded";
    let echo = json!({ "body": "filtered", "_meta": { "filter": [["post_arg_a", "==", "1"]] } });
    let abort = json!({ "abort": { "http_status": 403, "vars": [[["post_arg.a.b", "==", 1]]] } });
    let graphql = json!({ "body": "named", "_meta": { "filter": [["graphql_name", "==", "q"]] } });
    for (plugins, kind, body, expected) in [
        (json!({ "echo": echo }), form, "a=1", (200, "filtered")),
        (json!({ "echo": echo }), form, "a=2", (200, "hello")),
        (json!({ "fault-injection": abort }), "application/json", r#"{"a": {"b": 1}}"#, (403, "")),
        (json!({ "fault-injection": abort }), "application/json", r#"{"a": {"b": 2}}"#, (200, "hello")),
        (json!({ "echo": graphql }), "application/graphql", "query q { a }", (200, "named")),
    ] {
        gateway.put("routes/1", &route(plugins));
        let (status, text) = post(&gateway, "/x", kind, body);
        assert_eq!((status, text.contains(expected.1)), (expected.0, true), "{body}: {text}");
    }
    // A global rule's as well.
    gateway.put("routes/1", &route(json!({})));
    gateway.put("global_rules/1", &json!({ "plugins": { "echo": echo } }));
    assert_eq!(post(&gateway, "/x", form, "a=1").1, "filtered");
}

#[test]
fn statuses_without_a_body_end_with_the_head() {
    let upstream = Upstream::answering(|request| {
        let head = request.start.split(' ').nth(1).unwrap_or_default();
        let head = match head {
            "/empty" => "204 No Content\r\n\r\n",
            "/endless" => "200 OK\r\nContent-Length: 50000000\r\n\r\nhello",
            "/kept" => "304 Not Modified\r\nContent-Length: 5\r\n\r\n",
            _ if request.start.starts_with("HEAD ") => "200 OK\r\nContent-Length: 5\r\n\r\n",
            "/chunks" => "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            _ => "200 OK\r\nContent-Length: 5\r\n\r\nhello",
        };
        format!("HTTP/1.1 {head}").into_bytes()
    });
    let gateway = Gateway::start();
    let status = |status: u16| json!({ "response-rewrite": { "status_code": status } });
    let abort = |status: u16, body: &str| json!({ "fault-injection": { "abort": { "http_status": status, "body": body } } });
    // What the second answer on the connection is tells whether the first one ended where it says.
    for (plugins, path, expected) in [
        (status(204), "/hello", (204, None, "")),
        (status(204), "/chunks", (204, None, "")),
        (status(204), "/endless", (204, None, "")),
        (status(304), "/hello", (304, None, "")),
        (status(200), "/empty", (200, Some("0"), "")),
        (status(200), "/kept", (200, Some("0"), "")),
        (status(201), "/hello", (201, Some("5"), "hello")),
        (json!({ "response-rewrite": { "status_code": 204, "body": "other" } }), "/hello", (204, None, "")),
        (
            json!({ "response-rewrite": { "status_code": 200, "body": "other" } }),
            "/empty",
            (200, Some("5"), "other"),
        ),
        (json!({ "proxy-rewrite": { "method": "HEAD" } }), "/hello", (200, Some("0"), "")),
        (abort(204, "body"), "/hello", (204, None, "")),
        (abort(304, "body"), "/hello", (304, None, "")),
        (json!({ "uri-blocker": { "block_rules": ["."], "rejected_code": 204 } }), "/hello", (204, None, "")),
    ] {
        let route =
            json!({ "uri": "/*", "plugins": plugins, "upstream": { "nodes": { upstream.address(): 1 } } });
        gateway.put("routes/1", &route);
        let mut client = gateway.connect();
        for _ in 0..2 {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
            let answer = client.response();
            let got = (answer.status(), answer.field("content-length"), &*answer.text());
            assert_eq!(got, expected, "{plugins} {path}");
        }
    }
}

#[test]
fn a_body_that_a_filter_can_not_hold_whole_is_never_cut_off() {
    let upstream = Upstream::answering(|request| {
        let length: usize =
            request.start.split(['/', ' ']).nth(2).and_then(|path| path.parse().ok()).unwrap();
        let body = "a".repeat(length);
        format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
    });
    let gateway = Gateway::start();
    let filters = json!([{ "regex": "a", "replace": "b", "scope": "global" }]);
    let plugins = json!({ "response-rewrite": { "max_resp_body_size": 1000, "filters": filters } });
    gateway.route_with(&upstream.address(), &json!({}), &json!({ "plugins": plugins }));
    let whole = gateway.get("/1000");
    assert_eq!((whole.status(), whole.text()), (200, "b".repeat(1000)));
    for length in [1001, 200_000] {
        let refused = gateway.get(&format!("/{length}"));
        assert_eq!(refused.status(), 502, "{length}");
        assert!(!refused.text().contains("aa"));
    }
}

/// A body that is held for a filter may break off while the client has been sent nothing.
#[test]
fn response_hooks_run_once_when_a_filtered_body_breaks_off() {
    let upstream = Upstream::serve(|mut peer, _| {
        if peer.request().is_ok() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello");
        }
    });
    let gateway = Gateway::start();
    let plugins = json!({ "response-rewrite": {
        "filters": [{ "regex": "l", "replace": "L", "scope": "global" }],
        "headers": { "add": ["X-A: 1", "Set-Cookie: a=1"] },
    }});
    gateway.route_with(&upstream.address(), &json!({}), &json!({ "plugins": plugins }));
    let answer = gateway.get("/");
    assert_eq!((answer.status(), answer.all("x-a").len(), answer.all("set-cookie").len()), (502, 1, 1));
}
