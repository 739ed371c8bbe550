//! Consumers, their credentials and their groups (t/admin/consumers*.t, credentials.t, consumer-group*.t).

use crate::bench::{Bench, limit, timeless};
use serde_json::{Value, json};

fn keyed(key: &str) -> Value {
    json!({ "key-auth": { "key": key } })
}

#[tokio::test]
async fn a_consumer_is_written_under_its_name() {
    let bench = Bench::new();
    let body = json!({ "username": "jack", "desc": "a person", "plugins": keyed("k1") });
    let reply = bench.call("PUT", "/consumers", body.clone()).await;
    assert_eq!(reply.status, 201);
    let written = reply.json();
    assert_eq!(written["key"], "/apisix/consumers/jack");
    assert_eq!(timeless(written["value"].clone()), body, "no id is added");
    assert_eq!(bench.call("PUT", "/consumers/jack", body.clone()).await.status, 200);
    let shown = bench.done("GET", "/consumers/jack", Value::Null).await;
    assert_eq!(shown["value"]["username"], "jack");
    for (method, target, body, status, expected) in [
        ("PUT", "/consumers/jill", body.clone(), 400, "wrong username"),
        ("PUT", "/consumers", json!({}), 400, "invalid configuration: property \"username\" is required"),
        (
            "PUT",
            "/consumers",
            json!({"username": "a", "plugins": {"key-auth": {}}}),
            400,
            "invalid plugins configuration: failed to check the configuration of plugin key-auth err: property \
             \"key\" is required",
        ),
        (
            "PUT",
            "/consumers",
            json!({"username": "a", "plugins": {"none": {}}}),
            400,
            "invalid plugins configuration: unknown plugin [none]",
        ),
        (
            "PUT",
            "/consumers",
            json!({"username": "a", "group_id": "g"}),
            400,
            "failed to fetch consumer group info by consumer group id [g], response code: 404",
        ),
        (
            "PUT",
            "/consumers",
            json!({"username": "a", "plugins": keyed("k1")}),
            400,
            "duplicate key of plugin key-auth found with consumer: jack",
        ),
        ("POST", "/consumers", body.clone(), 405, "not supported `POST` method for consumer"),
        ("PATCH", "/consumers/jack", json!({}), 405, "not supported `PATCH` method for consumer"),
        ("DELETE", "/consumers", Value::Null, 400, "missing consumer id"),
        (
            "PUT",
            "/consumers",
            json!({"username": "a", "create_time": 1}),
            400,
            "the property is forbidden:  create_time",
        ),
    ] {
        let reply = bench.call(method, target, body.clone()).await;
        assert_eq!((reply.status, reply.error().as_str()), (status, expected), "{method} {target} {body}");
    }
}

#[tokio::test]
async fn credentials_stand_below_their_consumer() {
    let bench = Bench::new();
    let body = json!({ "plugins": keyed("c1") });
    let reply = bench.call("PUT", "/consumers/jack/credentials/1", body.clone()).await;
    assert_eq!((reply.status, reply.error().as_str()), (404, "consumer not found"));
    bench.done("PUT", "/consumers", json!({ "username": "jack", "plugins": keyed("k1") })).await;
    bench.done("PUT", "/consumers", json!({ "username": "jill" })).await;
    let reply = bench.call("GET", "/consumers/jack/credentials", Value::Null).await;
    assert_eq!((reply.status, reply.json()), (404, json!({ "message": "Key not found" })));
    let reply = bench.call("PUT", "/consumers/jack/credentials/1", body.clone()).await;
    assert_eq!(reply.status, 201);
    assert_eq!(reply.json()["key"], "/apisix/consumers/jack/credentials/1");
    assert_eq!(reply.json()["value"]["id"], "1");
    let named = json!({ "id": "2", "plugins": keyed("c2") });
    bench.done("PUT", "/consumers/jack/credentials", named).await;
    let list = bench.done("GET", "/consumers/jack/credentials", Value::Null).await;
    assert_eq!((&list["total"], &list["list"][0]["value"]["id"]), (&json!(2), &json!("1")));
    let consumers = bench.done("GET", "/consumers", Value::Null).await;
    assert_eq!(consumers["total"], 2, "credentials are no consumers");
    let taken = "duplicate key of plugin key-auth found with credential: 1 of consumer: jack";
    for (method, target, body, status, expected) in [
        ("PUT", "/consumers/jack/credentials", body.clone(), 400, "missing credential id"),
        ("PUT", "/consumers/jack/credentials/1", json!({"id": "2"}), 400, "wrong credential id"),
        ("PUT", "/consumers/jill/credentials/1", body.clone(), 400, taken),
        ("PUT", "/consumers/jack/credentials/3", body.clone(), 400, taken),
        ("PUT", "/consumers/jill", json!({"username": "jill", "plugins": keyed("c1")}), 400, taken),
        (
            "PUT",
            "/consumers/jack/credentials/1",
            json!({"plugins": {"limit-count": limit()}}),
            400,
            "only supports auth type plugins in consumer credential",
        ),
        (
            "POST",
            "/consumers/jack/credentials",
            body.clone(),
            405,
            "not supported `POST` method for credential",
        ),
        ("GET", "/credentials", Value::Null, 400, "missing consumer id"),
    ] {
        let reply = bench.call(method, target, body.clone()).await;
        assert_eq!((reply.status, reply.error().as_str()), (status, expected), "{method} {target} {body}");
    }
    // A consumer may say again what a credential of its own says, and both may be written again.
    bench.done("PUT", "/consumers", json!({ "username": "jack", "plugins": keyed("c1") })).await;
    bench.done("PUT", "/consumers/jack/credentials/2", json!({ "plugins": keyed("c2") })).await;
    bench.done("DELETE", "/consumers/jack", Value::Null).await;
    assert_eq!(bench.call("GET", "/consumers/jack/credentials/1", Value::Null).await.status, 404);
    bench.done("PUT", "/consumers/jill", json!({ "username": "jill", "plugins": keyed("c1") })).await;
}

#[tokio::test]
async fn a_consumer_with_more_credentials_than_a_transaction_holds_is_deleted_whole() {
    let bench = Bench::new();
    bench.done("PUT", "/consumers", json!({ "username": "jack" })).await;
    for n in 0..130 {
        let reply = bench.call("PUT", &format!("/consumers/jack/credentials/{n}"), json!({})).await;
        assert_eq!(reply.status, 201);
    }
    bench.done("DELETE", "/consumers/jack", Value::Null).await;
    bench.done("PUT", "/consumers", json!({ "username": "jack" })).await;
    assert_eq!(bench.call("GET", "/consumers/jack/credentials", Value::Null).await.status, 404);
}

#[tokio::test]
async fn a_group_in_use_stays() {
    let bench = Bench::new();
    let group = json!({ "plugins": { "limit-count": limit() } });
    bench.done("PUT", "/consumer_groups/g", group).await;
    bench.done("PUT", "/consumers", json!({ "username": "jack", "group_id": "g" })).await;
    let reply = bench.call("DELETE", "/consumer_groups/g", Value::Null).await;
    let expected = "can not delete this consumer group, consumer [jack] is still using it now";
    assert_eq!((reply.status, reply.error().as_str()), (400, expected));
    bench.done("DELETE", "/consumer_groups/g?force=true", Value::Null).await;
}
