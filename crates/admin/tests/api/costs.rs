//! Costs of GraphQL fields, below their service (t/admin/graphql-cost-decorations.t).

use crate::bench::Bench;
use serde_json::{Value, json};

const COSTS: &str = "/services/1/graphql_cost_decorations";

#[tokio::test]
async fn costs_belong_to_a_service_and_a_position() {
    let bench = Bench::new();
    let cost = |path: &str| json!({ "field_path": path });
    let one = format!("{COSTS}/1");
    let reply = bench.call("PUT", &one, cost("Query.a")).await;
    assert_eq!((reply.status, reply.error().as_str()), (404, "service not found"));
    bench.done("PUT", "/services/1", json!({})).await;
    assert_eq!(bench.call("GET", COSTS, Value::Null).await.status, 404);
    let reply = bench.call("PUT", &one, cost("Query.a")).await;
    assert_eq!((reply.status, &reply.json()["value"]["service_id"]), (201, &json!("1")));
    let reply = bench.call("POST", COSTS, cost("Query.b")).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    for (method, target, body, expected) in [
        (
            "PUT",
            format!("{COSTS}/2"),
            cost("Query.a"),
            "field_path Query.a is already decorated on this service by [1]",
        ),
        (
            "PATCH",
            one.clone(),
            cost("Query.b"),
            &*format!(
                "field_path Query.b is already decorated on this service by [{}]",
                reply.json()["value"]["id"].as_str().unwrap()
            ),
        ),
        ("PATCH", one.clone(), json!({"service_id": "2"}), "service_id can not be patched"),
        (
            "PUT",
            one.clone(),
            json!({"service_id": "2", "field_path": "A"}),
            "wrong service_id, it is taken from the path",
        ),
        ("PUT", one.clone(), json!({}), "invalid configuration: property \"field_path\" is required"),
        ("GET", "/graphql_cost_decorations/1".to_owned(), Value::Null, "missing service id"),
    ] {
        let reply = bench.call(method, &target, body.clone()).await;
        assert_eq!((reply.status, reply.error().as_str()), (400, expected), "{method} {target} {body}");
    }
    let patched = bench.call("PATCH", &one, json!({ "add_value": 3 })).await;
    assert_eq!((patched.status, &patched.json()["value"]["add_value"]), (200, &json!(3)));
    assert_eq!(bench.done("GET", "/services", Value::Null).await["total"], 1);
    bench.done("DELETE", "/services/1", Value::Null).await;
    bench.done("PUT", "/services/1", json!({})).await;
    assert_eq!(bench.call("GET", COSTS, Value::Null).await.status, 404, "they went with their service");
}
