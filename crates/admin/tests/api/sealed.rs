//! Secrets that the store holds encrypted, sent back by clients in the form in which they were shown.

use crate::bench::{Bench, upstream};
use serde_json::{Value, json};

/// What a client keeps of a resource that it was shown.
fn shown(answer: &Value) -> Value {
    let mut value = answer["value"].clone();
    let fields = value.as_object_mut().unwrap();
    fields.retain(|name, _| !["create_time", "update_time"].contains(&name.as_str()));
    value
}

/// A certificate and its key, in PEM.
fn identity() -> (String, String) {
    let generated = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    (generated.cert.pem(), generated.signing_key.serialize_pem())
}

#[tokio::test]
async fn what_is_read_may_be_written_back() {
    let bench = Bench::sealed();
    let (cert, key) = identity();
    let mut body = upstream();
    body["tls"] = json!({ "client_cert": cert, "client_key": key });
    let written = bench.done("PUT", "/upstreams/1", body.clone()).await;
    let read = bench.done("GET", "/upstreams/1", Value::Null).await;
    for answer in [&written, &read] {
        let mut again = shown(answer);
        assert!(again["tls"]["client_key"].as_str().unwrap().starts_with("$tg1$"), "{again}");
        again["desc"] = json!("changed");
        bench.done("PUT", "/upstreams/1", again.clone()).await;
        bench.done("PATCH", "/upstreams/1", again.clone()).await;
        bench
            .done(
                "PUT",
                "/upstreams/2",
                json!({ "id": "2", "tls": again["tls"], "type": "roundrobin", "nodes": {} }),
            )
            .await;
        let operation = json!({ "op": "put", "key": "/upstreams/1", "value": again });
        let answer =
            bench.done("POST", "/txn?skip_unchanged=true", json!({ "operations": [operation] })).await;
        assert_eq!(answer["operations"][0]["outcome"], "unchanged");
    }
    let (other, _) = identity();
    let mut mixed = shown(&read);
    mixed["tls"]["client_cert"] = json!(other);
    let refusal = bench.call("PUT", "/upstreams/1", mixed).await;
    assert!(refusal.status == 400 && refusal.error().contains("does not belong"), "{refusal:?}");
}

#[tokio::test]
async fn a_key_that_somebody_has_is_recognised_sealed_too() {
    let bench = Bench::sealed();
    let consumer =
        |name: &str, key: &Value| json!({ "username": name, "plugins": { "key-auth": { "key": key } } });
    let written = bench.done("PUT", "/consumers", consumer("a", &json!("mine"))).await;
    let sealed = &written["value"]["plugins"]["key-auth"]["key"];
    assert_ne!(*sealed, "mine");
    let refusal = bench.call("PUT", "/consumers", consumer("b", sealed)).await;
    assert_eq!(refusal.error(), "duplicate key of plugin key-auth found with consumer: a");
    bench.done("PUT", "/consumers", consumer("a", sealed)).await;
    let read = bench.done("GET", "/consumers/a", Value::Null).await;
    assert_eq!(read["value"]["plugins"]["key-auth"]["key"], "mine");
}

#[tokio::test]
async fn a_certificate_that_is_unchanged_keeps_its_key() {
    for bench in [Bench::sealed(), Bench::new()] {
        let (cert, key) = identity();
        let ssl = json!({ "cert": cert, "key": key, "certs": [cert], "keys": [key], "snis": ["a.test"] });
        bench.done("PUT", "/ssls/1", ssl).await;
        let mut again = shown(&bench.done("GET", "/ssls/1", Value::Null).await);
        let sync =
            |value: &Value| json!({ "operations": [{ "op": "put", "key": "/ssls/1", "value": value }] });
        let same = bench.done("POST", "/txn?skip_unchanged=true", sync(&again)).await;
        assert_eq!(same["operations"][0]["outcome"], "unchanged");
        again["snis"] = json!(["b.test"]);
        let changed = bench.done("POST", "/txn?skip_unchanged=true", sync(&again)).await;
        assert_eq!(changed["operations"][0]["outcome"], "updated");
        bench.done("PATCH", "/ssls/1", json!({ "snis": ["c.test"] })).await;
        again["cert"] = json!(identity().0);
        let refused = bench.call("POST", "/txn?skip_unchanged=true", sync(&again)).await;
        assert_eq!(refused.status, 400, "{refused:?}");
    }
}
