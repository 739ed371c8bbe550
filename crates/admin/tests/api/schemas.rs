//! Schemas, plugins, and checks without a write (t/admin/schema.t, schema-validate.t, plugins.t, config-validate.t).

use crate::bench::{Bench, limit, route, upstream};
use serde_json::{Value, json};

#[tokio::test]
async fn plugins_are_listed_by_priority() {
    let bench = Bench::new();
    for (target, status, expected) in [
        ("/plugins/list", 200, r#"["key-auth","limit-count","traffic-split","prometheus"]"#),
        ("/plugins/list?subsystem=http", 200, r#"["key-auth","limit-count","traffic-split","prometheus"]"#),
        ("/plugins/list?subsystem=stream", 200, r#"["prometheus"]"#),
        ("/plugins/list?subsystem=x", 400, "invalid subsystem passed"),
        ("/plugins/none", 404, r#"{"error_msg":"plugin not found in subsystem http"}"#),
        ("/plugins", 404, r#"{"error_msg":"plugin not found in subsystem http"}"#),
        (
            "/plugins/limit-count?subsystem=stream",
            404,
            r#"{"error_msg":"plugin not found in subsystem stream"}"#,
        ),
        ("/plugins/limit-count?subsystem=x", 400, r#"{"error_msg":"unsupported subsystem: x"}"#),
        ("/plugins/limit-count?schema_type=consumer", 400, r#"{"error_msg":"not found schema"}"#),
        ("/schema/none", 400, r#"{"error_msg":"not found schema: none"}"#),
        ("/schema/plugins/none", 404, r#"{"error_msg":"plugin not found in subsystem http"}"#),
    ] {
        let reply = bench.call("GET", target, Value::Null).await;
        assert_eq!((reply.status, reply.text.trim_end()), (status, expected), "{target}");
    }
}

#[tokio::test]
async fn schemas_are_shown() {
    let bench = Bench::new();
    for target in
        ["/plugins/limit-count", "/schema/plugins/limit-count", "/plugins/limit-count?subsystem=http"]
    {
        let schema = bench.done("GET", target, Value::Null).await;
        assert_eq!(schema["required"], json!(["count", "time_window"]), "{target}");
        assert!(schema["properties"]["_meta"].is_object());
    }
    let schema = bench.done("GET", "/schema/plugins/limit-count?schema_type=metadata", Value::Null).await;
    assert_eq!(schema["required"], json!(["ikey"]));
    for target in [
        "/schema/route",
        "/schema/service",
        "/schema/upstream",
        "/schema/plugin_config",
        "/schema/global_rule",
        "/schema/consumer",
        "/schema/credential",
        "/schema/consumer_group",
        "/schema/ssl",
        "/schema/stream_route",
        "/schema/proto",
    ] {
        let schema = bench.done("GET", target, Value::Null).await;
        assert!(schema["properties"]["create_time"].is_object(), "{target}");
    }
    let all = bench.done("GET", "/plugins?all=true", Value::Null).await;
    assert_eq!(all["limit-count"]["priority"], json!(1002));
    assert!(all["prometheus"]["schema"].is_object());
    let streams = bench.done("GET", "/plugins?all=true&subsystem=stream", Value::Null).await;
    assert_eq!(streams.as_object().unwrap().keys().collect::<Vec<_>>(), ["prometheus"]);
}

#[tokio::test]
async fn only_reading_is_possible_there() {
    let bench = Bench::new();
    for (method, target, status, expected) in [
        ("PUT", "/schema/route", 404, r#"{"error_msg":"not found"}"#),
        ("DELETE", "/plugins/limit-count", 404, r#"{"error_msg":"not found"}"#),
        ("PUT", "/plugins/reload", 200, "done"),
        (
            "POST",
            "/plugins/reload",
            405,
            r#"{"error_msg":"please use PUT method to reload the plugins, POST method is not allowed."}"#,
        ),
        (
            "GET",
            "/plugins/reload",
            405,
            r#"{"error_msg":"please use PUT method to reload the plugins, GET method is not allowed."}"#,
        ),
    ] {
        let reply = bench.call(method, target, Value::Null).await;
        assert_eq!((reply.status, reply.text.trim_end()), (status, expected), "{method} {target}");
    }
}

#[tokio::test]
async fn a_resource_is_checked_without_being_written() {
    let bench = Bench::new();
    let before = bench.revision().await;
    for (collection, body, expected) in [
        ("routes", route(), None),
        ("upstreams", upstream(), None),
        (
            "routes",
            json!({ "uri": 666, "upstream": upstream() }),
            Some("property \"uri\" validation failed: wrong type: expected string, got number"),
        ),
        (
            "routes",
            json!({ "uri": "", "upstream": upstream() }),
            Some("property \"uri\" validation failed: string too short, expected at least 1, got 0"),
        ),
        ("routes", Value::Null, Some("wrong type: expected object, got nil")),
        ("unknown", json!({}), Some("Unsupported resource type: unknown")),
    ] {
        let reply = bench.call("POST", &format!("/schema/validate/{collection}"), body.clone()).await;
        match expected {
            None => assert_eq!((reply.status, reply.text.as_str()), (200, "")),
            Some(words) => {
                assert_eq!(reply.status, if collection == "unknown" { 404 } else { 400 });
                assert_eq!(reply.error(), words);
            }
        }
    }
    let body = json!({ "uri": 1, "methods": "x", "upstream": upstream() });
    let reply = bench.call("POST", "/schema/validate/routes", body).await;
    assert_eq!(reply.json()["errors"].as_array().unwrap().len(), 2);
    assert_eq!(bench.revision().await, before);
}

#[tokio::test]
async fn a_whole_configuration_is_checked_at_once() {
    let bench = Bench::new();
    let good = json!({
        "routes": [{ "id": "1", "uri": "/", "upstream_id": "not-there-yet" }],
        "upstreams": [{ "id": 1, "nodes": { "a:1": 1 } }],
        "upstreams_conf_version": 5,
        "plugin_metadata": [{ "id": "limit-count", "ikey": "x" }],
    });
    let reply = bench.call("POST", "/configs/validate", good).await;
    assert_eq!((reply.status, reply.text.as_str()), (200, "{}\n"));
    let bad = json!({
        "routes": [{ "id": "1", "uri": 5, "upstream_id": "u" }, { "id": 1, "uri": "/", "plugins": { "none": {} } }],
        "services": 5,
        "consumers": [{ "desc": "nameless" }],
        "routes_conf_version": "x",
        "global_rules": [{ "id": "1", "plugins": { "limit-count": limit() } }],
    });
    let reply = bench.call("POST", "/configs/validate", bad).await;
    assert_eq!((reply.status, reply.error().as_str()), (400, "Configuration validation failed"));
    let wrong =
        "invalid configuration: property \"uri\" validation failed: wrong type: expected string, got number";
    let found: Vec<_> = reply.json()["errors"].as_array().unwrap().clone();
    let shown: Vec<_> =
        found.iter().map(|e| (e["resource_type"].as_str().unwrap(), e["error"].as_str().unwrap())).collect();
    assert_eq!(
        shown,
        [
            ("routes", wrong),
            ("routes", "unknown plugin [none]"),
            ("routes", "found duplicate id 1 in routes"),
            ("services", "an array is expected"),
            ("consumers", "invalid configuration: property \"username\" is required"),
            ("routes", "routes_conf_version must be a number, got string"),
        ]
    );
    assert_eq!((&found[1]["index"], &found[1]["resource_id"]), (&json!(1), &json!(1)));
    assert_eq!(
        found[1]["errors"],
        json!([{ "path": "/routes/1/plugins/none", "message": "unknown plugin [none]", "code": "TG0305" }])
    );
    let reply = bench.call("POST", "/configs/validate", Value::Null).await;
    assert_eq!(reply.error(), "invalid request body: empty request body");
}
