//! What is refused, in APISIX's words, and that it changes nothing.

use crate::bench::{Bench, limit, request, route, upstream};
use serde_json::{Value, json};

/// `base` with the fields of `extra`.
fn over(mut base: Value, extra: Value) -> Value {
    if let (Value::Object(base), Value::Object(extra)) = (&mut base, extra) {
        base.extend(extra);
    }
    base
}

#[tokio::test]
async fn resources_are_refused_in_apisix_s_words() {
    let bench = Bench::new();
    bench.done("PUT", "/global_rules/1", json!({ "plugins": { "limit-count": limit() } })).await;
    let plugins = |plugins: Value| over(route(), json!({ "plugins": plugins }));
    let before = bench.revision().await;
    let lacking =
        "failed to check the configuration of plugin limit-count err: property \"count\" is required";
    for (method, target, body, status, expected) in [
        ("PUT", "/routes/1", Value::Null, 400, "missing configurations"),
        ("PUT", "/routes", route(), 400, "missing route id"),
        ("PUT", "/routes/1", over(route(), json!({"id": 3})), 400, "wrong route id"),
        ("PUT", "/global_rules/1", json!({"id": "2"}), 400, "wrong global rule id"),
        ("POST", "/routes/1", route(), 400, "wrong route id, do not need it"),
        ("POST", "/upstreams", over(upstream(), json!({"id": 1})), 400, "wrong upstream id, do not need it"),
        ("POST", "/services/1", json!({}), 400, "wrong service id, do not need it"),
        ("DELETE", "/routes", Value::Null, 400, "missing route id"),
        ("DELETE", "/plugin_metadata", Value::Null, 400, "missing plugin_metadata id"),
        ("PATCH", "/services", json!({}), 400, "missing service id"),
        ("PATCH", "/routes/1", Value::Null, 400, "missing new configuration"),
        ("PATCH", "/routes/1", json!("text"), 400, "invalid configuration"),
        (
            "PUT",
            "/routes/1",
            json!("text"),
            400,
            "invalid configuration: wrong type: expected object, got string",
        ),
        (
            "PUT",
            "/routes/1",
            over(route(), json!({"create_time": 1})),
            400,
            "the property is forbidden:  create_time",
        ),
        (
            "PUT",
            "/services/1",
            json!({"upstream": over(upstream(), json!({"update_time": 1}))}),
            400,
            "the property is forbidden:  upstream.update_time",
        ),
        (
            "PUT",
            "/routes/1",
            over(route(), json!({"uri": 1})),
            400,
            "invalid configuration: property \"uri\" validation failed: wrong type: expected string, got number",
        ),
        (
            "PUT",
            "/routes/1",
            over(route(), json!({"host": "a", "hosts": ["a"]})),
            400,
            "only one of host or hosts is allowed",
        ),
        (
            "PUT",
            "/routes/1",
            over(route(), json!({"remote_addr": ":/8"})),
            400,
            "invalid configuration: invalid ip address: :/8",
        ),
        ("PUT", "/upstreams/1", over(upstream(), json!({"type": "chash"})), 400, "missing key"),
        (
            "PUT",
            "/upstreams/1",
            over(upstream(), json!({"pass_host": "rewrite"})),
            400,
            "`upstream_host` can't be empty when `pass_host` is `rewrite`",
        ),
        (
            "PUT",
            "/upstreams/1",
            over(upstream(), json!({"checks": {"active": {"http_path": "status"}}})),
            400,
            "/checks/active/http_path: is not a path: it begins with `/` and holds no space",
        ),
        (
            "PUT",
            "/services/1",
            json!({"upstream": over(upstream(), json!({"retry_timeout": 1e20}))}),
            400,
            "/upstream/retry_timeout: 100000000000000000000 is not a time in seconds",
        ),
        (
            "PUT",
            "/routes/1",
            over(route(), json!({"timeout": {"connect": 1, "send": 1, "read": 1e20}})),
            400,
            "/timeout/read: 100000000000000000000 is not a time greater than 0",
        ),
        (
            "PUT",
            "/upstreams/1",
            over(upstream(), json!({"tls": {"client_cert_id": 1}})),
            400,
            "failed to fetch ssl info by ssl id [1], response code: 404",
        ),
        (
            "PUT",
            "/routes/1",
            over(route(), json!({"vars": [["arg_k", "=", "v"]]})),
            400,
            "failed to validate the 'vars' expression: invalid operator '='",
        ),
        (
            "PUT",
            "/routes/1",
            over(route(), json!({"filter_func": "function(vars) return true end"})),
            400,
            "'filter_func' is Lua code, and there is no Lua host here",
        ),
        (
            "PUT",
            "/services/1",
            json!({"script": "local _M = {} return _M"}),
            400,
            "'script' is not supported: use a Lua plugin or serverless-pre-function",
        ),
        ("PUT", "/routes/1", plugins(json!({"none": {}})), 400, "unknown plugin [none]"),
        ("PUT", "/routes/1", plugins(json!({"limit-count": {"time_window": 60}})), 400, lacking),
        ("PUT", "/plugin_configs/1", json!({"plugins": {"limit-count": {"time_window": 60}}}), 400, lacking),
        (
            "PUT",
            "/routes/1",
            plugins(json!({"limit-count": {"count": "x", "time_window": 60}})),
            400,
            "failed to check the configuration of plugin limit-count err: property \"count\" validation failed: \
             wrong type: expected integer, got string",
        ),
        (
            "PUT",
            "/routes/1",
            plugins(json!({"limit-count": over(limit(), json!({"group": "taken"}))})),
            400,
            "failed to check the configuration of plugin limit-count err: group conf mismatched",
        ),
        (
            "PUT",
            "/routes/1",
            plugins(json!({"prometheus": {"_meta": {"filter": [["arg_k", "=", "v"]]}}})),
            400,
            "failed to validate the 'vars' expression: invalid operator '='",
        ),
        (
            "PUT",
            "/routes/1",
            plugins(json!({"prometheus": 1})),
            400,
            "invalid plugin conf 1 for plugin [prometheus]",
        ),
        (
            "PUT",
            "/global_rules/2",
            json!({"plugins": {"limit-count": limit()}}),
            400,
            "plugin 'limit-count' already exists in global rule with id '1'",
        ),
        ("PUT", "/plugin_metadata", json!({}), 400, "missing plugin name"),
        ("PUT", "/plugin_metadata/none", json!({}), 400, "invalid plugin name"),
        (
            "PUT",
            "/plugin_metadata/limit-count",
            json!({"skey": 1}),
            400,
            "invalid configuration: property \"ikey\" is required",
        ),
        ("POST", "/global_rules", json!({}), 405, "not supported `POST` method for global rule"),
        ("POST", "/plugin_configs", json!({}), 405, "not supported `POST` method for plugin config"),
        ("POST", "/plugin_metadata", json!({}), 405, "not supported `POST` method for plugin_metadata"),
        ("PATCH", "/plugin_metadata/x", json!({}), 405, "not supported `PATCH` method for plugin_metadata"),
        ("PUT", "/routes/1?ttl=abc", route(), 400, "invalid argument ttl: should be a number"),
        ("GET", "/unknown", Value::Null, 404, "Unsupported resource type: unknown"),
        ("PUT", "/unknown/1", json!({}), 404, "Unsupported resource type: unknown"),
        ("GET", "", Value::Null, 404, "404 Route Not Found"),
        ("TRACE", "/routes", Value::Null, 404, "404 Route Not Found"),
    ] {
        let reply = bench.call(method, target, body.clone()).await;
        assert_eq!((reply.status, reply.error().as_str()), (status, expected), "{method} {target} {body}");
    }
    assert_eq!(bench.revision().await, before, "what is refused changes nothing");
}

