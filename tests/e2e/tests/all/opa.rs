//! `opa`: policies that decide, and servers that are down, slow or answer nonsense.

use e2e::{Gateway, Message, Opa, Upstream, eventually};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Rego of OPA 1.0, with `rego.v1` for those before.
const POLICY: &str = r#"
package gate
import rego.v1

default allow := false

allow if {
    input.request.method == "GET"
    input.request.headers["x-token"] == "open"
    input.request.query.user
}

allow if input.route.name == "open"

allow if input.consumer.username == "jack"

headers := {"X-User": input.request.query.user} if allow
headers := {"X-Why": "policy", "Location": "/login"} if not allow

status_code := 302 if {
    not allow
    input.request.path == "/login-needed"
}

reason := {"path": input.request.path, "service": input.service.name} if not allow
"#;

/// What the policy says, where there is no OPA to ask.
fn decide(input: &Value) -> Value {
    let request = &input["request"];
    let user = &request["query"]["user"];
    let by_request = request["method"] == "GET" && request["headers"]["x-token"] == "open" && !user.is_null();
    let allow = by_request || input["route"]["name"] == "open" || input["consumer"]["username"] == "jack";
    let mut result = json!({ "allow": allow });
    if allow && !user.is_null() {
        result["headers"] = json!({ "X-User": user });
    }
    if !allow {
        result["headers"] = json!({ "X-Why": "policy", "Location": "/login" });
        if request["path"] == "/login-needed" {
            result["status_code"] = json!(302);
        }
        if !input["service"]["name"].is_null() {
            result["reason"] = json!({ "path": request["path"], "service": input["service"]["name"] });
        }
    }
    result
}

