//! Transactions, history and lint.

use crate::bench::{Bench, limit, request, route, timeless, upstream};
use serde_json::{Value, json};
use store::Store;

fn txn(operations: Value) -> Value {
    Value::Object([("operations".to_owned(), operations)].into_iter().collect())
}

#[tokio::test]
async fn a_transaction_is_one_revision() {
    let bench = Bench::new();
    bench.done("PUT", "/routes/old", route()).await;
    let before = bench.revision().await;
    // The route comes before what it refers to: the state after the transaction counts.
    let body = txn(json!([
        { "op": "put", "key": "/routes/1", "value": { "uri": "/a", "upstream_id": "1" }, "modifiedIndex": 0 },
        { "op": "put", "key": "/apisix/upstreams/1", "value": upstream() },
        { "op": "patch", "key": "/routes/old", "value": { "desc": "x" }, "modifiedIndex": before },
    ]));
    let done = bench.done("POST", "/txn", body).await;
    let revision = before + 1;
    assert_eq!(
        done,
        json!({ "revision": revision, "operations": [
            { "op": "put", "key": "/apisix/routes/1", "outcome": "created", "modifiedIndex": revision },
            { "op": "put", "key": "/apisix/upstreams/1", "outcome": "created", "modifiedIndex": revision },
            { "op": "patch", "key": "/apisix/routes/old", "outcome": "updated", "modifiedIndex": revision },
        ] })
    );
    assert_eq!(bench.revision().await, revision);
    let read = bench.done("GET", "/routes/1", Value::Null).await;
    assert_eq!(timeless(read["value"].clone()), json!({ "uri": "/a", "upstream_id": "1", "id": "1" }));
    assert_eq!(bench.done("GET", "/routes/old", Value::Null).await["value"]["desc"], "x");
}

#[tokio::test]
async fn a_failed_precondition_changes_nothing() {
    let bench = Bench::new();
    bench.done("PUT", "/routes/1", route()).await;
    let before = bench.revision().await;
    let put =
        |index: u64| json!({ "op": "put", "key": "/routes/1", "value": route(), "modifiedIndex": index });
    let other = json!({ "op": "put", "key": "/routes/2", "value": route() });
    for (body, path, key, current) in [
        (txn(json!([other, put(0)])), "/operations/1", "/apisix/routes/1", before),
        (txn(json!([other, put(before + 5)])), "/operations/1", "/apisix/routes/1", before),
        (
            json!({ "operations": [other], "preconditions": [{ "key": "/routes/9", "modifiedIndex": 4 }] }),
            "/preconditions/0",
            "/apisix/routes/9",
            0,
        ),
    ] {
        let reply = bench.call("POST", "/txn", body.clone()).await;
        assert_eq!(reply.status, 409, "{reply:?}");
        let said = reply.json();
        assert_eq!(
            (&said["path"], &said["key"], &said["modifiedIndex"]),
            (&json!(path), &json!(key), &json!(current))
        );
    }
    assert_eq!(bench.revision().await, before);
}

#[tokio::test]
async fn all_mistakes_are_told_with_their_places() {
    let bench = Bench::new();
    bench.done("PUT", "/upstreams/1", upstream()).await;
    bench.done("PUT", "/routes/1", json!({ "uri": "/a", "upstream_id": "1" })).await;
    let before = bench.revision().await;
    let body = json!({
        "operations": [
            { "op": "put", "key": "/routes/2", "value": { "uri": "/b", "upstream_id": "nope" } },
            { "op": "put", "key": "/routes/3", "value": { "uri": 5, "priority": "high" } },
            { "op": "delete", "key": "/upstreams/1" },
            { "op": "delete", "key": "/upstreams/7" },
            { "op": "frobnicate", "key": "/routes/4" },
            { "op": "put", "key": "/nothing", "value": {} },
            { "op": "put", "key": "/routes/5", "value": { "uri": "/", "create_time": 5 } },
            { "op": "put", "key": "/routes/6", "value": { "uri": "/", "plugins": { "limit-count": { "count": 0 } } } },
            { "op": "patch", "key": "/consumers/a", "value": {} },
            { "op": "put", "key": "/routes/2", "value": {} },
        ],
        "also": 1,
    });
    let reply = bench.call("POST", "/txn", body).await;
    assert_eq!(reply.status, 400, "{reply:?}");
    let said = reply.json();
    let paths: Vec<&str> =
        said["errors"].as_array().unwrap().iter().map(|e| e["path"].as_str().unwrap()).collect();
    for path in [
        "/operations/0/value/upstream_id",
        "/operations/1/value/uri",
        "/operations/1/value/priority",
        "/operations/2/key",
        "/operations/3/key",
        "/operations/4/op",
        "/operations/5/key",
        "/operations/5/key",
        "/operations/6/value",
        "/operations/7/value/plugins/limit-count/count",
        "/operations/8/op",
        "/operations/9/key",
        "/also",
    ] {
        assert!(paths.contains(&path), "{path} in {said:#}");
    }
    assert_eq!(bench.revision().await, before);
    let gone =
        txn(json!([{ "op": "delete", "key": "/upstreams/1" }, { "op": "delete", "key": "/routes/1" }]));
    assert_eq!(bench.done("POST", "/txn", gone).await["operations"][0]["outcome"], "deleted");
}