#[tokio::test]
async fn every_mistake_is_named_at_once() {
    let bench = Bench::new();
    let body = json!({
        "uri": 1,
        "methods": ["BREW"],
        "vars": [["arg_k", "=", 1]],
        "upstream_id": "none",
        "upstream": { "type": "chash", "nodes": { "a:99999": 1 } },
        "plugins": { "limit-count": { "count": 0 }, "a/b": {} },
    });
    let reply = bench.call("PUT", "/routes/1", body.clone()).await;
    assert_eq!(
        reply.json(),
        json!({ "error_msg": reply.error() }),
        "APISIX's body, unless more is asked for"
    );
    let reply = bench.call("PUT", "/routes/1?errors=all", body).await;
    let errors = reply.json()["errors"].clone();
    let paths: Vec<_> =
        errors.as_array().unwrap().iter().map(|error| error["path"].as_str().unwrap()).collect();
    for path in [
        "/uri",
        "/methods/0",
        "/upstream/nodes",
        "/upstream/key",
        "/upstream_id",
        "/plugins/limit-count/count",
        "/plugins/a~1b",
        "/vars/0/1",
    ] {
        assert!(paths.contains(&path), "{path} in {paths:?}");
    }
    assert!(reply.error().starts_with("invalid configuration: "), "{reply:?}");
    assert!(errors.as_array().unwrap().iter().all(|error| error["message"].is_string()));
}

