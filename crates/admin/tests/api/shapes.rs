//! Bodies and statuses of what succeeds, in both versions (t/admin/*2.t, response_body_format.t).

use crate::bench::{Bench, limit, route, timeless, upstream};
use serde_json::{Value, json};

#[tokio::test]
async fn every_kind_is_written_read_and_deleted() {
    let bench = Bench::new();
    for (collection, id, body) in [
        ("routes", "1", route()),
        ("services", "s.1", json!({ "upstream": upstream(), "plugins": { "limit-count": limit() } })),
        ("upstreams", "u_1", upstream()),
        ("plugin_configs", "p-1", json!({ "plugins": { "limit-count": limit() } })),
        ("global_rules", "g1", json!({ "plugins": { "prometheus": {} } })),
    ] {
        let (target, key) = (format!("/{collection}/{id}"), format!("/apisix/{collection}/{id}"));
        let mut value = body.clone();
        value["id"] = json!(id);

        let reply = bench.call("PUT", &target, body.clone()).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        assert_eq!(reply.header("X-API-VERSION"), Some("v3"));
        assert_eq!(reply.header("Content-Type"), Some("application/json"));
        assert!(reply.text.ends_with("}\n"));
        let mut written = reply.json();
        written["value"] = timeless(written["value"].take());
        assert_eq!(written, json!({ "key": key, "value": value }));

        let again = bench.call("PUT", &target, body).await;
        assert_eq!(again.status, 200);

        let mut read = bench.call("GET", &target, Value::Null).await.json();
        read["value"] = timeless(read["value"].take());
        let (created, modified) =
            (read["createdIndex"].as_u64().unwrap(), read["modifiedIndex"].as_u64().unwrap());
        assert_eq!(modified, created + 1);
        let expected =
            json!({ "key": key, "value": value, "createdIndex": created, "modifiedIndex": modified });
        assert_eq!(read, expected);

        let mut list = bench.call("GET", &format!("/{collection}"), Value::Null).await.json();
        list["list"][0]["value"] = timeless(list["list"][0]["value"].take());
        assert_eq!(list, json!({ "total": 1, "list": [expected] }));

        let gone = bench.call("DELETE", &target, Value::Null).await;
        assert_eq!((gone.status, gone.json()), (200, json!({ "key": key, "deleted": "1" })));
        for method in ["DELETE", "GET", "PATCH"] {
            let body = if method == "PATCH" { json!({}) } else { Value::Null };
            let reply = bench.call(method, &target, body).await;
            assert_eq!(
                (reply.status, reply.json()),
                (404, json!({ "message": "Key not found" })),
                "{method}"
            );
        }
        let list = bench.call("GET", &format!("/{collection}/"), Value::Null).await;
        assert_eq!((list.status, list.json()), (200, json!({ "total": 0, "list": [] })));
    }
}

#[tokio::test]
async fn metadata_has_an_id_and_no_times() {
    let bench = Bench::new();
    let reply = bench.call("PUT", "/plugin_metadata/limit-count", json!({ "ikey": "k", "skey": 1 })).await;
    let value = json!({ "ikey": "k", "skey": 1, "id": "limit-count" });
    assert_eq!(reply.status, 201);
    assert_eq!(reply.json(), json!({ "key": "/apisix/plugin_metadata/limit-count", "value": value }));
    let reply =
        bench.call("PUT", "/plugin_metadata/limit-count", json!({ "id": "other", "ikey": "k" })).await;
    assert_eq!((reply.status, &reply.json()["value"]["id"]), (200, &json!("limit-count")));
    let reply = bench.call("PUT", "/plugin_metadata/prometheus", json!({ "any": {} })).await;
    assert_eq!(reply.status, 201, "a plugin without a schema of its metadata takes any");
    let reply = bench.call("DELETE", "/plugin_metadata/prometheus", Value::Null).await;
    assert_eq!(reply.json(), json!({ "key": "/apisix/plugin_metadata/prometheus", "deleted": "1" }));
}

#[tokio::test]
async fn ids_are_generated_from_revisions() {
    let bench = Bench::new();
    for collection in ["routes", "services", "upstreams"] {
        let body = if collection == "routes" { route() } else { json!({ "nodes": { "a:1": 1 } }) };
        let body = if collection == "services" { json!({ "upstream": body }) } else { body };
        let before = bench.revision().await;
        let reply = bench.call("POST", &format!("/{collection}"), body).await;
        let id = format!("{:020}", before + 1);
        assert_eq!(reply.status, 201, "{reply:?}");
        assert_eq!(reply.json()["key"], json!(format!("/apisix/{collection}/{id}")));
        assert_eq!(reply.json()["value"]["id"], json!(id));
        let reply = bench.call("GET", &format!("/{collection}/{id}"), Value::Null).await;
        assert_eq!(reply.status, 200);
    }
}

