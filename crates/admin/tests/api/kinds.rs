//! Secrets, protos, ssls and stream routes, and what all kinds have in common.

use crate::bench::{Bench, request, settings, upstream};
use admin::AdminSettings;
use serde_json::{Value, json};

#[tokio::test]
async fn secrets_stand_below_their_manager() {
    let bench = Bench::new();
    let vault = json!({ "uri": "http://127.0.0.1:8200", "prefix": "kv/apisix", "token": "t" });
    let reply = bench.call("PUT", "/secrets/vault/one", vault.clone()).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    assert_eq!(reply.json()["key"], "/apisix/secrets/vault/one");
    assert_eq!(reply.json()["value"]["id"], "vault/one");
    bench.done("PUT", "/secrets/aws/one", json!({ "access_key_id": "a", "secret_access_key": "b" })).await;
    bench.done("PUT", "/secrets/gcp/one", json!({ "auth_file": "/a" })).await;
    assert_eq!(bench.done("GET", "/secrets", Value::Null).await["total"], 3);
    assert_eq!(bench.done("GET", "/secrets/aws", Value::Null).await["total"], 1);
    let patched = bench.call("PATCH", "/secrets/vault/one/token", json!("u")).await;
    assert_eq!((patched.status, &patched.json()["value"]["token"]), (200, &json!("u")));
    for (method, target, body, status, expected) in [
        ("PUT", "/secrets/vault", vault.clone(), 400, "missing secret id"),
        ("PUT", "/secrets/none/1", vault.clone(), 400, "invalid secret manager: none"),
        ("PUT", "/secrets/vault/1", json!({"id": "1"}), 400, "wrong secret id"),
        (
            "PUT",
            "/secrets/vault/1",
            json!({"prefix": "a", "token": "b"}),
            400,
            "invalid configuration: property \"uri\" is required",
        ),
        ("PATCH", "/secrets/vault", json!({}), 400, "no secret id"),
        ("POST", "/secrets/vault", vault.clone(), 405, "not supported `POST` method for secret"),
    ] {
        let reply = bench.call(method, target, body.clone()).await;
        assert_eq!((reply.status, reply.error().as_str()), (status, expected), "{method} {target} {body}");
    }
    bench.done("DELETE", "/secrets/vault/one", Value::Null).await;
}

#[tokio::test]
async fn a_proto_in_use_stays() {
    let bench = Bench::new();
    bench.done("PUT", "/protos/1", json!({ "content": "syntax = \"proto3\";" })).await;
    let broken = bench.call("PUT", "/protos/1", json!({ "content": "message M {}\n  message M {}" })).await;
    let expected = "invalid content: content.proto:2:11: name 'M' is defined twice";
    assert_eq!((broken.status, broken.error().as_str()), (400, expected));
    let using = json!({ "uri": "/", "plugins": { "traffic-split": { "proto_id": 1 } } });
    bench.done("PUT", "/routes/1", using).await;
    let reply = bench.call("DELETE", "/protos/1", Value::Null).await;
    let expected = "can not delete this proto, route [1] is still using it now";
    assert_eq!((reply.status, reply.error().as_str()), (400, expected));
    bench.done("DELETE", "/protos/1?force=true", Value::Null).await;
    assert_eq!(bench.call("PATCH", "/protos/1", json!({})).await.status, 405);
}

