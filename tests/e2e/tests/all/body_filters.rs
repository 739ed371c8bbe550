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
