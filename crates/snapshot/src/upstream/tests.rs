//! What an upstream as written becomes.

use super::*;
use serde_json::{Value, json};

fn compile(written: Value) -> Result<Upstream, Vec<ConfigError>> {
    Upstream::compile(&serde_json::from_value(written).expect("the shape of an upstream"))
}

#[test]
fn nodes_get_ports_and_authorities_by_scheme() {
    for (scheme, node, host, port, authority) in [
        ("http", json!({"host": "a.com", "weight": 1}), NodeHost::Name("a.com".into()), 80, "a.com"),
        ("https", json!({"host": "a.com", "weight": 1}), NodeHost::Name("a.com".into()), 443, "a.com"),
        (
            "https",
            json!({"host": "a.com", "port": 80, "weight": 1}),
            NodeHost::Name("a.com".into()),
            80,
            "a.com:80",
        ),
        (
            "grpc",
            json!({"host": "::1", "port": 50051, "weight": 1}),
            NodeHost::Ip([0, 0, 0, 0, 0, 0, 0, 1].into()),
            50051,
            "[::1]:50051",
        ),
        (
            "http",
            json!({"host": "[::1]", "weight": 1}),
            NodeHost::Ip([0, 0, 0, 0, 0, 0, 0, 1].into()),
            80,
            "[::1]",
        ),
        (
            "http",
            json!({"host": "127.0.0.1", "port": 1980, "weight": 0, "priority": -1}),
            NodeHost::Ip([127, 0, 0, 1].into()),
            1980,
            "127.0.0.1:1980",
        ),
    ] {
        let upstream = compile(json!({"scheme": scheme, "nodes": [node]})).expect("valid");
        let compiled = &upstream.nodes[0];
        assert_eq!(
            (&compiled.host, compiled.port, &*compiled.authority),
            (&host, port, authority),
            "{scheme} {node}"
        );
    }
}

#[test]
fn what_is_absent_has_apisix_defaults() {
    let upstream = compile(json!({"nodes": {"a:1": 1, "b:2": 1, "c:3": 0}})).expect("valid");
    assert_eq!(
        (upstream.algorithm, upstream.retries(), upstream.retry_timeout),
        (Algorithm::RoundRobin, 2, None)
    );
    assert_eq!(upstream.timeouts, Timeouts::default());
    assert_eq!(
        (upstream.scheme, upstream.pass_host, upstream.keepalive),
        (Scheme::Http, PassHost::Pass, None)
    );
    assert_eq!(compile(json!({"nodes": []})).expect("valid").retries(), 0);
    assert_eq!(compile(json!({"nodes": {"a:1": 1, "b:2": 1}, "retries": 0})).expect("valid").retries(), 0);
}

#[test]
fn times_are_read_in_seconds() {
    let upstream = compile(json!({
        "nodes": {}, "retry_timeout": 0.5, "timeout": {"connect": 0.25, "send": 2, "read": 3},
        "keepalive_pool": {"size": 8, "idle_timeout": 0}
    }));
    let upstream = upstream.expect("valid");
    let seconds = Duration::from_secs;
    assert_eq!(upstream.retry_timeout, Some(Duration::from_millis(500)));
    let timeouts = Timeouts { connect: Duration::from_millis(250), send: seconds(2), read: seconds(3) };
    assert_eq!(upstream.timeouts, timeouts);
    assert_eq!(upstream.keepalive, Some(Keepalive { size: 8, idle_timeout: None, requests: 1000 }));
}

#[test]
fn the_hash_key_is_what_hash_on_says() {
    for (hash_on, key, expected) in [
        ("vars", Some("arg_id"), HashKey::Var(Var::Arg("id".into()))),
        ("header", Some("X-Session_Id"), HashKey::Var(Var::Http("x-session-id".into()))),
        ("cookie", Some("Sid"), HashKey::Var(Var::Cookie("Sid".into()))),
        ("consumer", None, HashKey::Var(Var::ConsumerName)),
        ("vars_combinations", Some("$uri$arg_a"), HashKey::Template(Template::parse("$uri$arg_a"))),
    ] {
        let upstream = compile(json!({"nodes": {}, "type": "chash", "hash_on": hash_on, "key": key}));
        assert_eq!(upstream.expect("valid").hash_key, expected, "{hash_on}");
    }
}

#[test]
fn every_mistake_is_named() {
    for (written, paths) in [
        (json!({"nodes": {}, "type": "fair"}), vec!["/type"]),
        (json!({"nodes": {}, "type": "chash"}), vec!["/key"]),
        (json!({"nodes": {}, "type": "fair", "pass_host": "rewrite"}), vec!["/type", "/upstream_host"]),
        (
            json!({"nodes": {}, "timeout": {"connect": 0, "send": 1, "read": -1}}),
            vec!["/timeout/connect", "/timeout/read"],
        ),
        (json!({"nodes": {}, "retry_timeout": 1e300}), vec!["/retry_timeout"]),
        (json!({"nodes": {}, "keepalive_pool": {"idle_timeout": -1}}), vec!["/keepalive_pool/idle_timeout"]),
    ] {
        let errors = compile(written.clone()).map(|_| ()).expect_err("mistakes");
        assert_eq!(errors.iter().map(|error| error.path.as_str()).collect::<Vec<_>>(), paths, "{written}");
    }
    let error = compile(json!({"nodes": {}, "type": "fair"})).expect_err("one").remove(0);
    assert!(error.message.contains("\"fair\""), "{error}");
}
