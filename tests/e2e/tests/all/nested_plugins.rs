//! Plugins that run others, and `api-breaker`, on several workers.

use e2e::{Gateway, Message, Upstream};
use serde_json::json;

fn get(gateway: &Gateway, path: &str, fields: &str) -> Message {
    let mut client = gateway.connect();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    client.response()
}

#[test]
fn one_of_several_methods_lets_a_consumer_in_and_a_rule_limits_it() {
    let (upstream, gateway) = (Upstream::hello(), Gateway::start());
    for (name, plugins) in [
        ("foo", json!({"basic-auth": {"username": "foo", "password": "bar"}})),
        ("one", json!({"key-auth": {"key": "auth-one"}})),
    ] {
        gateway.put("/consumers", &json!({"username": name, "plugins": plugins}));
    }
    let limit = json!({"count": 2, "time_window": 3600, "rejected_code": 429});
    let rules = json!([
        {"case": [["consumer_name", "==", "one"]], "actions": [["limit-count", limit]]},
        {"case": [["uri", "==", "/closed"]], "actions": [["return", {"code": 410}]]}
    ]);
    let methods = json!([{"basic-auth": {}}, {"key-auth": {}}]);
    let plugins = json!({"multi-auth": {"auth_plugins": methods}, "workflow": {"rules": rules}});
    gateway.route_with(&upstream.address(), &json!({}), &json!({ "plugins": plugins }));
    let basic = "Authorization: Basic Zm9vOmJhcg==\r\n";
    for (path, fields, status) in [
        ("/", "", 401),
        ("/", basic, 200),
        ("/closed", basic, 410),
        ("/", "apikey: auth-one\r\n", 200),
        ("/closed", "apikey: auth-one\r\n", 200),
        ("/", "apikey: auth-one\r\n", 429),
        ("/", "apikey: auth-two\r\n", 401),
        ("/", basic, 200),
    ] {
        assert_eq!(get(&gateway, path, fields).status(), status, "{path} {fields}");
    }
    assert_eq!(get(&gateway, "/", "").all("www-authenticate").len(), 2, "a challenge for each method");
}

#[test]
fn a_failing_upstream_is_spared_on_every_worker() {
    let gateway = Gateway::start();
    let failing = Upstream::serve(|mut peer, _| {
        while peer.request().is_ok() {
            peer.send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let unhealthy = json!({"http_statuses": [503], "failures": 3});
    let breaker = json!({"break_response_code": 599, "break_response_body": "later", "unhealthy": unhealthy,
        "break_response_headers": [{"key": "X-Path", "value": "$uri"}]});
    gateway.route_with(&failing.address(), &json!({}), &json!({"plugins": {"api-breaker": breaker}}));
    let statuses: Vec<u16> = (0..3).map(|_| get(&gateway, "/a", "").status()).collect();
    assert_eq!(statuses, [503; 3]);
    // Each on a connection of its own, so that the kernel spreads them over the workers.
    for _ in 0..16 {
        let answer = get(&gateway, "/a", "");
        assert_eq!((answer.status(), answer.field("x-path")), (599, Some("/a")));
    }
    assert_eq!(get(&gateway, "/b", "").status(), 503, "another path");
}
