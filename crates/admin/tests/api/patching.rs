//! PATCH in both forms (t/admin/routes.t, services.t, upstream.t, global-rules.t).

use crate::bench::{Bench, limit, timeless, upstream};
use serde_json::{Value, json};

#[tokio::test]
async fn both_forms_change_what_they_name() {
    let bench = Bench::new();
    for (target, body, expected) in [
        ("/routes/1", json!({ "desc": "x" }), json!({ "desc": "x" })),
        ("/routes/1", json!({ "methods": null, "status": 0 }), json!({ "methods": null, "status": 0 })),
        (
            "/routes/1",
            json!({ "upstream": { "nodes": { "127.0.0.1:1980": null, "b:2": 2 } } }),
            json!({ "upstream": { "type": "roundrobin", "nodes": { "b:2": 2 } } }),
        ),
        ("/routes/1", json!([]), json!({})),
        (
            "/routes/1/upstream/nodes",
            json!({ "c:3": 3 }),
            json!({ "upstream": { "type": "roundrobin", "nodes": { "c:3": 3 } } }),
        ),
        ("/routes/1/methods", json!(["POST"]), json!({ "methods": ["POST"] })),
        ("/routes/1/status/", json!(1), json!({ "status": 1 })),
        ("/routes/1/plugins/limit-count", limit(), json!({ "plugins": { "limit-count": limit() } })),
    ] {
        let base = json!({ "uri": "/a", "methods": ["GET"], "upstream": upstream(), "id": "1" });
        bench.done("PUT", "/routes/1", base.clone()).await;
        let reply = bench.call("PATCH", target, body.clone()).await;
        assert_eq!(reply.status, 200, "{target} {body}: {reply:?}");
        let mut wanted = base;
        wanted.as_object_mut().unwrap().extend(expected.as_object().unwrap().clone());
        wanted.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        assert_eq!(reply.json()["key"], json!("/apisix/routes/1"));
        assert_eq!(timeless(reply.json()["value"].clone()), wanted, "{target} {body}");
        let read = bench.done("GET", "/routes/1", Value::Null).await;
        assert_eq!(timeless(read["value"].clone()), wanted);
    }
}

#[tokio::test]
async fn a_patch_is_checked_as_a_whole() {
    let bench = Bench::new();
    bench.done("PUT", "/routes/1", json!({ "uri": "/a", "upstream": upstream(), "desc": "d" })).await;
    let before = bench.revision().await;
    for (target, body, expected) in [
        ("/routes/1", json!({ "id": 2 }), "wrong route id"),
        (
            "/routes/1",
            json!({ "uri": null }),
            "invalid configuration: allOf 1 failed: value should match only one schema, but matches none",
        ),
        ("/routes/1/desc/deeper", json!(1), "invalid sub-path: /desc"),
        ("/routes/1/plugins/none", json!({}), "unknown plugin [none]"),
        (
            "/routes/1/uri",
            json!(1),
            "invalid configuration: property \"uri\" validation failed: wrong type: expected string, got number",
        ),
    ] {
        let reply = bench.call("PATCH", target, body.clone()).await;
        assert_eq!((reply.status, reply.error().as_str()), (400, expected), "{target} {body}");
    }
    let reply = bench.send(crate::bench::request("PATCH", "/apisix/admin/routes/1/uri", "null")).await;
    assert_eq!(reply.status, 400, "{reply:?}");
    assert_eq!(bench.revision().await, before);
}