#[tokio::test]
async fn an_id_in_the_body_is_enough() {
    let bench = Bench::new();
    let mut body = route();
    body["id"] = json!(7);
    let reply = bench.call("PUT", "/routes", body.clone()).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    assert_eq!((&reply.json()["key"], &reply.json()["value"]["id"]), (&json!("/apisix/routes/7"), &json!(7)));
    let reply = bench.call("PUT", "/routes/7", body).await;
    assert_eq!((reply.status, &reply.json()["value"]["id"]), (200, &json!("7")));
}

#[tokio::test]
async fn creation_time_survives_replacement() {
    let bench = Bench::new();
    bench.done("PUT", "/routes/1", route()).await;
    let patched = bench.done("PATCH", "/routes/1", json!({ "create_time": 5, "update_time": 6 })).await;
    assert_eq!((&patched["value"]["create_time"], &patched["value"]["update_time"]), (&json!(5), &json!(6)));
    let replaced = bench.done("PUT", "/routes/1", route()).await;
    assert_eq!(replaced["value"]["create_time"], json!(5));
    assert!(replaced["value"]["update_time"].as_u64().unwrap() > 6);
}

#[tokio::test]
async fn the_second_version_wraps_in_nodes() {
    let bench = Bench::v2();
    let reply = bench.call("PUT", "/upstreams/1", upstream()).await;
    assert_eq!((reply.status, reply.header("X-API-VERSION")), (201, Some("v2")));
    let mut written = reply.json();
    let value = written["node"]["value"].take();
    assert_eq!(written, json!({ "action": "set", "node": { "key": "/apisix/upstreams/1", "value": null } }));
    let read = bench.done("GET", "/upstreams/1", Value::Null).await;
    assert_eq!(read, json!({ "action": "get", "node": { "key": "/apisix/upstreams/1", "value": value } }));
    let list = bench.done("GET", "/upstreams?page=1&page_size=10&name=none", Value::Null).await;
    let node = json!({ "key": "/apisix/upstreams/1", "value": value, "createdIndex": 1, "modifiedIndex": 1 });
    let nodes = json!({ "key": "/apisix/upstreams", "dir": true, "nodes": [node] });
    assert_eq!(list, json!({ "action": "get", "node": nodes }));
    let patched = bench.done("PATCH", "/upstreams/1", json!({ "desc": "x" })).await;
    assert_eq!(
        (&patched["action"], &patched["node"]["value"]["desc"]),
        (&json!("compareAndSwap"), &json!("x"))
    );
    let gone = bench.done("DELETE", "/upstreams/1", Value::Null).await;
    let expected = json!({ "action": "delete", "key": "/apisix/upstreams/1", "deleted": "1", "node": {} });
    assert_eq!(gone, expected);
    let posted = bench.done("POST", "/upstreams", upstream()).await;
    assert_eq!(posted["action"], json!("create"));
    let reply = bench.call("GET", "/upstreams/none", Value::Null).await;
    assert_eq!((reply.status, reply.json()), (404, json!({ "message": "Key not found" })));
}

#[tokio::test]
async fn fields_that_no_plugin_knows_are_accepted_and_named() {
    let bench = Bench::new();
    let plugins = json!({ "limit-count": { "count": 1, "time_window": 1, "co\"unt": 2, "ü": 1 } });
    let body = json!({ "uri": "/a", "upstream": upstream(), "plugins": plugins });
    let expected = r#"299 tidegate "unknown fields: /plugins/limit-count/co\"unt, /plugins/limit-count/?""#;
    for (method, target) in [("PUT", "/routes/1"), ("POST", "/routes"), ("PATCH", "/routes/1")] {
        let reply = bench.call(method, target, body.clone()).await;
        assert!(reply.status < 300, "{reply:?}");
        assert_eq!(reply.header("Warning"), Some(expected), "{method}");
    }
    assert_eq!(bench.call("PUT", "/routes/2", route()).await.header("Warning"), None);
}

#[tokio::test]
async fn a_ttl_reaches_the_store() {
    let bench = Bench::new();
    bench.done("PUT", "/routes/1?ttl=3600", route()).await;
    let entry = store::Store::get(&*bench.store, "/routes/1").await.unwrap().unwrap();
    assert!(entry.expires_at_ms.is_some());
    bench.done("PUT", "/routes/1", route()).await;
    let entry = store::Store::get(&*bench.store, "/routes/1").await.unwrap().unwrap();
    assert!(entry.expires_at_ms.is_none());
    let history = store::Store::history(&*bench.store, None, 1).await.unwrap();
    assert_eq!(history[0].actor.as_deref(), Some("admin"));
}