fn get(gateway: &Gateway, path: &str, fields: &str) -> Message {
    let mut peer = gateway.connect();
    peer.send(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"));
    peer.response()
}

/// A gateway whose route asks `url` first.
fn guarded(upstream: &Upstream, url: &str, config: &Value) -> Gateway {
    let gateway = Gateway::start();
    put(&gateway, upstream, url, config, "guarded");
    gateway
}

fn put(gateway: &Gateway, upstream: &Upstream, url: &str, config: &Value, name: &str) {
    let mut opa = json!({ "host": url, "policy": "gate", "timeout": 2000 });
    for (key, value) in config.as_object().into_iter().flatten() {
        opa[key] = value.clone();
    }
    let route = json!({ "name": name, "plugins": { "opa": opa } });
    gateway.route_with(&upstream.address(), &json!({}), &route);
}

#[test]
fn a_policy_decides_and_shapes_both_ends() {
    let (upstream, seen) = Upstream::recording();
    let opa = Opa::start("gate", POLICY, decide);
    let gateway = guarded(&upstream, &opa.url(), &json!({ "send_headers_upstream": ["X-User"] }));
    assert_eq!(get(&gateway, "/?user=u", "X-Token: open\r\nX-User: forged\r\n").status(), 200);
    assert_eq!(seen.only().all("x-user"), ["u"]);
    let refused = get(&gateway, "/a?user=u", "X-Token: shut\r\n");
    assert_eq!((refused.status(), refused.field("x-why")), (403, Some("policy")));
    let login = get(&gateway, "/login-needed", "");
    assert_eq!((login.status(), login.field("location")), (302, Some("/login")));
    assert_eq!(seen.take().len(), 0, "refused requests reach no upstream");
}

#[test]
fn a_policy_sees_route_service_and_consumer() {
    let upstream = Upstream::hello();
    let opa = Opa::start("gate", POLICY, decide);
    let gateway = Gateway::start();
    gateway.put("services/s", &json!({ "name": "shop", "plugins": {} }));
    gateway.put(
        "consumers",
        &json!({ "username": "jack", "plugins": { "key-auth": { "key": "a-key-of-jack" } } }),
    );
    let nodes = json!({ "nodes": { upstream.address(): 1 }, "type": "roundrobin" });
    let route = |name: &str, opa_config: &Value, more: &Value| {
        let mut opa_config = opa_config.clone();
        opa_config["host"] = json!(opa.url());
        opa_config["policy"] = json!("gate");
        let mut plugins = json!({ "opa": opa_config });
        plugins.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let route = json!({
            "uri": format!("/{name}"), "name": name, "service_id": "s", "upstream": nodes, "plugins": plugins
        });
        gateway.put(&format!("routes/{name}"), &route);
    };
    route("open", &json!({ "with_route": true }), &json!({}));
    route("shut", &json!({ "with_route": true, "with_service": true }), &json!({}));
    route("blind", &json!({}), &json!({}));
    route("jack", &json!({ "with_consumer": true }), &json!({ "key-auth": {} }));
    assert_eq!(get(&gateway, "/open", "").status(), 200);
    let shut = get(&gateway, "/shut", "");
    assert_eq!((shut.status(), shut.json()), (403, json!({ "path": "/shut", "service": "shop" })));
    assert_eq!(get(&gateway, "/blind", "").status(), 403);
    assert_eq!(get(&gateway, "/jack", "apikey: a-key-of-jack\r\n").status(), 200);
    assert_eq!(get(&gateway, "/jack", "apikey: no-key\r\n").status(), 401);
    // A changed service is seen at once by the route that doesn't change.
    gateway.put("services/s", &json!({ "name": "store", "plugins": {} }));
    assert_eq!(get(&gateway, "/shut", "").json(), json!({ "path": "/shut", "service": "store" }));
}

#[test]
fn a_server_that_is_down_or_silent_refuses() {
    let upstream = Upstream::hello();
    let gone = Upstream::hello().address();
    let silent = Upstream::serve(|mut peer, _| while matches!(peer.fill(), Ok(true)) {});
    let resetting = Upstream::serve(|mut peer, _| {
        let _ = peer.request();
        peer.reset();
    });
    for (address, timeout_ms) in [(gone, 1000), (silent.address(), 300), (resetting.address(), 1000)] {
        let gateway = guarded(&upstream, &format!("http://{address}"), &json!({ "timeout": timeout_ms }));
        let started = Instant::now();
        assert_eq!(gateway.get("/").status(), 403);
        assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
        eventually("the log tells", || {
            gateway.stderr().contains("opa: failed to get a decision").then_some(())
        });
    }
}

#[test]
fn nonsense_refuses() {
    let upstream = Upstream::hello();
    let cases: &[(&str, u16)] = &[
        ("<html>all fine</html>", 503),
        ("{}", 503),
        ("{\"result\":true}", 503),
        ("{\"result\":{\"allow\":\"yes\"}}", 403),
        ("{\"result\":{\"allow\":true}", 503),
        (
            "{\"result\":{\"allow\":false,\"headers\":{\"Content-Length\":\"0\",\"X\\r\\nY\":\"1\",\"A\":\"b\\r\\nC: d\"}}}",
            403,
        ),
        ("{\"result\":{\"allow\":false,\"status_code\":100}}", 403),
        ("{\"result\":{\"allow\":true}}", 200),
    ];
    for (body, status) in cases {
        let server = Upstream::answering(move |_| {
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
        });
        let gateway = guarded(&upstream, &format!("http://{}", server.address()), &json!({}));
        let answer = gateway.get("/");
        assert_eq!(answer.status(), *status, "{body}");
        assert!(answer.all("content-length").len() <= 1 && answer.all("c").is_empty(), "{answer:?}");
        if *status == 503 {
            eventually("the log tells", || gateway.stderr().contains("opa: invalid decision").then_some(()));
        }
    }
}

#[test]
fn a_connection_that_the_server_closed_costs_no_request() {
    let upstream = Upstream::hello();
    // Closes each connection after its second answer, without a word.
    let server = Upstream::serve(|mut peer, _| {
        for _ in 0..2 {
            if peer.request().is_err() {
                return;
            }
            let body = "{\"result\":{\"allow\":true}}";
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = peer.try_send(format!("{head}{body}").as_bytes());
        }
    });
    let gateway = guarded(&upstream, &format!("http://{}", server.address()), &json!({}));
    let mut client = gateway.connect();
    for _ in 0..8 {
        assert_eq!(client.get("/").status(), 200);
    }
    assert_eq!(server.connections(), 4);
}