#[tokio::test]
async fn a_body_that_is_no_json_is_refused_with_its_place() {
    let bench = Bench::new();
    for (body, expected) in [
        ("{", "invalid request body: EOF while parsing an object at line 1 column 1"),
        ("{\n  uri: 1}", "invalid request body: key must be a string at line 2 column 3"),
        ("{} {}", "invalid request body: trailing characters at line 1 column 4"),
    ] {
        for target in ["/apisix/admin/routes/1", "/apisix/admin/schema/validate/routes"] {
            let method = if target.contains("schema") { "POST" } else { "PUT" };
            let reply = bench.send(request(method, target, body)).await;
            assert_eq!((reply.status, reply.error().as_str()), (400, expected));
            assert_eq!(reply.json()["req_body"], json!(body));
        }
    }
    let deep = "[".repeat(5000);
    let reply = bench.send(request("PUT", "/apisix/admin/routes/1", &deep)).await;
    assert_eq!(reply.status, 400);
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let bench = Bench::new();
    let mut request = request("PUT", "/apisix/admin/routes/1", "{");
    request.body_size = 1_678_025;
    let reply = bench.send(request).await;
    let expected =
        "invalid request body: request size 1678025 is greater than the maximum size 1572864 allowed";
    assert_eq!((reply.status, reply.error().as_str()), (400, expected));
}

#[tokio::test]
async fn what_the_store_has_no_room_for_is_refused() {
    let bench = Bench::new();
    let body =
        |padding: usize| json!({ "uri": "/a", "plugins": { "prometheus": { "x": "y".repeat(padding) } } });
    let limit = bench.admin.settings().body_limit;
    let body = body(limit - body(0).to_string().len());
    for (method, target) in [("PUT", "/routes/1"), ("POST", "/routes")] {
        let reply = bench.call(method, target, body.clone()).await;
        assert_eq!(reply.status, 400, "{:?}", reply.error());
    }
    assert_eq!(bench.revision().await, 0);
}

#[tokio::test]
async fn dots_are_no_ids() {
    let bench = Bench::new();
    bench.done("PUT", "/consumers/a", json!({ "username": "a" })).await;
    let upstream = json!({ "type": "roundrobin", "nodes": { "127.0.0.1:1": 1 } });
    let cases = [
        ("routes", json!({ "uri": "/a", "upstream": upstream })),
        ("services", json!({ "upstream": upstream })),
        ("upstreams", upstream),
        ("stream_routes", json!({ "upstream": { "type": "roundrobin", "nodes": { "127.0.0.1:1": 1 } } })),
        ("protos", json!({ "content": "syntax = \"proto3\";" })),
        ("global_rules", json!({ "plugins": {} })),
        ("consumer_groups", json!({ "plugins": {} })),
        ("plugin_configs", json!({ "plugins": {} })),
        ("plugin_metadata", json!({})),
        ("consumers", json!({ "username": ".." })),
        ("consumers/a/credentials", json!({ "plugins": { "key-auth": { "key": "k" } } })),
        ("secrets/vault", json!({ "uri": "http://127.0.0.1:1", "prefix": "p", "token": "t" })),
    ];
    for (collection, body) in cases {
        let mut fine = body.clone();
        for id in [".", "..", "%2e", "%2e%2e"] {
            let reply = bench.call("PUT", &format!("/{collection}/{id}"), body.clone()).await;
            assert_eq!(reply.status, 400, "{collection}/{id}: {}", reply.text);
        }
        if !matches!(collection, "plugin_metadata" | "consumers") {
            fine["id"] = json!("..");
            let reply = bench.call("PUT", &format!("/{collection}/a"), fine).await;
            assert_eq!(reply.status, 400, "{collection}: {}", reply.text);
        }
        for id in ["...", ".a", "a.", "a..b"] {
            if matches!(collection, "plugin_metadata" | "consumers") {
                continue;
            }
            let reply = bench.call("PUT", &format!("/{collection}/{id}"), body.clone()).await;
            assert!(matches!(reply.status, 200 | 201), "{collection}/{id}: {}", reply.text);
            bench.call("DELETE", &format!("/{collection}/{id}"), json!(null)).await;
        }
    }
}

#[tokio::test]
async fn a_resource_has_at_most_256_labels() {
    let bench = Bench::new();
    for (count, status) in [(256, 201), (257, 400), (30_000, 400)] {
        let labels: serde_json::Map<_, _> = (0..count).map(|n| (format!("l{n}"), json!("v"))).collect();
        let body = json!({ "uri": "/a", "labels": labels, "upstream": upstream() });
        let reply = bench.call("PUT", &format!("/routes/{count}"), body).await;
        assert_eq!(reply.status, status, "{count}: {}", &reply.text[..reply.text.len().min(300)]);
        assert!(reply.text.len() < 2_000 || status == 201, "the refusal doesn't repeat the labels");
    }
}