#[tokio::test]
async fn what_is_there_already_is_left_alone() {
    let bench = Bench::new();
    bench.done("PUT", "/routes/1", route()).await;
    let before = bench.revision().await;
    let body = || txn(json!([{ "op": "put", "key": "/routes/1", "value": route() }]));
    let done = bench.done("POST", "/txn?skip_unchanged=true", body()).await;
    assert_eq!(
        done,
        json!({ "operations": [{
            "op": "put", "key": "/apisix/routes/1", "outcome": "unchanged", "modifiedIndex": before }] })
    );
    assert_eq!(bench.revision().await, before);
    let mut other = route();
    other["uri"] = json!("/other");
    let body = txn(json!([{ "op": "put", "key": "/routes/1", "value": other }]));
    let done = bench.done("POST", "/txn?skip_unchanged=true&dry_run=true", body).await;
    assert_eq!(
        done["operations"][0]["changes"],
        json!([{ "op": "replace", "path": "/uri", "before": "/hello", "after": "/other" }])
    );
    assert_eq!(bench.revision().await, before, "a dry run writes nothing");
}

#[tokio::test]
async fn a_consumer_goes_with_its_credentials() {
    let bench = Bench::new();
    let body = txn(json!([
        { "op": "put", "key": "/consumers/a", "value": { "username": "a" } },
        { "op": "put", "key": "/consumers/a/credentials/c", "value": { "plugins": { "key-auth": { "key": "k" } } } },
    ]));
    bench.done("POST", "/txn", body).await;
    let orphan = txn(json!([
        { "op": "delete", "key": "/consumers/a" },
        { "op": "put", "key": "/consumers/a/credentials/c", "value": { "plugins": { "key-auth": { "key": "k" } } } },
    ]));
    assert_eq!(bench.call("POST", "/txn", orphan).await.status, 400);
    let both = txn(json!([
        { "op": "delete", "key": "/consumers/a" },
        { "op": "delete", "key": "/consumers/a/credentials/c" },
    ]));
    bench.done("POST", "/txn", both).await;
    assert_eq!(bench.call("GET", "/consumers/a/credentials/c", Value::Null).await.status, 404);
}

#[tokio::test]
async fn a_transaction_may_be_as_large_as_the_store_takes_it() {
    let bench = Bench::new();
    let limits = bench.done("GET", "/txn", Value::Null).await;
    assert_eq!(limits["operations_max"], 16_384);
    let operations: Vec<Value> =
        (0..1000).map(|n| json!({ "op": "put", "key": format!("/routes/{n}"), "value": route() })).collect();
    let done = bench.done("POST", "/txn", txn(operations.into())).await;
    assert_eq!(done["revision"], 1);
}

#[tokio::test]
async fn history_tells_who_changed_what() {
    let bench = Bench::new();
    bench.done("PUT", "/routes/1", route()).await;
    bench.done("PATCH", "/routes/1", json!({ "uri": "/b" })).await;
    bench.done("POST", "/routes", route()).await;
    bench.done("DELETE", "/routes/1", Value::Null).await;
    let all = bench.done("GET", "/history", Value::Null).await;
    let revisions: Vec<u64> =
        all["list"].as_array().unwrap().iter().map(|r| r["revision"].as_u64().unwrap()).collect();
    assert_eq!(revisions, [5, 4, 2, 1], "the drawing of an id is no change");
    assert_eq!(all["list"][0]["keys"], json!([{ "key": "/apisix/routes/1", "deleted": true }]));
    for record in all["list"].as_array().unwrap() {
        assert_eq!(record["actor"], "admin");
        assert!(record["time_ms"].as_u64().unwrap() > 1_700_000_000_000);
    }
    let page = bench.done("GET", "/history?limit=2", Value::Null).await;
    assert_eq!((page["list"].as_array().unwrap().len(), &page["next"]), (2, &json!(4)));
    let page = bench.done("GET", "/history?limit=2&before=4", Value::Null).await;
    assert_eq!(page["list"][0]["revision"], 2);
    let one = bench.done("GET", "/history/2", Value::Null).await;
    assert_eq!(one["changes"][0]["action"], "updated");
    assert_eq!(one["changes"][0]["before"]["uri"], "/hello");
    assert_eq!(
        one["changes"][0]["changes"],
        json!([{ "op": "replace", "path": "/uri", "before": "/hello", "after": "/b" }])
    );
    for (path, status) in
        [("/history/99", 404), ("/history/x", 400), ("/history?before=x", 400), ("/history/0", 404)]
    {
        assert_eq!(bench.call("GET", path, Value::Null).await.status, status, "{path}");
    }
    assert_eq!(bench.call("DELETE", "/history", Value::Null).await.status, 405);
    bench.store.compact(3).await.unwrap();
    for (path, status) in
        [("/history/1", 410), ("/history/2", 410), ("/history/4", 200), ("/history/99", 404)]
    {
        assert_eq!(bench.call("GET", path, Value::Null).await.status, status, "{path}");
    }
    let kept = bench.done("GET", "/history", Value::Null).await;
    for record in kept["list"].as_array().unwrap() {
        let path = format!("/history/{}", record["revision"]);
        assert_eq!(bench.call("GET", &path, Value::Null).await.status, 200, "{path} is listed");
    }
}

