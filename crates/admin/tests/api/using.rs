//! References: what is referred to must exist and stays (t/admin/*-force-delete.t, services2.t, routes2.t).

use crate::bench::{Bench, limit, upstream};
use serde_json::{Value, json};

#[tokio::test]
async fn what_a_resource_refers_to_must_exist() {
    let bench = Bench::new();
    for (field, message) in [
        ("upstream_id", "failed to fetch upstream info by upstream id [x], response code: 404"),
        ("service_id", "failed to fetch service info by service id [x], response code: 404"),
        (
            "plugin_config_id",
            "failed to fetch plugin config info by plugin config id [x], response code: 404",
        ),
    ] {
        let reply = bench
            .call("PUT", "/routes/1?errors=all", json!({ "uri": "/", "upstream": upstream(), field: "x" }))
            .await;
        assert_eq!((reply.status, reply.error().as_str()), (400, message));
        assert_eq!(reply.json()["errors"][0]["path"], json!(format!("/{field}")));
    }
    let reply = bench.call("PUT", "/services/1", json!({ "upstream_id": 5 })).await;
    let message = "failed to fetch upstream info by upstream id [5], response code: 404";
    assert_eq!((reply.status, reply.error().as_str()), (400, message));
    bench.done("PUT", "/upstreams/5", upstream()).await;
    bench.done("PUT", "/services/1", json!({ "upstream_id": 5 })).await;
    bench.done("PUT", "/routes/1", json!({ "uri": "/", "service_id": 1, "upstream_id": "5" })).await;
    let reply = bench.call("PATCH", "/routes/1", json!({ "upstream_id": 6 })).await;
    let message = "failed to fetch upstream info by upstream id [6], response code: 404";
    assert_eq!((reply.status, reply.error().as_str()), (400, message));
}

#[tokio::test]
async fn what_is_in_use_stays_unless_forced() {
    let split = json!({ "traffic-split": { "rules": [{ "weighted_upstreams": [{ "upstream_id": 1 }] }] } });
    for (user, body, used, message) in [
        (
            "/routes/r",
            json!({ "uri": "/", "upstream_id": 1 }),
            "/upstreams/1",
            "can not delete this upstream, route [r] is still using it now",
        ),
        (
            "/services/s",
            json!({ "upstream_id": "1" }),
            "/upstreams/1",
            "can not delete this upstream, service [s] is still using it now",
        ),
        (
            "/routes/r",
            json!({ "uri": "/", "plugins": split }),
            "/upstreams/1",
            "can not delete this upstream, plugin in route [r] is still using it now",
        ),
        (
            "/services/s",
            json!({ "plugins": split }),
            "/upstreams/1",
            "can not delete this upstream, plugin in service [s] is still using it now",
        ),
        (
            "/plugin_configs/p",
            json!({ "plugins": split }),
            "/upstreams/1",
            "can not delete this upstream, plugin in plugin_config [p] is still using it now",
        ),
        (
            "/global_rules/g",
            json!({ "plugins": split }),
            "/upstreams/1",
            "can not delete this upstream, plugin in global_rules [g] is still using it now",
        ),
        (
            "/routes/r",
            json!({ "uri": "/", "service_id": 1 }),
            "/services/1",
            "can not delete this service directly, route [r] is still using it now",
        ),
        (
            "/routes/r",
            json!({ "uri": "/", "upstream_id": 1, "plugin_config_id": 1 }),
            "/plugin_configs/1",
            "can not delete this plugin config, route [r] is still using it now",
        ),
    ] {
        let bench = Bench::new();
        bench.done("PUT", "/upstreams/1", upstream()).await;
        bench.done("PUT", "/services/1", json!({ "upstream": upstream() })).await;
        bench.done("PUT", "/plugin_configs/1", json!({ "plugins": { "limit-count": limit() } })).await;
        assert_eq!(bench.call("PUT", user, body).await.status, 201, "{user}");
        let before = bench.revision().await;
        for target in [used.to_owned(), format!("{used}?force=1")] {
            let reply = bench.call("DELETE", &target, Value::Null).await;
            assert_eq!((reply.status, reply.error().as_str()), (400, message));
        }
        assert_eq!(bench.revision().await, before);
        let reply = bench.call("DELETE", &format!("{used}?force=true"), Value::Null).await;
        assert_eq!(reply.status, 200, "{used}");
    }
}

#[tokio::test]
async fn what_is_no_longer_in_use_goes() {
    let bench = Bench::new();
    bench.done("PUT", "/upstreams/1", upstream()).await;
    bench.done("PUT", "/upstreams/11", upstream()).await;
    bench.done("PUT", "/routes/1", json!({ "uri": "/", "upstream_id": 11 })).await;
    bench.done("DELETE", "/upstreams/1", Value::Null).await;
    bench.done("DELETE", "/routes/1", Value::Null).await;
    bench.done("DELETE", "/upstreams/11", Value::Null).await;
}

#[tokio::test]
async fn a_plugin_stands_in_one_global_rule() {
    let bench = Bench::new();
    bench.done("PUT", "/global_rules/1", json!({ "plugins": { "limit-count": limit() } })).await;
    bench.done("PUT", "/global_rules/1", json!({ "plugins": { "limit-count": limit() } })).await;
    bench.done("PUT", "/global_rules/2", json!({ "plugins": { "prometheus": {} } })).await;
    let reply =
        bench.call("PATCH", "/global_rules/2", json!({ "plugins": { "limit-count": limit() } })).await;
    let message = "plugin 'limit-count' already exists in global rule with id '1'";
    assert_eq!((reply.status, reply.error().as_str()), (400, message));
}
