//! Lists with filters and pages (t/admin/filter.t).

use crate::bench::Bench;
use serde_json::{Value, json};

#[tokio::test]
async fn lists_are_filtered_then_paged() {
    let bench = Bench::new();
    bench.done("PUT", "/upstreams/1", json!({ "nodes": { "a:1": 1 } })).await;
    for n in 1..=11 {
        let body = json!({
            "name": n.to_string(), "uri": format!("/hello{n}"), "upstream_id": "1", "labels": { format!("l{n}"): "x" },
        });
        assert_eq!(bench.call("PUT", &format!("/routes/{n}"), body).await.status, 201);
    }
    // What APISIX keeps below a resource is no resource of the list.
    store::Store::put(&*bench.store, "/routes/1/below", b"{}".as_slice().into(), None).await.unwrap();
    for (query, total, first, shown) in [
        ("", 11, "1", 11),
        ("?page=1&page_size=10", 11, "1", 10),
        ("?page=2&page_size=10", 11, "11", 1),
        ("?page=9&page_size=10", 11, "", 0),
        ("?name=1&page=1&page_size=10", 3, "1", 3),
        ("?label=l7", 1, "7", 1),
        ("?uri=hello1", 3, "1", 3),
        ("?filter=upstream_id%3D1", 11, "1", 11),
        ("?filter=service_id%3D1", 0, "", 0),
    ] {
        let list = bench.call("GET", &format!("/routes/{query}"), Value::Null).await.json();
        assert_eq!(list["total"], json!(total), "{query}");
        assert_eq!(list["list"].as_array().unwrap().len(), shown, "{query}");
        assert_eq!(list["list"][0]["value"]["id"].as_str().unwrap_or_default(), first, "{query}");
        assert!(shown == 0 || list["list"][0]["createdIndex"].is_u64());
    }
    let reply = bench.call("GET", "/routes/?page=1&page_size=2", Value::Null).await;
    assert_eq!((reply.status, reply.text.as_str()), (400, "page_size must be between 10 and 500"));
    let reply = bench.call("GET", "/routes/1/below", Value::Null).await;
    assert_eq!(reply.status, 200, "what follows the id is not looked at");
}