#[tokio::test]
async fn one_resource_is_rolled_back() {
    let bench = Bench::new();
    bench.done("PUT", "/upstreams/1", upstream()).await;
    bench.done("PUT", "/routes/1", json!({ "uri": "/a", "upstream_id": "1" })).await;
    let old = bench.done("GET", "/routes/1", Value::Null).await["value"].clone();
    bench.done("PUT", "/routes/1", json!({ "uri": "/b", "upstream": upstream() })).await;
    bench.done("PUT", "/routes/2", route()).await;
    bench.done("DELETE", "/upstreams/1", Value::Null).await;
    // What it referred to is gone.
    let reply = bench.call("POST", "/history/2/rollback?key=/routes/1", Value::Null).await;
    assert_eq!(reply.status, 400, "{reply:?}");
    assert_eq!(reply.json()["errors"][0]["key"], "/apisix/routes/1");
    assert_eq!(reply.json()["errors"][0]["path"], "/upstream_id");
    bench.done("POST", "/history/2/rollback?key=/upstreams/1", Value::Null).await;
    bench.done("POST", "/history/2/rollback?key=/routes/1", Value::Null).await;
    assert_eq!(bench.done("GET", "/routes/1", Value::Null).await["value"], old);
    assert_eq!(bench.call("GET", "/routes/2", Value::Null).await.status, 200, "others stay");
    let again = bench.done("POST", "/history/2/rollback?key=/routes/1", Value::Null).await;
    assert_eq!(again["revision"], Value::Null, "there is nothing to do");
}

#[tokio::test]
async fn everything_is_rolled_back_at_once() {
    let bench = Bench::new();
    bench.done("PUT", "/upstreams/1", upstream()).await;
    bench.done("PUT", "/routes/1", json!({ "uri": "/a", "upstream_id": "1" })).await;
    bench.done("PUT", "/consumers", json!({ "username": "a" })).await;
    let then = bench.revision().await;
    bench.done("DELETE", "/routes/1", Value::Null).await;
    bench.done("DELETE", "/upstreams/1", Value::Null).await;
    bench.done("PUT", "/routes/2", json!({ "uri": "/c", "plugins": { "limit-count": limit() } })).await;
    let before = bench.revision().await;
    let path = format!("/history/{then}/rollback");
    let dry = bench.call("POST", &format!("{path}?dry_run=true"), Value::Null).await.json();
    assert_eq!(dry["operations"].as_array().unwrap().len(), 3);
    assert_eq!(bench.revision().await, before);
    let done = bench.call("POST", &path, Value::Null).await.json();
    assert_eq!(done["revision"], before + 1, "{done}");
    assert_eq!(bench.call("GET", "/routes/2", Value::Null).await.status, 404);
    assert_eq!(bench.call("GET", "/routes/1", Value::Null).await.status, 200);
    let newest = bench.done("GET", "/history?limit=1", Value::Null).await;
    assert_eq!(newest["list"][0]["actor"], "admin");
}

#[tokio::test]
async fn viewers_read_and_change_nothing() {
    let bench = Bench::new();
    bench.done("PUT", "/routes/1", route()).await;
    for (method, path, status) in [
        ("GET", "/history", 200),
        ("GET", "/lint", 200),
        ("POST", "/txn", 401),
        ("POST", "/history/1/rollback", 401),
    ] {
        let mut asked = request(method, &format!("/apisix/admin{path}"), "{}");
        asked.headers = vec![("x-api-key".to_owned(), crate::bench::VIEWER.to_owned())];
        assert_eq!(bench.send(asked).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn lint_finds_what_is_most_likely_a_mistake() {
    let bench = Bench::new();
    assert_eq!(
        bench.done("GET", "/lint", Value::Null).await,
        json!({ "errors": 0, "warnings": 0, "list": [] })
    );
    bench.done("PUT", "/routes/1", route()).await;
    bench.done("PUT", "/routes/2", route()).await;
    bench.done("PUT", "/upstreams/1", json!({ "type": "roundrobin", "nodes": { "127.0.0.1:1": 0 } })).await;
    let said = bench.done("GET", "/lint", Value::Null).await;
    let rules: Vec<&str> =
        said["list"].as_array().unwrap().iter().map(|f| f["rule"].as_str().unwrap()).collect();
    assert_eq!(rules, ["no-node", "unreachable-route", "unused"]);
    assert_eq!((&said["errors"], &said["warnings"]), (&json!(1), &json!(2)));
    assert_eq!(said["list"][1]["key"], "/apisix/routes/2");
}
