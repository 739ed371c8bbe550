//! Several clients at once.

use crate::bench::{Bench, request, route, settings, upstream};
use admin::AdminSettings;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn no_patch_is_lost() {
    let bench = Arc::new(Bench::new());
    bench.done("PUT", "/routes/1", route()).await;
    let patches: Vec<_> = (0..64)
        .map(|n| {
            let bench = Arc::clone(&bench);
            tokio::spawn(async move {
                let body = json!({ "labels": { format!("l{n}"): "x" } });
                bench.call("PATCH", "/routes/1", body).await.status
            })
        })
        .collect();
    for patch in patches {
        assert_eq!(patch.await.unwrap(), 200);
    }
    let read = bench.done("GET", "/routes/1", Value::Null).await;
    assert_eq!(read["value"]["labels"].as_object().unwrap().len(), 64);
}

#[tokio::test]
async fn no_id_is_drawn_twice() {
    let bench = Arc::new(Bench::new());
    let posts: Vec<_> = (0..16)
        .map(|_| {
            let bench = Arc::clone(&bench);
            tokio::spawn(
                async move { bench.call("POST", "/routes", route()).await.json()["key"].to_string() },
            )
        })
        .collect();
    let mut keys = HashSet::new();
    for post in posts {
        assert!(keys.insert(post.await.unwrap()));
    }
    assert_eq!(bench.done("GET", "/routes", Value::Null).await["total"], json!(16));
}

#[tokio::test]
async fn a_reference_never_dangles() {
    let bench = Arc::new(Bench::new());
    for n in 0..20 {
        let upstreams = format!("/upstreams/{n}");
        assert_eq!(bench.call("PUT", &upstreams, upstream()).await.status, 201);
        let route = json!({ "uri": "/", "upstream_id": n });
        let (put, delete) = (Arc::clone(&bench), Arc::clone(&bench));
        let put = tokio::spawn(async move { put.call("PUT", &format!("/routes/{n}"), route).await.status });
        let delete = tokio::spawn(async move { delete.call("DELETE", &upstreams, Value::Null).await.status });
        let both = (put.await.unwrap(), delete.await.unwrap());
        assert!(both == (201, 400) || both == (400, 200), "{both:?}");
    }
}

#[tokio::test]
async fn an_answer_waits_for_the_workers_but_not_for_ever() {
    let patient = AdminSettings { apply_wait: Duration::from_secs(600), ..settings() };
    let bench = Bench::with(patient);
    bench.applied.send_replace(0);
    let admin = Arc::clone(&bench.admin);
    let put = tokio::spawn(async move {
        admin.handle(request("PUT", "/apisix/admin/routes/1", &route().to_string())).await.status
    });
    while bench.revision().await == 0 {
        tokio::task::yield_now().await;
    }
    assert!(!put.is_finished());
    bench.applied.send_replace(1);
    assert_eq!(put.await.unwrap(), 201);

    let hasty = AdminSettings { apply_wait: Duration::from_millis(1), ..settings() };
    let bench = Bench::with(hasty);
    bench.applied.send_replace(0);
    assert_eq!(bench.call("PUT", "/routes/1", route()).await.status, 201, "the workers never took it");
}