#[tokio::test]
async fn private_keys_are_not_shown() {
    let bench = Bench::new();
    // References are taken as they are; PEM is the certificate check's own test.
    let reference = format!("$secret://vault/1/{}", "k".repeat(128));
    let ssl = json!({
        "sni": "a.com", "cert": reference, "key": reference, "certs": [reference], "keys": [reference],
    });
    assert_eq!(bench.call("PUT", "/ssls/1", ssl.clone()).await.status, 201);
    for shown in [
        bench.done("GET", "/ssls/1", Value::Null).await["value"].clone(),
        bench.done("GET", "/ssls", Value::Null).await["list"][0]["value"].clone(),
    ] {
        assert_eq!((shown.get("key"), shown.get("keys")), (None, None));
        assert_eq!(shown["cert"], json!(reference));
    }
    let patched = bench.call("PATCH", "/ssls/1", json!({ "status": 0 })).await;
    assert_eq!(patched.status, 200, "what isn't shown is still there");
    let noise = "x".repeat(128);
    for (body, expected) in [
        (
            json!({"sni": "a", "cert": noise, "key": noise}),
            "failed to parse cert: PEM_read_bio_X509_AUX() failed",
        ),
        (json!({"cert": reference, "key": reference}), "invalid configuration: then clause did not match"),
        (
            json!({"sni": "a", "cert": reference, "key": reference, "certs": [reference]}),
            "mismatched number of certs and keys",
        ),
    ] {
        let reply = bench.call("PUT", "/ssls/2", body).await;
        assert_eq!((reply.status, reply.error().as_str()), (400, expected));
    }
    // A certificate for clients can't be shown to upstreams.
    let body = json!({ "nodes": {}, "tls": { "client_cert_id": 1 } });
    let reply = bench.call("PUT", "/upstreams/1", body).await;
    assert_eq!(reply.error(), "failed to fetch ssl info by ssl id [1], wrong ssl type");
}

#[tokio::test]
async fn stream_routes_are_for_streams() {
    let bench = Bench::new();
    let body = json!({ "server_port": 9100, "upstream": upstream() });
    bench.done("PUT", "/stream_routes/1", body.clone()).await;
    for (body, expected) in [
        (json!({"remote_addr": ":/8", "upstream": upstream()}), "invalid remote_addr: :/8"),
        (json!({"plugins": {"limit-count": {}}}), "unknown plugin [limit-count]"),
        (json!({"protocol": {"name": "none"}}), "unknown protocol [none]"),
        (
            json!({"protocol": {"name": "a", "superior_id": 2}}),
            "stream route can not set itself as superior_id",
        ),
        (
            json!({"protocol": {"name": "a", "superior_id": 9}}),
            "failed to fetch stream routes[9], response code: 404",
        ),
        (json!({"upstream_id": 9}), "failed to fetch upstream info by upstream id [9], response code: 404"),
    ] {
        let reply = bench.call("PUT", "/stream_routes/2", body).await;
        assert_eq!((reply.status, reply.error().as_str()), (400, expected));
    }
    bench.done("PUT", "/services/1", json!({})).await;
    bench.done("PUT", "/stream_routes/3", json!({ "service_id": 1 })).await;
    let reply = bench.call("DELETE", "/services/1", Value::Null).await;
    let expected = "can not delete this service directly, stream_route [3] is still using it now";
    assert_eq!((reply.status, reply.error().as_str()), (400, expected));
    assert_eq!(bench.call("PATCH", "/stream_routes/1", json!({})).await.status, 405);
    let bench = Bench::with(AdminSettings { streams: false, ..settings() });
    let reply = bench.call("PUT", "/stream_routes/1", body).await;
    let expected = "stream mode is disabled, can not add stream routes";
    assert_eq!((reply.status, reply.error().as_str()), (400, expected));
}

#[tokio::test]
async fn fields_that_nobody_knows_are_named_or_refused() {
    let bench = Bench::new();
    let body =
        json!({ "uri": "/", "upstream": { "nodes": [{ "host": "a", "weight": 1, "colour": "red" }] } });
    let reply = bench.call("PUT", "/routes/1", body.clone()).await;
    assert_eq!(reply.status, 201);
    let named = "299 tidegate \"unknown fields: /upstream/nodes/0/colour\"";
    assert_eq!(reply.header("Warning"), Some(named));
    let before = bench.revision().await;
    let reply = bench.call("PUT", "/routes/1?strict=true", body.clone()).await;
    let expected = "unknown field /upstream/nodes/0/colour";
    assert_eq!((reply.status, reply.error().as_str()), (400, expected));
    let mut strict = request("POST", "/apisix/admin/routes", &body.to_string());
    strict.headers.push(("Strict".to_owned(), "true".to_owned()));
    assert_eq!(bench.send(strict).await.status, 400);
    assert_eq!(bench.revision().await, before);
}
